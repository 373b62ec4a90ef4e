//! 1/sqrt(count) for the control laws of CoDel and COBALT: a fraction of 32 bits, without division or
//! root. Source: Linux `include/net/codel_impl.h`, `net/sched/sch_cake.c`.

use crate::time::Span;

/// 1/sqrt(count) below 16, in units of 2^-32, where one Newton step would be far off. A count of 0 is
/// treated as 1.
const EXACT: [u32; 16] = [
    u32::MAX,
    u32::MAX,
    3_037_000_500,
    2_479_700_525,
    2_147_483_647,
    1_920_767_767,
    1_753_413_056,
    1_623_345_051,
    1_518_500_250,
    1_431_655_765,
    1_358_187_914,
    1_294_981_364,
    1_239_850_263,
    1_191_209_601,
    1_147_878_294,
    1_108_955_788,
];

/// The value for `count`; from 16 on, one Newton step from the value of a count beside it.
#[inline]
pub fn inverse_sqrt(count: u32, beside: u32) -> u32 {
    match EXACT.get(count as usize) {
        Some(&exact) => exact,
        None => newton_step(beside, count),
    }
}

/// One step from `x` towards 1/sqrt(count): x becomes x (3 - count x^2) / 2. A count that jumped makes
/// the bracket negative, and the result is then as wrong as in Linux.
#[inline]
pub fn newton_step(x: u32, count: u32) -> u32 {
    let x = u64::from(x);
    let square = (x * x) >> 32;
    let bracket = (3_u64 << 32).wrapping_sub(u64::from(count) * square);
    // Shifted before and after, so that the product fits into 64 bits.
    ((bracket >> 2).wrapping_mul(x) >> 31) as u32
}

/// `interval` times a fraction of 32 bits. Linux takes 32 bits of the interval only, 4.3 s.
#[inline]
pub fn scale(interval: Span, fraction: u32) -> Span {
    Span((u64::from(interval.0 as u32) * u64::from(fraction)) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newton_follows_a_count_that_moves_by_one() {
        let mut x = inverse_sqrt(15, 0);
        for count in (16..5000).chain((16..5000).rev()) {
            x = inverse_sqrt(count, x);
            let error = f64::from(x) / 4_294_967_296.0 * f64::from(count).sqrt() - 1.0;
            assert!(error.abs() < 2e-3, "count {count}: {error}");
        }
        assert_eq!(scale(Span(1000), inverse_sqrt(4, 0)), Span(499), "rounded down");
    }
}
