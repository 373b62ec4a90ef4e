//! The vectors are what the queues decided before, and the C library decides the same.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use l4slab_aqm::{Packet, Queue};
use l4slab_core::rng::Rng;

const RATE: u64 = 20_000_000;
const ARRIVALS: u64 = 1_000;
/// The words of `tc`, the file's name, and the digest of what it holds.
const QUEUES: [(&str, &str, u64); 8] = [
    ("dualpi2", "dualpi2", 0x2c0e2fe4b88c57c0),
    ("dualpi2 step_thresh 5packets drop_enqueue", "dualpi2-packets", 0x86a905fa1cb8a4ad),
    ("fq_codel", "fq_codel", 0x5a4ae3f31575cc40),
    ("fq_codel ce_threshold 1ms", "fq_codel-ce_threshold", 0x4ea45b8ee509598d),
    ("codel ecn", "codel", 0xb7f3f2de44021fbe),
    ("pie ecn", "pie", 0x5047b56f85409f22),
    ("cake unlimited", "cake", 0xb870db6ef4fdeb49),
    ("pfifo limit 50", "pfifo", 0x7c42d18d5ec479e1),
];

/// The folder with the files, written once.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vectors");
        fs::create_dir_all(&folder).unwrap();
        for (words, name, _) in QUEUES {
            fs::write(folder.join(format!("{name}.txt")), vector(words)).unwrap();
        }
        folder
    })
}

/// FNV-1a of 64 bits.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Arrivals of 1.3 times the rate in bursts, from flows of all codepoints, and a link that is free when the last packet
/// has left.
fn vector(words: &str) -> String {
    let mut text = format!("queue {words}\nrate {RATE}\nseed 1\n");
    let mut queue = Queue::new(words, RATE, 1, 0).unwrap();
    let mut rng = Rng::stream(1, "vector", 0);
    let (mut arrival, mut free) = (0, 0);
    let mut cookie = 0;
    while cookie < ARRIVALS || queue.backlog().0 > 0 {
        let leaves = if queue.backlog().0 > 0 { free } else { u64::MAX };
        if cookie < ARRIVALS && arrival < leaves {
            let flow = rng.below(6) as u32;
            let ecn = [1, 1, 2, 2, 0, 1][flow as usize];
            let length = if rng.below(5) == 0 { 66 } else { 1514 };
            let p = Packet { cookie, length, flow, host: (flow / 2) as u16, ecn, dscp: 0 };
            queue.enqueue(arrival, p);
            let Packet { host, dscp, .. } = p;
            writeln!(text, "E {arrival} {cookie} {length} {flow} {host} {ecn} {dscp}").unwrap();
            free = free.max(arrival);
            cookie += 1;
            // Bursts of 16 on average, and pauses between them.
            arrival += if rng.below(16) > 0 { rng.below(250_000) } else { rng.below(7_500_000) };
        } else {
            match queue.dequeue(free) {
                Some(p) => {
                    writeln!(text, "D {free} {} {}", p.cookie, p.ecn).unwrap();
                    free += u64::from(p.length) * 8_000_000_000 / RATE;
                }
                None => {
                    writeln!(text, "D {free} -").unwrap();
                    free = queue.next_ns().max(free + 1).min(free + 1_000_000);
                }
            }
        }
        while let Some(p) = queue.take_dropped() {
            writeln!(text, "L {}", p.cookie).unwrap();
        }
    }
    text
}

#[test]
fn the_queues_decide_as_before() {
    for (_, name, before) in QUEUES {
        let text = fs::read_to_string(folder().join(format!("{name}.txt"))).unwrap();
        let now = digest(&text);
        assert_eq!(now, before, "{name}: 0x{now:016x} is right only for a known reason");
        let marked = text.lines().filter(|line| line.starts_with('D') && line.ends_with(" 3"));
        assert_eq!(marked.count() > 0, name != "pfifo", "{name}");
    }
}

#[test]
fn wrong_words_give_a_sentence() {
    let e = Queue::new("dualpi2 no_such_word", RATE, 1, 0).err().unwrap();
    assert!(e.contains("no_such_word"), "{e}");
}

/// Compiles a program of `examples/`; `None` where there is no C compiler.
#[cfg(target_os = "linux")]
fn compiled(name: &str) -> Option<PathBuf> {
    let built = env::current_exe().unwrap();
    let beside = fs::read_dir(built.parent().unwrap()).unwrap().map(|entry| entry.unwrap());
    let is_library = |name: &str| name.starts_with("libl4slab_aqm") && name.ends_with(".a");
    let libraries = beside.filter(|entry| entry.file_name().to_str().is_some_and(is_library));
    // The newest one was built with this test.
    let library = libraries.max_by_key(|entry| entry.metadata().unwrap().modified().unwrap());
    let library = library.expect("cargo builds all kinds of the library").path();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = built.with_file_name(format!("l4slab-aqm-{name}"));
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root.join("include"))
        .arg(root.join(format!("examples/{name}.c")))
        .arg(&library)
        .args(["-lm", "-lpthread", "-ldl", "-o"])
        .arg(&program)
        .status();
    let Ok(status) = compiled else {
        eprintln!("skipped: there is no C compiler");
        return None;
    };
    assert!(status.success());
    Some(program)
}

#[test]
#[cfg(target_os = "linux")]
fn the_c_library_decides_the_same() {
    let Some(program) = compiled("vectors") else { return };
    let files = QUEUES.map(|(_, name, _)| folder().join(format!("{name}.txt")));
    let ran = Command::new(&program).args(files).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// An IPv4 packet with this number.
#[cfg(target_os = "linux")]
fn ip_packet(number: u16, ecn: u8) -> Vec<u8> {
    let mut packet = vec![0; 1_000];
    (packet[0], packet[1], packet[8]) = (0x45, ecn, 64);
    packet[9] = 17;
    packet[2..4].copy_from_slice(&1_000_u16.to_be_bytes());
    packet[4..6].copy_from_slice(&number.to_be_bytes());
    let sum = !header_sum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}
#[cfg(target_os = "linux")]
fn header_sum(packet: &[u8]) -> u16 {
    let mut sum: u32 =
        packet[..20].chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    while sum >> 16 > 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// At 20 Mbit/s a burst of 100 packets waits up to 40 ms, so L4S packets are marked and classic ones are not. A few may
/// be dropped: the law squares the same probability, and a machine that stalls lets it rise.
#[test]
#[cfg(target_os = "linux")]
fn the_router_marks_l4s_packets_of_a_burst() {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;
    let Some(program) = compiled("router") else { return };
    for ecn in [1, 0] {
        let (ours, input) = UnixDatagram::pair().unwrap();
        let (output, theirs) = UnixDatagram::pair().unwrap();
        let mut router = Command::new(&program)
            .arg("20000000")
            .stdin(OwnedFd::from(input))
            .stdout(OwnedFd::from(output))
            .spawn()
            .unwrap();
        let sender = std::thread::spawn(move || {
            for number in 0..100 {
                ours.send(&ip_packet(number, ecn)).unwrap();
            }
            ours.send(&[]).unwrap()
        });
        theirs.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
        let (mut numbers, mut marked, mut ended) = (Vec::new(), 0, None);
        let mut packet = [0; 2_000];
        loop {
            // What the router wrote before it ended can still be read: it ends only where nothing comes after that.
            let Ok(length) = theirs.recv(&mut packet) else {
                if ended.is_some() {
                    break;
                }
                ended = router.try_wait().unwrap();
                continue;
            };
            assert_eq!(length, 1_000);
            numbers.push(u16::from_be_bytes([packet[4], packet[5]]));
            assert_eq!(header_sum(&packet), 0xffff);
            marked += usize::from(packet[1] & 3 == 3);
        }
        sender.join().unwrap();
        assert!(ended.unwrap().success());
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        assert!(numbers.len() > 50, "{numbers:?}");
        if ecn == 1 {
            assert!(marked > 10, "{marked}");
        } else {
            assert_eq!(marked, 0);
        }
    }
}
