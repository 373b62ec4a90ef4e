//! The packets of a foreign probe, as captures of Go's TLS 1.3 and HTTP/2 have them: 5.4 kB in all, where the draft counts
//! with 5000 B.

/// Who sends.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Sends {
    Client,
    Server,
}

pub const HANDSHAKE: u32 = 0;
/// The connection ends. Nobody waits for it.
pub const CLOSE: u32 = 3;
/// Payloads by stage: handshake, TLS, request, close. A full segment is the most. Without payload they are SYN, SYN/ACK,
/// ACK or FIN.
const CLIENT: [&[u32]; 4] = [&[0], &[0, 1448, 44], &[0, 0, 64, 92, 67], &[31, 0, 24, 0]];
const SERVER: [&[u32]; 4] = [&[0], &[0, 1448, 404], &[0, 61, 44, 89], &[0, 24, 0]];
/// A packet's number is its stage and its place in it.
const PLACES: u32 = 8;

pub fn payloads(sends: Sends, stage: u32) -> &'static [u32] {
    match sends {
        Sends::Client => CLIENT[stage as usize],
        Sends::Server => SERVER[stage as usize],
    }
}

pub fn number(stage: u32, place: usize) -> u32 {
    stage * PLACES + place as u32
}

/// The stage that the server answers when this packet has come: the last of the client's. That others of a request are lost
/// goes unseen.
pub fn answered(number: u32) -> Option<u32> {
    let stage = number / PLACES;
    (number % PLACES + 1 == CLIENT[stage as usize].len() as u32).then_some(stage)
}

/// What has come of an answer.
#[derive(Copy, Clone, Default, Debug)]
pub struct Came(u8);

impl Came {
    /// One more packet of this stage; says whether all is there.
    pub fn add(&mut self, stage: u32, number: u32) -> bool {
        if number / PLACES == stage {
            self.0 |= 1 << (number % PLACES);
        }
        let answer = SERVER[stage as usize];
        let has_come = |place: usize| self.0 & 1 << place != 0;
        // An ACK of its own is not waited for.
        (0..answer.len()).all(|place| has_come(place) || answer[place] == 0 && stage != HANDSHAKE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both directions, with 66 B of headers and 8 B more in the handshake.
    #[test]
    fn a_probe_has_the_size_that_the_draft_counts_with() {
        let payloads = CLIENT.iter().chain(&SERVER).flat_map(|stage| stage.iter());
        let bytes = 16 + payloads.map(|payload| payload + 66).sum::<u32>();
        assert!((5000..5500).contains(&bytes), "{bytes}");
    }

    #[test]
    fn an_answer_is_whole_in_any_order_and_without_its_acks() {
        let mut came = Came::default();
        assert!(!came.add(2, number(2, 3)));
        assert!(!came.add(2, number(2, 1)));
        assert!(!came.add(2, number(2, 1)));
        assert!(!came.add(2, number(1, 2)));
        assert!(came.add(2, number(2, 2)));
        assert!(Came::default().add(HANDSHAKE, number(HANDSHAKE, 0)));
    }

    #[test]
    fn the_last_packet_of_a_request_is_answered() {
        assert_eq!([0, 1, 2].map(|place| answered(number(1, place))), [None, None, Some(1)]);
        assert_eq!(answered(number(CLOSE, 3)), Some(CLOSE));
    }
}
