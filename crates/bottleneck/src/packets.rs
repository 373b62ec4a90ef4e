//! From the log of an engine's run to what its links and impairments saw: the files that the laboratory of the engine `linux`
//! writes, which `l4slab.engines.linux.recording` reads; and to captures at both ends of its paths.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};

use l4slab_core::net::tap::End;
use l4slab_core::packet::Flags;
use l4slab_core::scenario::Run;
use l4slab_core::sim::transit::{Place, Transit};
use l4slab_core::time::Time;
use l4slab_core::units::ETHERNET_HEADER;
use l4slab_io::captures::Captures;
use l4slab_io::frame::MAX_HEADERS;
use serde::Deserialize;

use crate::Refused;
use crate::frame::{Ends, IPV6, set_ecn};
use crate::log::{Arrival, IS_CORRUPT, Reader, Record};

/// `struct format` of lab.c.
const MAGIC: &[u8; 8] = b"l4slab\0\0";
const FORMAT: u32 = 4;
const RECORD: usize = 40;
const PAYLOAD: u8 = 1;
const BACKWARD: u8 = 2;
/// What the last word of a record says of what has left: a bit was flipped on the way. Of what was lost it is the reason's
/// place in `DropReason::ALL`, from 1 on.
const DAMAGED: u32 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SYN: u8 = 2;
/// QUIC's long headers are those of the handshake (RFC 9000, section 17).
const LONG_HEADER: u8 = 0xc0;
const SHORT_HEADER: u8 = 0x40;

/// What is known of a flow group.
#[derive(Deserialize)]
pub struct Group {
    is_program: bool,
    /// The client of the program sends the data.
    client_sends: bool,
}

/// What is asked for.
#[derive(Deserialize)]
pub struct Wanted {
    groups: Vec<Group>,
    /// The impairments, by number and direction (0: there, 1: back), in the order of their files.
    impairments: Vec<(usize, usize)>,
    /// The folder of captures, and the run's title in them.
    captures: Option<(PathBuf, String)>,
}

/// A packet at a link or an impairment.
#[derive(Clone, Default)]
struct Seen {
    came: u64,
    left: u64,
    flow: u16,
    conn: u16,
    id: u32,
    length: u16,
    ecn: [u8; 2],
    kind: u8,
    headers: u8,
    sequence: u32,
    fresh: u32,
    fate: u32,
    /// From its leaving the queue to its arrival behind the medium.
    behind: u64,
}

/// A connection of a program: protocol and ports, the data's sender first.
#[derive(Default)]
struct Pair {
    group: usize,
    protocol: u8,
    ports: [u16; 2],
    first: Option<u64>,
    ready: u64,
    last: u64,
    was_opened: bool,
}

impl Pair {
    /// A packet of the data's sender.
    fn sent(&mut self, at: Time, ends: &Ends) {
        let (opens, goes_on) = match ends.protocol {
            TCP => (ends.opening & SYN != 0, ends.opening & SYN == 0),
            UDP => {
                let form = ends.opening & LONG_HEADER;
                (form == LONG_HEADER, form == SHORT_HEADER)
            }
            _ => (false, false),
        };
        if self.first.is_none() {
            (self.first, self.was_opened) = (Some(at.0), opens);
        }
        if self.was_opened && goes_on && self.ready == 0 {
            self.ready = at.0;
        }
        self.last = at.0;
    }
}

/// A packet in the network.
struct Under {
    group: usize,
    side: usize,
    pair: Option<usize>,
    /// A segment whose bytes have numbers.
    is_numbered: bool,
    seen: Seen,
    /// Where it and its copies are.
    at: Vec<Inside>,
}

/// A packet, or one of its copies, in an element whose packets are written down.
struct Inside {
    /// How many elements it has crossed.
    crossed: u8,
    /// The element, and which of its packets.
    element: usize,
    n: usize,
}

impl Under {
    /// The one that has crossed so many elements, which it leaves.
    fn take(&mut self, crossed: u8) -> Option<Inside> {
        let at = self.at.iter().position(|inside| inside.crossed == crossed)?;
        Some(self.at.remove(at))
    }
}

/// Which bytes of a connection have left a link.
#[derive(Default)]
struct Coverage {
    /// By begin, the end; they do not touch.
    stretches: BTreeMap<i64, i64>,
    newest: i64,
}

impl Coverage {
    /// How many of `length` bytes from the sequence number `from` have not been there.
    fn add(&mut self, from: u32, length: u32) -> u32 {
        // Sequence numbers come round after 2^32.
        let near = from.wrapping_sub(self.newest as u32) as i32;
        let mut begin = self.newest + i64::from(near);
        let mut end = begin + i64::from(length);
        self.newest = self.newest.max(end);
        let mut fresh = i64::from(length);
        let (first, last) = (begin, end);
        let touching: Vec<_> = self.stretches.range(..=end).rev().map(|(b, e)| (*b, *e)).collect();
        for (b, e) in touching.into_iter().take_while(|(_, e)| *e >= first) {
            fresh -= (e.min(last) - b.max(first)).max(0);
            (begin, end) = (begin.min(b), end.max(e));
            self.stretches.remove(&b);
        }
        self.stretches.insert(begin, end);
        fresh as u32
    }
}

/// What captures need besides.
#[derive(Default)]
struct Frames {
    /// When each packet left its host.
    sent: Vec<u64>,
    /// Where the headers of each one end, in `bytes`.
    ends: Vec<usize>,
    bytes: Vec<u8>,
    /// What was handed over: when, which packet, its ECN field, and whether a bit was flipped.
    came: Vec<(u64, u32, u8, bool)>,
}

impl Frames {
    fn keep(&mut self, headers: &[u8]) {
        self.bytes.extend(headers);
        self.ends.push(self.bytes.len());
    }

    fn headers(&self, id: usize) -> &[u8] {
        let before = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.bytes[before..self.ends[id]]
    }

    /// Writes all frames, in the order of time.
    fn write(&self, mut to: Captures, under: &[Under]) -> io::Result<()> {
        const ENDS: [End; 2] = [End::Client, End::Server];
        let sent = self.sent.iter().take(self.ends.len()).enumerate();
        let sent = sent.map(|(id, at)| (*at, id, under[id].side, under[id].seen.ecn[0], false));
        let came = self.came.iter().filter(|(_, id, ..)| (*id as usize) < self.ends.len());
        let came = came.map(|(at, id, ecn, is_damaged)| {
            (*at, *id as usize, 1 - under[*id as usize].side, *ecn, *is_damaged)
        });
        let mut all: Vec<_> = sent.chain(came).collect();
        all.sort_unstable();
        for (at, id, end, ecn, is_damaged) in all {
            let packet = &under[id];
            let mut frame = ethernet(packet.group, packet.side).to_vec();
            frame.extend(self.headers(id));
            if frame.get(ETHERNET_HEADER as usize).is_some_and(|byte| byte >> 4 == 6) {
                frame[TYPE..ETHERNET_HEADER as usize].copy_from_slice(&IPV6.to_be_bytes());
            }
            let ip = &mut frame[ETHERNET_HEADER as usize..];
            set_ecn(ip, ecn);
            if is_damaged {
                spoil(ip);
            }
            frame.truncate(MAX_HEADERS);
            let length = packet.seen.length.into();
            to.write(packet.group, ENDS[end], Time(at), &frame, length)?;
        }
        to.finish()
    }
}

/// Makes the transport's checksum wrong, as it is for a payload with a flipped bit.
fn spoil(ip: &mut [u8]) {
    let (protocol, header) =
        if ip[0] >> 4 == 6 { (ip[6], 40) } else { (ip[9], usize::from(ip[0] & 15) * 4) };
    let low_byte = if protocol == TCP { 17 } else { 7 };
    if let Some(byte) = ip.get_mut(header + low_byte) {
        *byte ^= 1;
    }
}

/// Where that header has the type of what follows.
const TYPE: usize = 12;
/// The header that a TUN device does not have, with the addresses that the simulator's captures have.
fn ethernet(group: usize, side: usize) -> [u8; ETHERNET_HEADER as usize] {
    let [high, low] = (group as u16).wrapping_add(1).to_be_bytes();
    let mut header = [2, 0, 0, high, low, 2, 2, 0, 0, high, low, 1, 8, 0];
    (header[5], header[11]) = if side == 0 { (2, 1) } else { (1, 2) };
    header
}

/// What a log adds up to.
struct Summary<'a> {
    run: &'a Run,
    wanted: &'a Wanted,
    /// Of each flow group, there and back.
    paths: Vec<[Vec<Place>; 2]>,
    /// Packets at each link, and then at each impairment that is asked for.
    elements: Vec<Vec<Seen>>,
    frames: Frames,
    under: Vec<Under>,
    pairs: Vec<Pair>,
    numbers: HashMap<(usize, u8, [u16; 2]), usize>,
    /// By link, flow and connection.
    passed: HashMap<(usize, u16, u16), Coverage>,
}

fn damaged() -> Refused {
    Refused::input("is damaged: a packet of no flow group")
}

impl<'a> Summary<'a> {
    fn new(run: &'a Run, wanted: &'a Wanted) -> Result<Summary<'a>, Refused> {
        let transit = Transit::new(run).map_err(|e| Refused::input(e.to_string()))?;
        let flows = 0..run.flows.len();
        Ok(Summary {
            run,
            wanted,
            paths: flows.map(|flow| [0, 1].map(|side| transit.path(flow, side))).collect(),
            elements: vec![Vec::new(); run.links.len() + wanted.impairments.len()],
            frames: Frames::default(),
            under: Vec::new(),
            pairs: Vec::new(),
            numbers: HashMap::new(),
            passed: HashMap::new(),
        })
    }

    /// The number in `elements` of a place on a path.
    fn element(&self, place: Option<&Place>, side: usize) -> Option<usize> {
        match place? {
            Place::Link(link) => Some(*link),
            Place::Impair(impair) => {
                let wanted = &self.wanted.impairments;
                let of_file = wanted.iter().position(|one| *one == (*impair, side));
                of_file.map(|n| self.run.links.len() + n)
            }
            Place::Rewrite => None,
        }
    }

    /// The connection of a program's packet.
    fn pair(&mut self, at: Time, group: usize, side: usize, ends: &Ends) -> Option<usize> {
        let known = &self.wanted.groups[group];
        if !known.is_program {
            return None;
        }
        let protocol = ends.protocol;
        let ports = from_sender(ends, side);
        let number = *self.numbers.entry((group, protocol, ports)).or_insert_with(|| {
            self.pairs.push(Pair { group, protocol, ports, ..Pair::default() });
            self.pairs.len() - 1
        });
        if known.client_sends == (side == 0) {
            self.pairs[number].sent(at, ends);
        }
        Some(number)
    }

    fn arrival(&mut self, at: Time, arrival: &Arrival) -> Result<(), Refused> {
        let id = self.under.len() as u32;
        let pkt = arrival.packet(id);
        let (group, side) = (usize::from(pkt.group.number), usize::from(pkt.is_ack()));
        if group >= self.wanted.groups.len() {
            return Err(damaged());
        }
        let ends = arrival.ends;
        let pair = self.pair(at, group, side, &ends);
        let is_tcp_data = ends.protocol == TCP && pkt.flags.has(Flags::DATA);
        let has_payload = is_tcp_data || ends.protocol == UDP;
        let payload = if has_payload { pkt.payload } else { 0 };
        let backward = if side == 1 { BACKWARD } else { 0 };
        let seen = Seen {
            flow: group as u16 + 1,
            conn: pair.map_or(from_sender(&ends, side)[0], |pair| pair as u16),
            id,
            length: pkt.frame_len,
            ecn: [pkt.ecn.get().bits(); 2],
            kind: backward | if has_payload { PAYLOAD } else { 0 },
            headers: (pkt.frame_len - payload).min(255) as u8,
            sequence: if is_tcp_data { pkt.seq } else { id },
            ..Seen::default()
        };
        let is_numbered = is_tcp_data && side == 0;
        self.under.push(Under { group, side, pair, is_numbered, seen, at: Vec::new() });
        self.frames.sent.push(at.0);
        Ok(())
    }

    /// A packet leaves the element that it was in, and enters the next one of its path.
    fn step(&mut self, step: &Step) -> Result<(), Refused> {
        let Step { at, id, crossed, ecn, left, is_damaged } = *step;
        let packet = self.under.get_mut(id).ok_or_else(damaged)?;
        if let Some(inside) = crossed.checked_sub(1).and_then(|before| packet.take(before)) {
            let seen = &mut self.elements[inside.element][inside.n];
            let is_link = inside.element < self.run.links.len();
            (seen.left, seen.behind) = (left.0, at.0 - left.0);
            seen.ecn[1] = ecn;
            seen.fate = if is_damaged { DAMAGED } else { 0 };
            seen.fresh = match is_damaged {
                true => 0,
                false => u32::from(seen.length) - u32::from(seen.headers),
            };
            if packet.is_numbered && is_link && !is_damaged {
                let key = (inside.element, seen.flow, seen.conn);
                seen.fresh = self.passed.entry(key).or_default().add(seen.sequence, seen.fresh);
            }
        }
        let packet = &self.under[id];
        let place = self.paths[packet.group][packet.side].get(usize::from(crossed));
        if let Some(element) = self.element(place, packet.side) {
            let mut seen = packet.seen.clone();
            (seen.came, seen.ecn[0]) = (at.0, ecn);
            let n = self.elements[element].len();
            self.under[id].at.push(Inside { crossed, element, n });
            self.elements[element].push(seen);
        }
        Ok(())
    }

    /// Adds a record; false if it is the last one.
    fn add(&mut self, record: &Record) -> Result<bool, Refused> {
        match record {
            Record::Arrival(at, arrival) => self.arrival(*at, arrival)?,
            Record::Headers { bytes, .. } => self.frames.keep(bytes),
            Record::Step { at, id, crossed, ecn, flags, left } => self.step(&Step {
                at: *at,
                id: *id as usize,
                crossed: *crossed,
                ecn: *ecn,
                left: *left,
                is_damaged: flags & IS_CORRUPT != 0,
            })?,
            Record::Loss { id, hop, why, .. } => {
                let packet = self.under.get_mut(*id as usize).ok_or_else(damaged)?;
                if let Some(inside) = packet.take(*hop) {
                    self.elements[inside.element][inside.n].fate = u32::from(*why) + 1;
                }
            }
            Record::Departure { due, written, id, ecn, flags } => {
                let packet = self.under.get(*id as usize).ok_or_else(damaged)?;
                if let Some(pair) = packet.pair {
                    let last = &mut self.pairs[pair].last;
                    *last = (*last).max(due.0);
                }
                if *written != Time::ZERO {
                    self.frames.came.push((written.0, *id, *ecn, flags & IS_CORRUPT != 0));
                }
            }
            // The engine changes nothing.
            Record::Change(_) => {}
            Record::End(_) => return Ok(false),
        }
        Ok(true)
    }

    /// Writes what the elements saw.
    fn write(&self, folder: &Path) -> Result<(), Refused> {
        let links = &self.run.links;
        let unwritten =
            |path: &Path, e| Refused::machine(format!("{} cannot be written: {e}", path.display()));
        for (n, packets) in self.elements.iter().enumerate() {
            let path = folder.join(match n.checked_sub(links.len()) {
                None => format!("packets.{n}.bin"),
                Some(impairment) => format!("impaired.{impairment}.bin"),
            });
            write_element(&path, packets, &self.wanted.groups).map_err(|e| unwritten(&path, e))?;
            if links.get(n).is_some_and(|link| link.medium.is_some() || link.up_of.is_some()) {
                let path = folder.join(format!("behind.{n}.bin"));
                let times: Vec<u8> =
                    packets.iter().flat_map(|seen| seen.behind.to_le_bytes()).collect();
                std::fs::write(&path, times).map_err(|e| unwritten(&path, e))?;
            }
        }
        Ok(())
    }
}

/// A packet that has crossed so many elements of its path.
struct Step {
    at: Time,
    id: usize,
    crossed: u8,
    ecn: u8,
    /// When it left the queue of the last one.
    left: Time,
    is_damaged: bool,
}

/// The ports of a packet, its flow's sender first.
fn from_sender(ends: &Ends, side: usize) -> [u16; 2] {
    let [from, to] = ends.ports;
    if side == 1 { [to, from] } else { [from, to] }
}

/// Writes `packets.N.bin` of each link of the log's run, `behind.N.bin` of each with a medium (for each packet the
/// nanoseconds behind the queue, u64) and `impaired.N.bin` of each impairment into a folder, and captures;
/// the connections of programs as lines for events.tsv.
///
/// # Errors
/// One sentence: the log or the folder.
pub fn write(from: impl BufRead, wanted: &Wanted, folder: &Path) -> Result<Vec<String>, Refused> {
    let mut log = Reader::new(from)?;
    let run = Run::from_json(log.header.run.get()).map_err(|e| Refused::input(e.to_string()))?;
    let mut all = Summary::new(&run, wanted)?;
    while all.add(&log.take()?)? {}
    all.write(folder)?;
    if let Some((folder, title)) = &wanted.captures {
        let to = Captures::create(folder, title, &run);
        to.and_then(|to| all.frames.write(to, &all.under)).map_err(|e| {
            Refused::machine(format!("captures cannot be written to {}: {e}", folder.display()))
        })?;
    }
    Ok(all.pairs.iter().enumerate().map(|(n, pair)| line(n, pair)).collect())
}

fn write_element(path: &Path, packets: &[Seen], groups: &[Group]) -> io::Result<()> {
    let mut to = BufWriter::new(File::create(path)?);
    to.write_all(MAGIC)?;
    to.write_all(&FORMAT.to_le_bytes())?;
    to.write_all(&(RECORD as u32).to_le_bytes())?;
    for (number, seen) in packets.iter().enumerate() {
        let is_program = groups[usize::from(seen.flow) - 1].is_program;
        to.write_all(&seen.came.to_le_bytes())?;
        to.write_all(&seen.left.to_le_bytes())?;
        for short in [seen.flow, seen.conn, seen.id as u16, seen.length] {
            to.write_all(&short.to_le_bytes())?;
        }
        to.write_all(&[seen.ecn[0], seen.ecn[1], seen.kind, seen.headers])?;
        let number = if is_program { seen.sequence } else { number as u32 };
        for long in [number, seen.fresh, seen.fate] {
            to.write_all(&long.to_le_bytes())?;
        }
    }
    to.flush()
}

/// As `write_pairs` of programs.h.
fn line(number: usize, pair: &Pair) -> String {
    let protocol = match pair.protocol {
        TCP => "tcp",
        UDP => "udp",
        _ => "ip",
    };
    let first = pair.first.unwrap_or(pair.last);
    let Pair { group, ports: [from, into], ready, last, .. } = pair;
    format!(
        "{first}\tconnection\t{}\t{number}\t{protocol}\t{from}\t{into}\t{ready}\t{last}",
        group + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_fresh_once() {
        let mut passed = Coverage::default();
        let start = u32::MAX - 1500;
        let sent = [(0, 1000), (1000, 1000), (0, 1000), (3000, 500), (1500, 2000), (500, 3000)];
        let fresh: Vec<_> =
            sent.iter().map(|(at, n)| passed.add(start.wrapping_add(*at), *n)).collect();
        assert_eq!(fresh, [1000, 1000, 0, 500, 1000, 0]);
        assert_eq!(passed.stretches.len(), 1);
    }

    #[test]
    fn stretches_are_as_a_set_of_bytes() {
        let mut rng = l4slab_core::rng::Rng::stream(1, "stretches", 0);
        let mut passed = Coverage::default();
        let mut known = std::collections::BTreeSet::new();
        for _ in 0..2000 {
            let (from, length) = (rng.below(3000) as u32, 1 + rng.below(40) as u32);
            let new = (from..from + length).filter(|byte| known.insert(*byte)).count();
            assert_eq!(passed.add(from, length) as usize, new);
        }
    }
}
