//! Whether a reduction was not justified, so that it can be undone.

use crate::sack::Block;

/// What has to be known for that of the current episode (Linux `undo_marker`, `undo_retrans`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Undo {
    /// The first segment outstanding when the episode began; `None`: there is nothing to undo.
    marker: Option<u32>,
    /// Retransmissions that no D-SACK has proven unnecessary; `None`: nothing was sent again yet.
    unproven: Option<u32>,
}

impl Default for Undo {
    fn default() -> Undo {
        Undo { marker: None, unproven: Some(0) }
    }
}

impl Undo {
    /// An episode begins, with so many retransmissions under way.
    pub fn begin(&mut self, una: u32, retrans_out: u32) {
        self.marker = Some(una);
        self.unproven = (retrans_out > 0).then_some(retrans_out);
    }
    /// There is nothing to undo any more.
    pub fn end(&mut self) {
        self.marker = None;
    }
    #[inline]
    pub fn is_open(&self) -> bool {
        self.marker.is_some()
    }
    /// Every retransmission of the episode was unnecessary (RFC 2883; Linux `tcp_try_undo_dsack`).
    #[inline]
    pub fn is_proven(&self) -> bool {
        self.marker.is_some() && self.unproven == Some(0)
    }
    pub fn count_retransmission(&mut self) {
        self.unproven = Some(self.unproven.unwrap_or(0) + 1);
    }
    /// These segments arrived twice.
    pub fn count_duplicates(&mut self, block: Block) {
        if let (Some(marker), Some(unproven)) = (self.marker, &mut self.unproven)
            && block.end > marker
        {
            *unproven = unproven.saturating_sub(block.end - block.start);
        }
    }
}
