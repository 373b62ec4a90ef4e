//! What the application has for the sender.

use super::{ENDLESS, FIRST_WINDOW_KIB, SenderConfig};
use crate::time::Time;
use crate::transport::send_queue::SendQueue;
use crate::transport::stream::Stream;

/// What the application has written and TCP has not sent.
pub struct Data {
    /// Payload not yet sent; of an endless transfer more than a run can send.
    pub left: u64,
    /// The application writes piece by piece: more may follow what is there.
    pub stream: Option<Box<Stream>>,
    pub queue: SendQueue,
    /// What the receiver lets be outstanding, bytes; `None`: anything.
    pub receive_window: Option<u64>,
    /// Segments for which there is always room: one, unless the peer may close its window.
    pub least_room: u64,
    pub sent_at: Time,
    /// When the application wrote what it has to send. What leaves at once is gone when it closes, so that
    /// the FIN goes alone (Linux `tcp_send_fin`), and is due.
    pub written_at: Time,
    pub fin_is_due: bool,
    /// The request of a client has come.
    pub asked: bool,
    /// The largest window that the receiver has offered.
    pub max_window_kib: u16,
}

impl Data {
    pub fn new(config: &SenderConfig) -> Data {
        Data {
            left: Data::whole(config),
            stream: config.stream.then(Box::default),
            queue: SendQueue::default(),
            receive_window: config.receive_window,
            least_room: 1,
            sent_at: Time::ZERO,
            written_at: Time::NEVER,
            fin_is_due: false,
            asked: false,
            max_window_kib: FIRST_WINDOW_KIB,
        }
    }
    /// What there is to send from the start, bytes.
    pub fn whole(config: &SenderConfig) -> u64 {
        config.bytes.unwrap_or(if config.stream { 0 } else { ENDLESS })
    }
    #[inline]
    pub fn is_there(&self) -> bool {
        self.left > 0 || self.fin_is_due
    }
    /// Whole segments and the rest of the next `quota` segments.
    #[inline(always)]
    pub fn next(&self, quota: u32, mss: u64) -> (u32, u32) {
        match self.left >= u64::from(quota) * mss {
            true => (quota, 0),
            false => ((self.left / mss) as u32, (self.left % mss) as u32),
        }
    }
}
