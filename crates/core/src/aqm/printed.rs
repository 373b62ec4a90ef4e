//! What `tc qdisc show` prints, as `tc` reads it: people keep such lines in their notes, and `tc` does not take its own
//! "limit 10240p" back. Formats from iproute2 7.3 (`print_opt` in `tc/q_*.c`).

use std::borrow::Cow;

use crate::tc;

/// Words of a command: what follows is not printed by `show`.
const COMMAND: [&str; 6] = ["tc", "sudo", "dev", "root", "parent", "handle"];
/// netem's names of the values of a model or a rate, which it reads by their order. Elsewhere "r" begins "reorder".
const LABELS: [(&str, &[&str]); 3] = [
    ("gemodel", &["p", "r", "1-h", "1-k"]),
    ("state", &["p13", "p31", "p32", "p23", "p14"]),
    ("rate", &["packetoverhead", "cellsize", "celloverhead"]),
];
/// The first words of the lines of `-s`.
const STATISTICS: [&str; 2] = ["Sent", "prob_mark"];
/// Kernels since 6.7 have bands in `fq`; these are the ones without effect on packets of one priority.
const BANDS: &str = "bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1";
const WEIGHTS: &str = "weights 589824 196608 65536";

/// The words of a qdisc without its place, its statistics, and units that `tc` prints and does not read. Whatever else
/// is wrong stays.
pub fn as_read(text: &str) -> Cow<'_, str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let Some((kind, options)) = options(&words) else {
        return text.into();
    };
    let options = without_statistics(options).join(" ");
    let options = match kind {
        "pfifo_fast" => options.replace(BANDS, ""),
        "fq" => options.replace(BANDS, "").replace(WEIGHTS, ""),
        // The default, which tc takes without its keyword.
        "cake" => options.replace("bandwidth unlimited", ""),
        _ => options,
    };
    let mut plain = vec![Cow::from(kind)];
    let mut words = options.split(' ').filter(|word| !word.is_empty()).peekable();
    let (mut before, mut labels): (&str, &[&str]) = ("", &[]);
    while let Some(word) = words.next() {
        let is_value =
            words.peek().is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit()));
        match word {
            "direct_packets_stat" if kind == "htb" => drop(words.next()),
            _ if is_value && labels.contains(&word) => {}
            _ => {
                plain.push(without_unit(before, word));
                if let Some((_, of_it)) = LABELS.iter().find(|(name, _)| *name == word) {
                    labels = if kind == "netem" { of_it } else { &[] };
                } else if !word.starts_with(|c: char| c.is_ascii_digit()) {
                    labels = &[];
                }
            }
        }
        before = word;
    }
    plain.join(" ").into()
}

/// The kind, and the words behind its place: `qdisc KIND 8001: dev eth0 root refcnt 2 …`, or a part of that.
fn options<'a, 'w>(words: &'a [&'w str]) -> Option<(&'w str, &'a [&'w str])> {
    let is_handle = |word: &str| {
        word.strip_suffix(':').is_some_and(|id| id.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let words = match words {
        ["qdisc", _, handle, ..] if is_handle(handle) => &words[1..],
        _ => words,
    };
    let (kind, mut options) = words.split_first()?;
    let is_name = kind.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !is_name || COMMAND.contains(kind) {
        return None;
    }
    loop {
        options = match options {
            ["dev" | "parent" | "refcnt", _, rest @ ..] | ["root" | "offloaded", rest @ ..] => rest,
            [handle, rest @ ..] if is_handle(handle) => rest,
            _ => return Some((kind, options)),
        };
    }
}

/// Without the lines of `-s`, where no further qdisc follows them.
fn without_statistics<'a, 'w>(words: &'a [&'w str]) -> &'a [&'w str] {
    let end = words.iter().position(|word| STATISTICS.contains(word));
    if words.contains(&"qdisc") { words } else { &words[..end.unwrap_or(words.len())] }
}

fn without_unit<'w>(keyword: &str, word: &'w str) -> Cow<'w, str> {
    if keyword == "step_thresh" {
        return word.into(); // packets or a time
    }
    if keyword.ends_with("quantum") && word.ends_with('b') {
        return tc::parse_size(word).map_or(word.into(), |bytes| bytes.to_string().into());
    }
    let unit = match keyword {
        "perturb" => "sec",
        "memlimit" => "B",
        "min_qlen_step" => "p",
        _ if keyword.ends_with("limit") => "p",
        _ => return word.into(),
    };
    let number = word.strip_suffix(unit).filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
    number.filter(|number| !number.is_empty()).unwrap_or(word).into()
}

#[cfg(test)]
mod tests {
    use super::as_read;

    #[test]
    fn a_place_is_no_option() {
        for place in [
            "8001: root refcnt 2",
            "1: dev eth0 root",
            "0: dev eth0 parent :3 offloaded",
            "root refcnt 9",
            "0:",
        ] {
            assert_eq!(
                as_read(&format!("fq_codel {place} limit 10240p ecn")),
                "fq_codel limit 10240 ecn"
            );
        }
        assert_eq!(as_read("qdisc mq 0: dev eth0 root"), "mq");
        assert_eq!(as_read("qdisc cake 2: root bandwidth unlimited nat"), "cake nat");
        assert_eq!(
            as_read("dualpi2 8001: root limit 10000p min_qlen_step 0p memlimit 30280000B"),
            "dualpi2 limit 10000 min_qlen_step 0 memlimit 30280000"
        );
    }

    #[test]
    fn what_is_not_printed_stays() {
        for text in [
            "dualpi2 step_thresh 5p",
            "netem slot 1ms packets 5",
            "netem rate 5mbit 14 53 5",
            "netem g 0x5 r 9 delay 1ms",
            "netem delay 1ms rate 5mbit r 9",
            "netem gap 5p",
            "handle 1: pie",
            "root pie",
            "tc qdisc add dev eth0 root pie",
            "qdisc add dev eth0 root pie",
            "./q.py:Queue limit 5p",
            "",
            "fq bands 3",
            "htb default 10",
        ] {
            assert_eq!(as_read(text), text);
        }
    }

    #[test]
    fn statistics_go_and_a_second_queue_stays() {
        let shown =
            "qdisc codel 1: root limit 1000p\n Sent 0 bytes 0 pkt (dropped 0)\n backlog 0b 0p";
        assert_eq!(as_read(shown), "codel limit 1000");
        assert!(
            as_read(&format!("{shown}\nqdisc pie 2: parent 1:1 limit 9p")).contains("qdisc pie")
        );
    }
}
