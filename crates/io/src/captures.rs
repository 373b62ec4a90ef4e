//! The captures of a run: for each flow group `FLOW-client.pcapng.gz` and `FLOW-server.pcapng.gz` in
//! one folder, which appears when they are complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use l4slab_core::net::tap::{End, Tap};
use l4slab_core::packet::Packet;
use l4slab_core::scenario::{Kind, Run};
use l4slab_core::time::Time;
use l4slab_core::transport::sack::Blocks;

use crate::frame::MAX_HEADERS;
use crate::pcapng::{About, Writer};
use crate::wire::Wire;

/// Captures under construction.
pub struct Captures {
    folder: PathBuf,
    /// What is there until then.
    temporary: PathBuf,
    files: Arc<Mutex<Files>>,
}

/// Of each group the client's and the server's file; what the tap writes to.
struct Files {
    pairs: Vec<[Writer<BufWriter<File>>; 2]>,
    wires: Vec<Wire>,
    failure: Option<io::Error>,
}

/// The simulation's side.
struct Recorder(Arc<Mutex<Files>>);

impl Captures {
    /// Begins captures of `run`, called `title`, that are to be in `folder`.
    ///
    /// # Errors
    /// Of the file system.
    pub fn create(folder: &Path, title: &str, run: &Run) -> io::Result<Captures> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let temporary = folder.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
        remove(&temporary)?;
        fs::create_dir_all(&temporary)?;
        let files = Files { pairs: Vec::new(), wires: wires(run), failure: None };
        let made =
            Captures { folder: folder.to_owned(), temporary, files: Arc::new(Mutex::new(files)) };
        for flow in &run.flows {
            let open = |end: &str, what: &str| -> io::Result<_> {
                let path = made.temporary.join(file_name(&flow.name, end));
                let about = About {
                    comment: &format!("{title}: flow {} at its {end}", flow.name),
                    interface: &format!("{}-{end}", flow.name),
                    description: what,
                    snap_length: MAX_HEADERS as u32,
                };
                Ok(Writer::new(BufWriter::new(File::create(path)?), &about))
            };
            let pair = [
                open("client", "the sender's host: data leaves, ACKs arrive")?,
                open("server", "the receiver's host: data arrives, ACKs leave")?,
            ];
            lock(&made.files).pairs.push(pair);
        }
        Ok(made)
    }

    /// What the simulation is given.
    pub fn tap(&self) -> Box<dyn Tap> {
        Box::new(Recorder(Arc::clone(&self.files)))
    }

    /// Completes the files and puts the folder in place.
    ///
    /// # Errors
    /// The first that the file system has told of. There are no captures then.
    pub fn finish(self) -> io::Result<()> {
        let (pairs, failure) = {
            let mut files = lock(&self.files);
            (std::mem::take(&mut files.pairs), files.failure.take())
        };
        if let Some(failure) = failure {
            return Err(failure);
        }
        for file in pairs.into_iter().flatten() {
            let mut out = file.finish()?;
            out.flush()?;
            out.get_ref().sync_all()?;
        }
        remove(&self.folder)?;
        fs::rename(&self.temporary, &self.folder)
    }
}

impl Drop for Captures {
    fn drop(&mut self) {
        // Of what has not been finished, nothing stays. Nobody is left to tell if that fails.
        let _ = remove(&self.temporary);
    }
}

impl Tap for Recorder {
    fn see(&mut self, now: Time, end: End, pkt: &Packet, blocks: &Blocks) {
        lock(&self.0).write(now, end, pkt, blocks);
    }
}

impl Files {
    #[inline]
    fn write(&mut self, now: Time, end: End, pkt: &Packet, blocks: &Blocks) {
        if self.failure.is_some() {
            return;
        }
        let headers = self.wires[pkt.flow as usize].headers(now, end, pkt, blocks);
        let file = &mut self.pairs[usize::from(pkt.group)][end as usize];
        let written = file.packet(now.0, headers.as_slice(), u32::from(pkt.frame_len));
        self.failure = written.err();
    }
}

/// All flows by their number: TCP flows come first.
fn wires(run: &Run) -> Vec<Wire> {
    let of_kind = |kind| {
        let groups = run.flows.iter().enumerate().filter(move |(_, f)| f.kind == kind);
        groups.flat_map(|(group, f)| (0..f.count).map(move |index| (group as u16, index)))
    };
    let flows = of_kind(Kind::Tcp).chain(of_kind(Kind::Cbr));
    let numbered = flows.enumerate();
    numbered.map(|(n, (group, index))| Wire::new(run.seed, group, index, n as u32)).collect()
}

/// The flow's name with what does not belong into file names written as %XX.
fn file_name(flow: &str, end: &str) -> String {
    let mut name = String::new();
    for byte in flow.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'+' => name.push(byte.into()),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("{name}-{end}.pcapng.gz")
}

fn lock(files: &Mutex<Files>) -> MutexGuard<'_, Files> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes a folder, if it is there.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
