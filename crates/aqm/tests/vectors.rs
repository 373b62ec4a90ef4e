//! The stored vectors are what the queues decide, and the C library decides the same.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use l4slab_aqm::{Packet, Queue};
use l4slab_core::rng::Rng;

const RATE: u64 = 20_000_000;
const ARRIVALS: u64 = 1_000;
/// The words of `tc`, and the file's name.
const QUEUES: [(&str, &str); 8] = [
    ("dualpi2", "dualpi2"),
    ("dualpi2 step_thresh 5packets drop_enqueue", "dualpi2-packets"),
    ("fq_codel", "fq_codel"),
    ("fq_codel ce_threshold 1ms", "fq_codel-ce_threshold"),
    ("codel ecn", "codel"),
    ("pie ecn", "pie"),
    ("cake unlimited", "cake"),
    ("pfifo limit 50", "pfifo"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
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
fn the_queues_decide_as_stored() {
    for (words, name) in QUEUES {
        let file = folder().join(format!("{name}.txt"));
        let text = vector(words);
        if env::var_os("UPDATE_VECTORS").is_some() {
            fs::write(&file, &text).unwrap();
        }
        let stored = fs::read_to_string(&file).unwrap().replace("\r\n", "\n");
        assert!(stored == text, "{name}: UPDATE_VECTORS=1 writes it anew, for a known reason");
        let marked = text.lines().filter(|line| line.starts_with('D') && line.ends_with(" 3"));
        assert_eq!(marked.count() > 0, name != "pfifo", "{name}");
    }
}

#[test]
fn wrong_words_give_a_sentence() {
    let e = Queue::new("dualpi2 no_such_word", RATE, 1, 0).err().unwrap();
    assert!(e.contains("no_such_word"), "{e}");
}

/// Compiles `examples/vectors.c` where there is a C compiler.
#[test]
#[cfg(target_os = "linux")]
fn the_c_library_decides_the_same() {
    let built = env::current_exe().unwrap();
    let beside = fs::read_dir(built.parent().unwrap()).unwrap().map(|entry| entry.unwrap());
    let is_library = |name: &str| name.starts_with("libl4slab_aqm") && name.ends_with(".a");
    let libraries = beside.filter(|entry| entry.file_name().to_str().is_some_and(is_library));
    // The newest one was built with this test.
    let library = libraries.max_by_key(|entry| entry.metadata().unwrap().modified().unwrap());
    let library = library.expect("cargo builds all kinds of the library").path();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = built.with_file_name("l4slab-aqm-vectors");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root.join("include"))
        .arg(root.join("examples/vectors.c"))
        .arg(&library)
        .args(["-lm", "-lpthread", "-ldl", "-o"])
        .arg(&program)
        .status();
    let Ok(status) = compiled else {
        eprintln!("skipped: there is no C compiler");
        return;
    };
    assert!(status.success());
    let files = QUEUES.map(|(_, name)| folder().join(format!("{name}.txt")));
    let ran = Command::new(&program).args(files).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
