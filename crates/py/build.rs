//! One hash of everything in Rust that decides the results of a run: `L4SLAB_SOURCE_HASH`, part of every run's id.
//!
//! It follows from names and contents only, with line endings as in git, so that a checkout, a source distribution and
//! a copy of either give the same: the sources of the core and of this crate, and the locked versions of what the
//! core is built from.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

const SOURCES: [&str; 3] = ["crates/core/src", "crates/plugin/src", "crates/py/src"];
const MANIFEST: &str = "crates/core/Cargo.toml";
const LOCK: &str = "Cargo.lock";

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = here.join("../..");
    for path in SOURCES.into_iter().chain([MANIFEST, LOCK]) {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=L4SLAB_SOURCE_HASH={:032x}", hash(&root));
}

fn hash(root: &Path) -> u128 {
    let mut files = BTreeSet::new();
    for folder in SOURCES {
        collect(root, folder, &mut files);
    }
    let mut h = Fnv::new();
    for name in &files {
        h.field(name);
        h.field(&read(root, name));
    }
    for package in locked(&read(root, MANIFEST), &read(root, LOCK)) {
        h.field(package);
    }
    h.0
}

/// The files below `folder`, as paths from `root` with `/`, but for hidden ones.
fn collect(root: &Path, folder: &str, files: &mut BTreeSet<String>) {
    let entries = fs::read_dir(root.join(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
    for entry in entries.map(|entry| entry.expect("a folder that can be read")) {
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        let path = format!("{folder}/{name}");
        if entry.path().is_dir() {
            collect(root, &path, files);
        } else if !name.starts_with('.') {
            files.insert(path);
        }
    }
}

fn read(root: &Path, name: &str) -> String {
    fs::read_to_string(root.join(name))
        .unwrap_or_else(|e| panic!("{name}: {e}"))
        .replace("\r\n", "\n")
}

/// The lock file's entries of all packages that a manifest's `[dependencies]` reach.
fn locked<'a>(manifest: &'a str, lock: &'a str) -> BTreeSet<&'a str> {
    let packages: Vec<&str> = lock.split("[[package]]\n").skip(1).map(str::trim_end).collect();
    let table = manifest.split("\n[dependencies]\n").nth(1).expect("[dependencies]");
    let lines = table.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['=', '.', ' ']).next());
    let mut open: Vec<&str> = names.filter(|name| !name.is_empty() && *name != "#").collect();
    let mut found = BTreeSet::new();
    while let Some(wanted) = open.pop() {
        // `name`, or `name version` where there are several.
        let (name, version) = wanted.split_once(' ').unwrap_or((wanted, ""));
        let start = format!("name = \"{name}\"\nversion = \"{version}");
        let package = packages.iter().find(|package| package.starts_with(&start));
        let package = package.unwrap_or_else(|| panic!("{LOCK} has no {wanted}"));
        if found.insert(*package) {
            let needs = package.split_once("\ndependencies = [").map_or("", |(_, rest)| rest);
            open.extend(
                needs.lines().filter_map(|line| line.strip_prefix(" \"")?.strip_suffix("\",")),
            );
        }
    }
    found
}

/// FNV-1a with 128 bits: against accidents, not against forgers.
struct Fnv(u128);

impl Fnv {
    fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    fn field(&mut self, text: &str) {
        // No byte of a text in UTF-8 is 255: it says where a field ends.
        for byte in text.bytes().chain([255]) {
            self.0 =
                (self.0 ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
}
