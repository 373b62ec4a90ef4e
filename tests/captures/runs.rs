//! Whole runs with captures.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use l4slab_core::scenario::Run;
use l4slab_core::sim::{Recording, Simulation};
use l4slab_io::captures::Captures;
use serde_json::{Value, json};

use crate::reader::{Frame, read};

/// A folder of this test's own, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("l4slab-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }
    fn names(&self) -> Vec<String> {
        let found = fs::read_dir(&self.0).expect("readable");
        let name = |e: std::io::Result<fs::DirEntry>| e.expect("readable").file_name();
        let mut names: Vec<String> = found.map(|e| name(e).into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("removable");
    }
}

fn describe(seconds: f64, links: Value, flows: Value, impairs: Value) -> Run {
    let run = json!({
        "duration_ns": (seconds * 1e9) as u64,
        "seed": 7,
        "start_jitter_ns": 50_000_000,
        "links": links,
        "flows": flows,
        "impairs": impairs,
    });
    Run::from_json(&run.to_string()).expect("a valid run")
}

fn tcp(name: &str, cc: &str, more: Value) -> Value {
    let mut flow = json!({"name": name, "cc": cc, "rtt_ns": 10_000_000, "path": ["b"]});
    let (Value::Object(flow_map), Value::Object(more)) = (&mut flow, more) else { unreachable!() };
    flow_map.extend(more);
    flow
}

fn link(mbit: u64, qdisc: &str) -> Value {
    json!({"name": "b", "rate_bps": mbit * 1_000_000, "qdisc": qdisc})
}

/// All that there is: both kinds of feedback, UDP without a delay, losses, marked ACKs, a transfer that
/// ends, reordering, duplicates and bit errors.
fn everything() -> Run {
    describe(
        3.0,
        json!([link(20, "dualpi2 limit 200"), {"name": "up", "rate_bps": 500_000, "qdisc": "dualpi2"}]),
        json!([
            tcp("classic", "cubic", json!({"ecn": "classic", "count": 2, "dscp": 10})),
            tcp("lost", "reno", json!({"bytes": 300_001})),
            tcp("l4s", "prague", json!({"reverse_path": ["up"]})),
            tcp("dctcp", "dctcp", json!({})),
            {"name": "udp", "kind": "cbr", "rtt_ns": 0, "path": ["b"], "rate_bps": 4_000_000,
             "ecn": "ect1", "packet_bytes": 300, "dscp": 45},
        ]),
        json!([{
            "name": "air",
            "netem": "delay 1ms 300us loss 1% duplicate 1% corrupt 0.5%",
            "before": "b",
            "direction": "both",
        }]),
    )
}

fn capture(run: &Run, folder: &Path) -> Recording {
    let mut captures = Captures::create(folder, "a test", run).expect("writable");
    let recording = Simulation::tapped(run, &mut captures).expect("a valid run").run();
    captures.finish().expect("writable");
    recording
}

fn frames(folder: &Path, flow: &str, end: &str) -> Vec<Frame> {
    let (comment, frames) = read(&folder.join(format!("{flow}-{end}.pcapng.gz")));
    assert_eq!(comment, format!("a test: flow {flow} at its {end}"));
    frames
}

const FLOWS: [&str; 5] = ["classic", "lost", "l4s", "dctcp", "udp"];

#[test]
fn captures_change_nothing_and_are_the_same_each_time() {
    let run = everything();
    let here = Folder::new("same");
    let plain = Simulation::new(&run).expect("a valid run").run();
    let folders = [here.0.join("1"), here.0.join("2")];
    for folder in &folders {
        assert_eq!(format!("{:?}", capture(&run, folder)), format!("{plain:?}"));
    }
    for flow in FLOWS {
        for end in ["client", "server"] {
            let name = format!("{flow}-{end}.pcapng.gz");
            let [a, b] = folders.each_ref().map(|f| fs::read(f.join(&name)).expect("readable"));
            assert_eq!(a, b, "{name}");
        }
    }
}

#[test]
fn every_frame_is_one_that_a_host_would_take() {
    let here = Folder::new("frames");
    capture(&everything(), &here.0.join("run"));
    let mut corrupt = [0, 0];
    for flow in FLOWS {
        for (i, end) in ["client", "server"].into_iter().enumerate() {
            let all = frames(&here.0.join("run"), flow, end);
            assert!(all.len() > 100, "{flow} {end}: {} packets", all.len());
            assert!(all.windows(2).all(|w| w[0].ns <= w[1].ns), "{flow} {end}: time goes back");
            for f in &all {
                let what = format!("{flow} {end} {f:?}");
                assert_eq!(f.bytes.len(), f.headers(), "{what}");
                let total = usize::from(u16::from_be_bytes([f.bytes[16], f.bytes[17]]));
                assert_eq!(total + 14, f.length, "{what}");
                let (ip, transport) = f.checksums_fit();
                assert!(ip, "{what}");
                let arrives = f.is_forward() == (end == "server");
                assert!(transport || arrives, "{what}: leaves with a bit error");
                corrupt[i] += usize::from(!transport);
                if f.is_tcp() {
                    let (val, ecr) = f.timestamps();
                    assert!(val != 0 && f.window() > 0, "{what}");
                    assert_eq!(
                        ecr == 0,
                        f.flags() & 0x12 == 2,
                        "{what}: only a SYN echoes nothing"
                    );
                }
            }
        }
    }
    assert!(corrupt[0] > 5 && corrupt[1] > 20, "{corrupt:?} frames with bit errors");
}

/// Data comes in one piece, ACKs and SACK blocks speak of segments that were sent, and the FIN counts.
#[test]
fn sequence_numbers_are_those_of_a_stream() {
    let here = Folder::new("stream");
    capture(&everything(), &here.0.join("run"));
    let client = frames(&here.0.join("run"), "lost", "client");
    let syn = &client[0];
    assert_eq!(syn.flags() & 0x13, 2);
    let start = syn.seq().wrapping_add(1);
    let mut edges = BTreeSet::from([0]);
    let (mut sent, mut again, mut sacked, mut acked) = (0, 0, 0, 0);
    for f in &client[1..] {
        if f.is_forward() {
            let from = f.seq().wrapping_sub(start);
            assert!(edges.contains(&from), "{f:?}: a hole");
            let fin = u32::from(f.flags() & 1 != 0);
            let to = from + f.payload() as u32 + fin;
            assert_eq!(fin == 1, to > 300_001, "{f:?}");
            edges.insert(to);
            again += u32::from(f.payload() > 0 && to <= sent);
            sent = sent.max(to);
        } else {
            let ack = f.ack().wrapping_sub(start);
            assert!(edges.contains(&ack), "{f:?}");
            acked = acked.max(ack);
            for (i, (left, right)) in f.sack().into_iter().enumerate() {
                let [left, right] = [left, right].map(|e| e.wrapping_sub(start));
                assert!(left < right && edges.contains(&left) && edges.contains(&right), "{f:?}");
                // Only a D-SACK, the first block, tells of what is acknowledged.
                assert!(left > ack || i == 0, "{f:?}");
                sacked += 1;
            }
        }
    }
    assert_eq!((sent, acked), (300_002, 300_002), "bytes and the FIN");
    assert!(again > 0 && sacked > 0, "{again} retransmissions, {sacked} blocks");
}

/// What leaves as it is written is gone when the application closes: the FIN goes alone behind it. Of
/// more than the first window, the FIN is on the last segment.
#[test]
fn a_fin_goes_alone_behind_what_leaves_at_once() {
    for (bytes, with_data) in [(10_000, false), (14_480, false), (30_000, true)] {
        let here = Folder::new(&format!("fin{bytes}"));
        let flow = tcp("f", "cubic", json!({"bytes": bytes}));
        let run = describe(5.0, json!([link(10, "pfifo")]), json!([flow]), json!([]));
        capture(&run, &here.0.join("run"));
        let client = frames(&here.0.join("run"), "f", "client");
        let fins: Vec<&Frame> =
            client.iter().filter(|f| f.is_forward() && f.flags() & 1 != 0).collect();
        assert_eq!((fins.len(), fins[0].payload() > 0), (1, with_data), "{bytes} B");
        let end = fins[0].seq().wrapping_add(fins[0].payload() as u32);
        assert_eq!(end.wrapping_sub(client[0].seq()), bytes + 1);
        let last = client.iter().rfind(|f| !f.is_forward()).expect("an ACK");
        assert_eq!(last.ack().wrapping_sub(end), 1, "the FIN is acknowledged");
    }
}

/// The field that a data segment carries is 5 and the marked ACKs that came before it (RFC 9768,
/// 3.2.2); an ACK's is that of the marked data, and its option counts their bytes.
#[test]
fn ace_and_the_option_count_marks_in_both_directions() {
    let here = Folder::new("ace");
    let run = describe(
        10.0,
        json!([link(20, "dualpi2"), {"name": "up", "rate_bps": 300_000, "qdisc": "dualpi2"}]),
        json!([tcp("l4s", "prague", json!({"reverse_path": ["up"]}))]),
        json!([]),
    );
    capture(&run, &here.0.join("run"));
    let client = frames(&here.0.join("run"), "l4s", "client");
    let [syn, syn_ack, third] = [0, 1, 2].map(|i| (client[i].flags() & 0x13, client[i].ace()));
    // SYN/ACK and third ACK say that a packet with ECT(1) came, and have the option already.
    assert_eq!([syn, syn_ack, third], [(0x02, 0b111), (0x12, 0b011), (0x10, 0b011)]);
    let initial = Some(vec![0, 0, 1, 0, 0, 0, 0, 0, 1]);
    assert_eq!([0, 1, 2].map(|i| client[i].option(174)), [None, initial.clone(), initial]);
    let mut marked = 0;
    for f in &client[3..] {
        if f.is_forward() {
            assert_eq!(u32::from(f.ace()), (5 + marked) % 8, "{f:?}");
            assert_eq!(f.option(174), Some(vec![0, 0, 1, 0, 0, 0, 0, 0, 1]), "{f:?}");
        } else {
            marked += u32::from(f.ecn() == 3);
        }
    }
    assert!(marked > 8, "{marked} marked ACKs");
    let (mut packets, mut bytes) = (0, [1, 0, 1]);
    for f in &frames(&here.0.join("run"), "l4s", "server")[3..] {
        if f.is_forward() {
            packets += u32::from(f.ecn() == 3);
            let field = [1, 3, 2].iter().position(|e| *e == f.ecn()).expect("ECT or CE");
            bytes[field] += f.payload() as u32;
        } else {
            assert_eq!(u32::from(f.ace()), (5 + packets) % 8, "{f:?}");
            let value = f.option(174).expect("every ACK without losses has it");
            let counted = value.chunks(3).map(|c| u32::from_be_bytes([0, c[0], c[1], c[2]]));
            assert!(counted.eq(bytes.map(|b| b & 0xff_ffff)), "{f:?}: {bytes:?}");
        }
    }
    assert!(packets > 8, "{packets} marked segments");
}

/// RFC 3168: ECE from a mark until CWR.
#[test]
fn classic_feedback_is_ece_until_cwr() {
    let here = Folder::new("classic");
    let run = describe(
        3.0,
        json!([link(20, "dualpi2")]),
        json!([tcp("c", "reno", json!({"ecn": "classic"}))]),
        json!([]),
    );
    capture(&run, &here.0.join("run"));
    let server = frames(&here.0.join("run"), "c", "server");
    assert_eq!((server[0].ace(), server[1].ace()), (0b011, 0b001));
    let (mut echo, mut marks, mut answers) = (false, 0, 0);
    for f in &server[3..] {
        if f.is_forward() {
            answers += u32::from(f.flags() & 0x80 != 0);
            marks += u32::from(f.ecn() == 3);
            echo = f.ecn() == 3 || (echo && f.flags() & 0x80 == 0);
        } else {
            assert_eq!(f.flags() & 0x40 != 0, echo, "{f:?}");
        }
    }
    assert!(marks > 0 && answers > 0, "{marks} marks, {answers} answers");
}

#[test]
fn hosts_and_ports_tell_flows_apart() {
    let here = Folder::new("ports");
    capture(&everything(), &here.0.join("run"));
    let run = here.0.join("run");
    let ports = |f: &[Frame]| -> BTreeSet<u16> {
        f.iter().filter(|f| f.is_forward()).map(|f| f.ports().0).collect()
    };
    assert_eq!(ports(&frames(&run, "classic", "client")), BTreeSet::from([10_000, 10_001]));
    assert_eq!(ports(&frames(&run, "udp", "server")), BTreeSet::from([10_000]));
    let host = |flow: &str| frames(&run, flow, "client")[0].bytes[26..30].to_vec();
    assert_eq!(host("classic"), [10, 0, 1, 1]);
    assert_eq!(host("udp"), [10, 0, 5, 1]);
    // The codepoint is the sender's on data, and what the SYN and ACKs have is the default.
    for end in ["client", "server"] {
        for f in frames(&run, "classic", end) {
            assert_eq!(f.dscp(), if f.payload() > 0 { 10 } else { 0 }, "{f:?}");
        }
    }
}

#[test]
fn what_is_not_finished_leaves_nothing_behind() {
    let here = Folder::new("unfinished");
    let run = everything();
    let mut captures = Captures::create(&here.0.join("run"), "", &run).expect("writable");
    Simulation::tapped(&run, &mut captures).expect("a valid run").run();
    assert!(here.names().iter().all(|n| n.starts_with(".run.") && n.ends_with(".tmp")));
    drop(captures);
    assert_eq!(here.names(), [""; 0]);
    capture(&run, &here.0.join("run"));
    capture(&run, &here.0.join("run"));
    assert_eq!(here.names(), ["run"], "a second capture replaces the first");
    let file = here.0.join("file");
    fs::write(&file, "").expect("writable");
    assert!(Captures::create(&file.join("run"), "", &run).is_err(), "a file is in the way");
}

#[test]
fn names_of_flows_become_names_of_files() {
    let here = Folder::new("names");
    let run = describe(
        0.2,
        json!([link(20, "pfifo limit 10")]),
        json!([tcp("a/b c", "reno", json!({})), tcp("a_b", "reno", json!({}))]),
        json!([]),
    );
    capture(&run, &here.0.join("run"));
    let names = Folder(here.0.join("run")).names();
    let expected = ["a%2Fb%20c-client", "a%2Fb%20c-server", "a_b-client", "a_b-server"];
    assert_eq!(names, expected.map(|n| format!("{n}.pcapng.gz")));
}

#[test]
fn flows_that_come_later_are_connections_of_their_own() {
    let (links, flows) = (json!([link(20, "dualpi2")]), json!([tcp("f", "cubic", json!({}))]));
    let mut run = describe(2.0, links, flows, json!([]));
    let at = json!([{"time_ns": 1_000_000_000, "flow": "f", "count": 3}]);
    run.at = serde_json::from_value(at).expect("valid changes");
    let here = Folder::new("later");
    capture(&run, &here.0.join("run"));
    let all = frames(&here.0.join("run"), "f", "client");
    let syns = all.iter().filter(|f| f.is_forward() && f.flags() & 2 != 0);
    let begun: Vec<_> = syns.map(|f| (f.ports(), f.ns >= 1_000_000_000)).collect();
    assert_eq!(begun.iter().map(|(_, later)| *later).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(begun.iter().map(|(ports, _)| *ports).collect::<BTreeSet<_>>().len(), 3);
}
