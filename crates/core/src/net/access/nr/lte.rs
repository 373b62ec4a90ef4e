//! Transport blocks of LTE: the index that an MCS or a channel quality gives, and its bits (TS 36.213).

use crate::net::air::Way;

/// Bits of a block by its index, over 25, 50, 75 and 100 resource blocks (table 7.1.7.2.1-1).
const BITS: [(f64, [u32; 27]); 4] = [
    (
        25.0,
        [
            680, 904, 1096, 1416, 1800, 2216, 2600, 3112, 3496, 4008, 4392, 4968, 5736, 6456, 7224,
            7736, 7992, 9144, 9912, 10680, 11448, 12576, 13536, 14112, 15264, 15840, 18336,
        ],
    ),
    (
        50.0,
        [
            1384, 1800, 2216, 2856, 3624, 4392, 5160, 6200, 6968, 7992, 8760, 9912, 11448, 12960,
            14112, 15264, 16416, 18336, 19848, 21384, 22920, 25456, 27376, 28336, 30576, 31704,
            36696,
        ],
    ),
    (
        75.0,
        [
            2088, 2728, 3368, 4392, 5352, 6712, 7736, 9144, 10680, 11832, 12960, 15264, 16992,
            19080, 21384, 22920, 24496, 27376, 29296, 32856, 35160, 37888, 40576, 43816, 45352,
            46888, 55056,
        ],
    ),
    (
        100.0,
        [
            2792, 3624, 4584, 5736, 7224, 8760, 10296, 12216, 14112, 15840, 17568, 19848, 22920,
            25456, 28336, 30576, 32856, 36696, 39232, 43816, 46888, 51024, 55056, 57336, 61664,
            63776, 75376,
        ],
    ),
];
/// Resource elements of a resource block that carry data. Down: without a symbol of control and the reference symbols of
/// two antennas. Up: without two symbols of reference signals.
const ELEMENTS: f64 = 144.0;
const CRC: f64 = 24.0;
/// Those of the middle six resource blocks that synchronisation takes in subframes 0 and 5, and with the broadcast
/// channel in subframe 0 (TS 36.211, 6.6 and 6.11).
const SYNCHRONISATION: f64 = 2.0 * 72.0;
const BROADCAST: f64 = 4.0 * 72.0 - 48.0;
/// Highest code rate (7.1.7).
const MOST_RATE: f64 = 0.93;
/// Bits of an element with 16-QAM, all of which is code.
const QAM16: f64 = 4.0;
/// The MCS from which on a phone that sends 64-QAM uses it (table 8.6.1-1).
pub(super) const QAM64_UP: u8 = 21;

/// The index of an MCS (tables 7.1.7.1-1 and 8.6.1-1): it stays where the modulation changes.
pub(super) fn of_mcs(way: Way, mcs: u8) -> usize {
    let changes = if way == Way::Down { [10, 17] } else { [11, QAM64_UP] };
    usize::from(mcs) - changes.iter().filter(|change| mcs >= **change).count()
}

/// Mean bits of a downlink block for a channel that carries so many bits in an element.
pub(super) fn down(quality: f64, blocks: f64) -> f64 {
    let without = |taken: f64| best(quality, blocks, taken);
    (8.0 * without(0.0) + without(SYNCHRONISATION) + without(SYNCHRONISATION + BROADCAST)) / 10.0
}

/// The same of an uplink block; `is_qam16`: sent with 16-QAM at most.
pub(super) fn up(quality: f64, blocks: f64, is_qam16: bool) -> f64 {
    let most = if is_qam16 { MOST_RATE * QAM16 } else { f64::INFINITY };
    best(quality.min(most), blocks, 0.0)
}

/// The largest block that a channel carries where something else takes some elements.
fn best(quality: f64, blocks: f64, taken: f64) -> f64 {
    let most = quality * (ELEMENTS * blocks - taken) - CRC;
    let mut all = (0..BITS[0].1.len()).rev().map(|index| bits(index, blocks));
    all.find(|bits| *bits <= most).unwrap_or(bits(0, blocks))
}

/// Bits of a block over so many resource blocks: between the columns and beyond them in proportion.
pub(super) fn bits(index: usize, blocks: f64) -> f64 {
    let of = |(width, bits): &(f64, [u32; 27])| (*width, f64::from(bits[index]));
    let next = BITS.iter().position(|(width, _)| blocks <= *width).unwrap_or(BITS.len());
    match (next.checked_sub(1).map(|last| of(&BITS[last])), BITS.get(next).map(of)) {
        (Some((low, least)), Some((high, most))) => {
            least + (most - least) * (blocks - low) / (high - low)
        }
        (Some((width, bits)), None) | (None, Some((width, bits))) => bits * blocks / width,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MCS 9 and 10, 16 and 17 have the same block downlink, 10 and 11, 20 and 21 uplink; the last is 28.
    #[test]
    fn an_mcs_has_its_index() {
        let down = [0, 9, 10, 16, 17, 28].map(|mcs| of_mcs(Way::Down, mcs));
        assert_eq!(down, [0, 9, 9, 15, 15, 26]);
        let up = [0, 10, 11, 20, 21, 28].map(|mcs| of_mcs(Way::Up, mcs));
        assert_eq!(up, [0, 10, 10, 19, 19, 26]);
    }

    /// TS 36.306: 75376 bits of a subframe and layer downlink, 51024 uplink with 16-QAM and 75376 with 64-QAM.
    #[test]
    fn the_best_blocks_are_those_of_the_categories() {
        assert_eq!(down(5.5547, 100.0), 75_376.0);
        assert_eq!([true, false].map(|qam16| up(5.5547, 100.0, qam16)), [51_024.0, 75_376.0]);
        // Over 25 resource blocks, the next block is too large for the subframe with the broadcast channel.
        assert_eq!(down(5.5547, 25.0), (9.0 * 18_336.0 + 15_840.0) / 10.0);
        assert_eq!(bits(26, 110.0), 75_376.0 * 1.1);
        assert_eq!(bits(26, 60.0), 36_696.0 + 0.4 * (55_056.0 - 36_696.0));
        assert_eq!(down(0.01, 25.0), 680.0);
    }
}
