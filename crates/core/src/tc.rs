//! The words of `tc`: its numbers, times, sizes and rates, read as iproute2 7.x reads them. A reader
//! answers `None` where `tc` says "Illegal".

use crate::time::Span;
use crate::units::Rate;

/// A time: `s`, `ms` or `us` (also `sec`, `secs`, …), a bare number counts microseconds. `tc` keeps
/// whole microseconds in 32 bits and rounds down.
pub fn parse_time(text: &str) -> Option<Span> {
    let (number, unit) = parse_float(text)?;
    let us = number
        * match unit.to_ascii_lowercase().as_str() {
            "s" | "sec" | "secs" => 1e6,
            "ms" | "msec" | "msecs" => 1e3,
            "us" | "usec" | "usecs" | "" => 1.0,
            _ => return None,
        };
    whole(us, f64::from(u32::MAX)).map(Span::from_micros)
}

/// A time of the newer qdiscs, in whole nanoseconds: also `ns` (`nsec`, …), which a bare number counts.
pub fn parse_time64(text: &str) -> Option<Span> {
    let (number, unit) = parse_float(text)?;
    let ns = number
        * match unit.to_ascii_lowercase().as_str() {
            "s" | "sec" | "secs" => 1e9,
            "ms" | "msec" | "msecs" => 1e6,
            "us" | "usec" | "usecs" => 1e3,
            "ns" | "nsec" | "nsecs" | "" => 1.0,
            _ => return None,
        };
    whole(ns, i64::MAX as f64 / 2.0).map(Span)
}

/// A size in bytes. In `tc`, `k`, `m` and `g` are powers of 1024, even in `kbit` (128 bytes).
pub fn parse_size(text: &str) -> Option<u32> {
    let (number, unit) = parse_float(text)?;
    let bytes = number
        * match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1.0,
            "k" | "kb" => 1024.0,
            "m" | "mb" => 1024.0 * 1024.0,
            "g" | "gb" => 1024.0 * 1024.0 * 1024.0,
            "kbit" => 1024.0 / 8.0,
            "mbit" => 1024.0 * 1024.0 / 8.0,
            "gbit" => 1024.0 * 1024.0 * 1024.0 / 8.0,
            _ => return None,
        };
    whole(bytes, f64::from(u32::MAX)).map(|n| n as u32)
}

/// A rate: `bit`, `kbit`, `mbit`, … (powers of 1000), `kibit` (1024), `bps`, `kbps`, … (bytes per
/// second); a bare number counts bits per second. `tc` keeps whole bytes per second.
pub fn parse_rate(text: &str) -> Option<Rate> {
    let (number, unit) = parse_float(text)?;
    let unit = unit.to_ascii_lowercase();
    let (prefix, bits) = match (unit.strip_suffix("bit"), unit.strip_suffix("bps")) {
        (Some(prefix), _) => (prefix, 1.0),
        (_, Some(prefix)) => (prefix, 8.0),
        _ if unit.is_empty() => ("", 1.0),
        _ => return None,
    };
    let scale = match prefix {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        "ki" => 1024.0,
        "mi" => 1024.0 * 1024.0,
        "gi" => 1024.0 * 1024.0 * 1024.0,
        "ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    whole(number * bits * scale / 8.0, 1e18).map(|bytes| Rate::from_bps(bytes * 8))
}

/// A whole decimal number of 32 bits.
pub fn parse_count(text: &str) -> Option<u32> {
    parse_integer(text, 10)
}

/// A whole number of 32 bits in C's notation: `16`, `0x10` or `020`.
pub fn parse_count_any_base(text: &str) -> Option<u32> {
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        parse_integer(hex, 16)
    } else if text.len() > 1 && text.starts_with('0') {
        parse_integer(text, 8)
    } else {
        parse_integer(text, 10)
    }
}

/// A whole number of 31 bits and a sign in C's notation.
pub fn parse_signed_any_base(text: &str) -> Option<i32> {
    match text.strip_prefix('-') {
        Some(digits) => parse_count_any_base(digits).and_then(|n| 0_i32.checked_sub_unsigned(n)),
        None => parse_count_any_base(text).and_then(|n| i32::try_from(n).ok()),
    }
}

/// A number of packets with the unit that tells it from a time: `5p`, `5packets`.
pub fn parse_packets(text: &str) -> Option<u32> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    matches!(unit, "p" | "pkt" | "pkts" | "packet" | "packets").then(|| parse_count(digits))?
}

/// A percentage, 0 to 100, with or without the sign, rounded to a whole one (half to even).
pub fn parse_percent(text: &str) -> Option<u8> {
    let (number, unit) = parse_float(text)?;
    let fits = (0.0..=100.0).contains(&number) && (unit.is_empty() || unit == "%");
    fits.then(|| libm::rint(number / 100.0 * 100.0) as u8)
}

/// A percentage as 32 bits: 100 % is [`u32::MAX`].
pub fn parse_probability(text: &str) -> Option<u32> {
    let (number, unit) = parse_float(text)?;
    let fits = (0.0..=100.0).contains(&number) && (unit.is_empty() || unit == "%");
    fits.then(|| libm::rint(number / 100.0 * f64::from(u32::MAX)) as u32)
}

/// The percentage with the fewest decimals that [`parse_probability`] reads back.
pub fn format_probability(probability: u32) -> String {
    let percent = 100.0 * f64::from(probability) / f64::from(u32::MAX);
    let texts = (0..12).map(|decimals| format!("{percent:.decimals$}%"));
    let mut exact = texts.filter(|text| parse_probability(text) == Some(probability));
    exact.next().expect("twelve decimals tell 32 bits apart")
}

/// The time in the largest unit that writes it as a whole number; [`parse_time64`] reads it back.
pub fn format_time64(time: Span) -> String {
    match time.0 {
        ns if ns % 1_000 == 0 && ns / 1_000 <= u64::from(u32::MAX) => format_time(time),
        ns => format!("{ns}ns"),
    }
}

/// The rate in the largest unit that writes it as a whole number; [`parse_rate`] reads it back.
pub fn format_rate(rate: Rate) -> String {
    match rate.bps() {
        bps if bps > 0 && bps % 1_000_000_000 == 0 => format!("{}gbit", bps / 1_000_000_000),
        bps if bps > 0 && bps % 1_000_000 == 0 => format!("{}mbit", bps / 1_000_000),
        bps if bps > 0 && bps % 1_000 == 0 => format!("{}kbit", bps / 1_000),
        bps => format!("{bps}bit"),
    }
}

/// The time in the largest unit that writes it as a whole number; [`parse_time`] reads it back.
pub fn format_time(time: Span) -> String {
    match time.as_micros() {
        0 => "0us".to_owned(),
        us if us % 1_000_000 == 0 => format!("{}s", us / 1_000_000),
        us if us % 1_000 == 0 => format!("{}ms", us / 1_000),
        us => format!("{us}us"),
    }
}

fn parse_integer(digits: &str, base: u32) -> Option<u32> {
    // from_str_radix takes a sign in front; C's does too, but no number here may be negative.
    u32::from_str_radix(digits, base).ok()
}

fn whole(number: f64, max: f64) -> Option<u64> {
    (0.0..=max).contains(&number).then_some(number as u64)
}

/// The longest number in front, as C's `strtod` finds it, and the rest. Hexadecimal whole numbers
/// count; infinities and NaN do not.
pub fn parse_float(text: &str) -> Option<(f64, &str)> {
    let digits = |from: usize| from + text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let sign = usize::from(text.starts_with(['+', '-']));
    if text[sign..].starts_with("0x") || text[sign..].starts_with("0X") {
        let hex = &text[sign + 2..];
        let end = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        let number = u64::from_str_radix(&hex[..end], 16).ok()? as f64;
        return Some((if text.starts_with('-') { -number } else { number }, &hex[end..]));
    }
    let mut end = digits(sign);
    if text[end..].starts_with('.') {
        end = digits(end + 1);
    }
    // An exponent counts only with digits: "1e3" is 1000, in "1e" the e belongs to the unit.
    if text[end..].starts_with(['e', 'E']) {
        let from = end + 1 + usize::from(text[end + 1..].starts_with(['+', '-']));
        if digits(from) > from {
            end = digits(from);
        }
    }
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_strtod_reads_them() {
        assert_eq!(parse_float("1.5ms"), Some((1.5, "ms")));
        assert_eq!(parse_float("5."), Some((5.0, "")));
        assert_eq!(parse_float(".5s"), Some((0.5, "s")));
        assert_eq!(parse_float("1e3us"), Some((1000.0, "us")));
        assert_eq!(parse_float("1e"), Some((1.0, "e")));
        assert_eq!(parse_float("0x10ms"), Some((16.0, "ms")));
        assert_eq!(parse_float("0x10b"), Some((267.0, "")));
        assert_eq!(parse_float("-5"), Some((-5.0, "")));
        for bad in ["", ".", "-", "ms", "inf", "nan", "0x"] {
            assert_eq!(parse_float(bad), None, "{bad}");
        }
    }

    #[test]
    fn units_are_those_of_tc() {
        assert_eq!(parse_time("15ms"), Some(Span::from_millis(15)));
        assert_eq!(parse_time("15"), Some(Span::from_micros(15)));
        assert_eq!(parse_time("2SECS"), Some(Span::from_secs(2)));
        assert_eq!(parse_time("1.9us"), Some(Span::from_micros(1)), "rounded down");
        assert_eq!(parse_time("5000s"), None, "more than 32 bits of microseconds");
        assert_eq!(parse_size("1k"), Some(1024));
        assert_eq!(parse_size("10kbit"), Some(1280));
        assert_eq!(parse_size("5g"), None);
        assert_eq!(parse_rate("100mbit"), Some(Rate::from_bps(100_000_000)));
        assert_eq!(parse_rate("1MBps"), Some(Rate::from_bps(8_000_000)));
        assert_eq!(parse_rate("1kibit"), Some(Rate::from_bps(1024)));
        assert_eq!(parse_rate("15"), Some(Rate::from_bps(8)), "whole bytes per second");
        assert_eq!(parse_rate("1Mb"), None);
        assert_eq!(parse_packets("5p"), Some(5));
        assert_eq!(parse_packets("5"), None);
        assert_eq!(parse_packets("5P"), None);
        assert_eq!(parse_percent("10%"), Some(10));
        assert_eq!(parse_percent("10.5"), Some(10), "half to even, as rint does");
        assert_eq!(parse_percent("101"), None);
        assert_eq!(parse_count_any_base("0x10"), Some(16));
        assert_eq!(parse_count_any_base("010"), Some(8));
    }

    #[test]
    fn a_printed_rate_reads_back() {
        for bps in [8, 1000, 550_000, 12_000_000, 3_000_000_000, 34_359_738_360] {
            let rate = Rate::from_bps(bps);
            assert_eq!(parse_rate(&format_rate(rate)), Some(rate));
        }
        assert_eq!(format_rate(Rate::from_bps(550_000)), "550kbit");
    }

    #[test]
    fn a_printed_time_reads_back() {
        for us in [0, 1, 999, 1000, 15_000, 16_667, 1_000_000, u64::from(u32::MAX)] {
            let time = Span::from_micros(us);
            assert_eq!(parse_time(&format_time(time)), Some(time));
        }
    }
}
