//! The captures of a run: for each flow group `FLOW-client.pcapng.gz` and `FLOW-server.pcapng.gz` in
//! one folder, which appears when they are complete. Web requests, whose connections come and go, and
//! videos are not captured.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use l4slab_core::net::tap::{End, Tap};
use l4slab_core::packet::{Flags, FlowId, Packet};
use l4slab_core::sack::Blocks;
use l4slab_core::scenario::Run;
use l4slab_core::time::Time;
use l4slab_core::traffic::WireKind;

use crate::frame::MAX_HEADERS;
use crate::pcapng::{About, Writer};
use crate::wire::Wire;

/// Captures under construction; what a simulation is tapped with.
pub struct Captures {
    folder: PathBuf,
    /// The packets until then.
    temporary: PathBuf,
    /// Of each group the client's and the server's file, if it is captured.
    files: Vec<Option<[Writer<BufWriter<File>>; 2]>>,
    wires: BTreeMap<FlowId, Wire>,
    seed: u64,
    /// Of each group, how many flows it has had.
    begun: Vec<u32>,
    failure: Option<io::Error>,
}

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
        let mut made = Captures {
            folder: folder.to_owned(),
            temporary,
            files: Vec::new(),
            wires: wires(run),
            seed: run.seed,
            begun: run.flows.iter().map(|f| f.count).collect(),
            failure: None,
        };
        for flow in &run.flows {
            if flow.traffic.wire().is_none() {
                made.files.push(None);
                continue;
            }
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
            made.files.push(Some(pair));
        }
        Ok(made)
    }

    /// Writes a frame of `length` bytes that passes an end of a group's path, of which these are the first ones.
    ///
    /// # Errors
    /// Of the file system.
    pub fn write(
        &mut self,
        group: usize,
        end: End,
        now: Time,
        frame: &[u8],
        length: u32,
    ) -> io::Result<()> {
        match &mut self.files[group] {
            Some(files) => files[end as usize].packet(now.0, frame, length),
            None => Ok(()),
        }
    }

    /// Completes the files and puts the folder in place.
    ///
    /// # Errors
    /// The first that the file system has told of. There are no captures then.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        for file in std::mem::take(&mut self.files).into_iter().flatten().flatten() {
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

impl Tap for Captures {
    fn see(&mut self, now: Time, end: End, pkt: &Packet, blocks: &Blocks) {
        if self.failure.is_some() {
            return;
        }
        let Some(files) = &mut self.files[usize::from(pkt.group.number)] else {
            return;
        };
        let group = pkt.group.number;
        let wire = self.wires.entry(pkt.flow).or_insert_with(|| {
            // A flow that came while it ran.
            let index = &mut self.begun[usize::from(group)];
            *index += 1;
            Wire::new(self.seed, group, *index - 1, pkt.flow, pkt.flags.has(Flags::UDP))
        });
        let headers = wire.headers(now, end, pkt, blocks);
        let file = &mut files[end as usize];
        let written = file.packet(now.0, headers.as_slice(), u32::from(pkt.frame_len));
        self.failure = written.err();
    }
}

/// The flows that are there from the start, by their number.
fn wires(run: &Run) -> BTreeMap<FlowId, Wire> {
    let groups = run.flows.iter().enumerate();
    let flows = groups.flat_map(|(group, f)| (0..f.count).map(move |index| (group, f, index)));
    let numbered = flows.enumerate();
    numbered
        .map(|(number, (group, flow, index))| {
            let udp = flow.traffic.wire() == Some(WireKind::Udp);
            (number as u32, Wire::new(run.seed, group as u16, index, number as u32, udp))
        })
        .collect()
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

/// Removes a folder, if it is there.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
