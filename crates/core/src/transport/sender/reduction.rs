//! How the window comes down: proportional rate reduction (RFC 6937), for loss and for marks.

/// An episode in which TCP brings the window towards the threshold.
#[derive(Clone, Debug, Default)]
pub struct Reduction {
    /// The window when it began; 0: there was none yet.
    pub prior_cwnd: u32,
    delivered: u32,
    sent: u32,
}

impl Reduction {
    pub fn begin(cwnd: u32) -> Reduction {
        Reduction { prior_cwnd: cwnd, delivered: 0, sent: 0 }
    }

    /// So many segments have left during it.
    #[inline]
    pub fn count_sent(&mut self, segments: u32) {
        self.sent += segments;
    }

    /// They have not.
    pub fn count_unsent(&mut self, segments: u32) {
        self.sent = self.sent.saturating_sub(segments);
    }

    /// The window after an ACK of `delivered` segments: per segment delivered, ssthresh/prior_cwnd segments may leave;
    /// below ssthresh, slow start's pace at most. `None`: it stays.
    pub fn window(
        &mut self,
        delivered: u32,
        in_flight: u32,
        ssthresh: u32,
        goes_well: bool,
    ) -> Option<u32> {
        if delivered == 0 || self.prior_cwnd == 0 {
            return None;
        }
        self.delivered += delivered;
        let (ssthresh, sent) = (u64::from(ssthresh), u64::from(self.sent));
        let (total, delivered) = (u64::from(self.delivered), u64::from(delivered));
        let send = match ssthresh.checked_sub(in_flight.into()) {
            None => (ssthresh * total).div_ceil(self.prior_cwnd.into()).saturating_sub(sent),
            Some(spare) => {
                let paced = total.saturating_sub(sent).max(delivered);
                (paced + u64::from(goes_well)).min(spare)
            }
        };
        // The first retransmission always leaves.
        let send = send.max(u64::from(sent == 0));
        Some(in_flight + send as u32)
    }
}
