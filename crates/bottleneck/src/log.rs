//! The log of a live run: a line of JSON, then records in the order in which they were written.
//!
//! | tag | record (little-endian, without gaps) |
//! |---|---|
//! | `A` | arrival: time sent u64, flow u32, number u32, TSval u32, TSecr u32, frame u16, payload u16, flags u16, TCP bits u8, DSCP u8, ECN u8, flow group u16, ports u16 u16, protocol u8, opening u8 |
//! | `H` | headers of the arrival before, as a capture has them: id u32, length u8, bytes; only where somebody asks |
//! | `S` | step: time u64, id u32, elements crossed u8, ECN u8, flags u8, time when it left the queue u64; only where somebody asks |
//! | `C` | change: length u32, an entry of the run's `at` as JSON; only where somebody changes the network |
//! | `D` | departure: time due u64, time written u64 (0: never), id u32, ECN u8, flags u8 |
//! | `L` | loss: time u64, id u32, hop u8, reason u8 (its place in `DropReason::ALL`) |
//! | `E` | end: everything before this time u64 has happened |
//!
//! Times are nanoseconds since the start. Arrivals have the ids 0, 1, 2, … in the order of the file.

use std::io::{self, BufRead, Read, Write};

use l4slab_core::ecn::Ecn;
use l4slab_core::packet::{Flags, GroupId, Packet, Stamp, TcpBits};
use l4slab_core::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Refused;
use crate::frame::Ends;

/// The first line.
#[derive(Serialize, Deserialize)]
pub struct Header {
    /// Of this format.
    pub l4slab_bottleneck: u32,
    /// The build that made it (`L4SLAB_SOURCE_HASH`).
    pub build: String,
    /// The run with the flow groups whose paths they were.
    pub run: Box<RawValue>,
}

pub const FORMAT: u32 = 4;
const LONGEST_CHANGE: u32 = 1 << 20;

/// Bits of the flags of departures and steps.
pub const IS_BACK: u8 = 1;
pub const IS_CORRUPT: u8 = 2;

/// An event of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Arrival(Time, Arrival),
    Headers { id: u32, bytes: Vec<u8> },
    Change(String),
    Step { at: Time, id: u32, crossed: u8, ecn: u8, flags: u8, left: Time },
    Departure { due: Time, written: Time, id: u32, ecn: u8, flags: u8 },
    Loss { at: Time, id: u32, hop: u8, why: u8 },
    End(Time),
}

/// The fields of a packet that queues read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    flow: u32,
    seq: u32,
    tsval: u32,
    tsecr: u32,
    frame_len: u16,
    payload: u16,
    flags: u16,
    bits: u8,
    dscp: u8,
    ecn: u8,
    group: u16,
    /// What the queues do not read.
    pub ends: Ends,
}

impl Arrival {
    pub fn of(pkt: &Packet, ends: Ends) -> Arrival {
        Arrival {
            flow: pkt.flow,
            seq: pkt.seq,
            tsval: pkt.tsval.millis(),
            tsecr: Stamp::of(pkt.stamp).millis(),
            frame_len: pkt.frame_len,
            payload: pkt.payload,
            flags: pkt.flags.0,
            bits: pkt.bits.0,
            dscp: pkt.dscp,
            ecn: pkt.ecn.get().bits(),
            group: pkt.group.number,
            ends,
        }
    }
    /// The packet again, with this id.
    pub fn packet(&self, id: u32) -> Packet {
        let millis = |stamp: u32| Time(u64::from(stamp) * 1_000_000);
        let ecn = Ecn::from_bits(self.ecn);
        let flags = Flags(self.flags);
        let group = GroupId { number: self.group, account: 0 };
        let mut pkt = Packet::new(self.flow, group, flags, self.frame_len.into(), ecn);
        (pkt.seq, pkt.payload, pkt.dscp) = (self.seq, self.payload, self.dscp);
        (pkt.tsval, pkt.stamp) = (Stamp::of(millis(self.tsval)), millis(self.tsecr));
        pkt.bits = TcpBits(self.bits);
        set_id(&mut pkt, id);
        pkt
    }
}

/// A flow's number in the simulator: its group follows from it.
pub fn flow_number(hash: u32, group: usize, groups: usize) -> u32 {
    let (group, groups) = (group as u32, groups as u32);
    // The top bit has a meaning there.
    let hash = hash.min((u32::MAX >> 1) - groups);
    hash - hash % groups + group
}

/// The number of an arrival stands where only a receiver would look: copies have it too.
pub fn set_id(pkt: &mut Packet, id: u32) {
    pkt.ecn_bytes.ce = id;
}
pub fn id(pkt: &Packet) -> u32 {
    pkt.ecn_bytes.ce
}

impl Record {
    pub fn write(&self, to: &mut Vec<u8>) {
        match self {
            Record::Arrival(at, a) => {
                to.push(b'A');
                to.extend(at.0.to_le_bytes());
                [a.flow, a.seq, a.tsval, a.tsecr].iter().for_each(|n| to.extend(n.to_le_bytes()));
                [a.frame_len, a.payload, a.flags].iter().for_each(|n| to.extend(n.to_le_bytes()));
                to.extend([a.bits, a.dscp, a.ecn]);
                let Ends { protocol, ports: [from, into], opening } = a.ends;
                [a.group, from, into].iter().for_each(|n| to.extend(n.to_le_bytes()));
                to.extend([protocol, opening]);
            }
            Record::Headers { id, bytes } => {
                to.push(b'H');
                to.extend(id.to_le_bytes());
                to.push(bytes.len() as u8);
                to.extend(bytes);
            }
            Record::Change(text) => {
                to.push(b'C');
                to.extend((text.len() as u32).to_le_bytes());
                to.extend(text.as_bytes());
            }
            Record::Step { at, id, crossed, ecn, flags, left } => {
                to.push(b'S');
                to.extend(at.0.to_le_bytes());
                to.extend(id.to_le_bytes());
                to.extend([*crossed, *ecn, *flags]);
                to.extend(left.0.to_le_bytes());
            }
            Record::Departure { due, written, id, ecn, flags } => {
                to.push(b'D');
                to.extend(due.0.to_le_bytes());
                to.extend(written.0.to_le_bytes());
                to.extend(id.to_le_bytes());
                to.extend([*ecn, *flags]);
            }
            Record::Loss { at, id, hop, why } => {
                to.push(b'L');
                to.extend(at.0.to_le_bytes());
                to.extend(id.to_le_bytes());
                to.extend([*hop, *why]);
            }
            Record::End(at) => {
                to.push(b'E');
                to.extend(at.0.to_le_bytes());
            }
        }
    }

    /// The next one; `None` at the end of the file, also amidst a record.
    fn read(from: &mut impl Read) -> io::Result<Option<Record>> {
        fn bytes<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
            let mut bytes = [0; N];
            from.read_exact(&mut bytes).map(|()| bytes)
        }
        fn time(from: &mut impl Read) -> io::Result<Time> {
            Ok(Time(u64::from_le_bytes(bytes(from)?)))
        }
        fn long(from: &mut impl Read) -> io::Result<u32> {
            Ok(u32::from_le_bytes(bytes(from)?))
        }
        fn short(from: &mut impl Read) -> io::Result<u16> {
            Ok(u16::from_le_bytes(bytes(from)?))
        }
        fn record(from: &mut impl Read) -> io::Result<Record> {
            let [tag] = bytes(from)?;
            if tag == b'H' {
                let id = long(from)?;
                let [length] = bytes(from)?;
                let mut bytes = vec![0; length.into()];
                return from.read_exact(&mut bytes).map(|()| Record::Headers { id, bytes });
            }
            if tag == b'C' {
                let mut bytes = vec![0; long(from)?.min(LONGEST_CHANGE) as usize];
                from.read_exact(&mut bytes)?;
                let text = String::from_utf8(bytes);
                return text.map(Record::Change).map_err(|_| io::ErrorKind::InvalidData.into());
            }
            let at = time(from)?;
            Ok(match tag {
                b'A' => {
                    let (flow, seq) = (long(from)?, long(from)?);
                    let (tsval, tsecr) = (long(from)?, long(from)?);
                    let (frame_len, payload) = (short(from)?, short(from)?);
                    let flags = short(from)?;
                    let [bits, dscp, ecn] = bytes(from)?;
                    let group = short(from)?;
                    let ports = [short(from)?, short(from)?];
                    let [protocol, opening] = bytes(from)?;
                    let ends = Ends { protocol, ports, opening };
                    let arrival = Arrival {
                        flow,
                        seq,
                        tsval,
                        tsecr,
                        frame_len,
                        payload,
                        flags,
                        bits,
                        dscp,
                        ecn,
                        group,
                        ends,
                    };
                    Record::Arrival(at, arrival)
                }
                b'S' => {
                    let id = long(from)?;
                    let [crossed, ecn, flags] = bytes(from)?;
                    Record::Step { at, id, crossed, ecn, flags, left: time(from)? }
                }
                b'D' => {
                    let (written, id) = (time(from)?, long(from)?);
                    let [ecn, flags] = bytes(from)?;
                    Record::Departure { due: at, written, id, ecn, flags }
                }
                b'L' => {
                    let id = long(from)?;
                    let [hop, why] = bytes(from)?;
                    Record::Loss { at, id, hop, why }
                }
                b'E' => Record::End(at),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            })
        }
        match record(from) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            other => other.map(Some),
        }
    }
}

/// The first line of a log, with its end.
pub fn header(build: &str, run: &str) -> Result<Vec<u8>, Refused> {
    let wrong = |e: serde_json::Error| Refused::input(e.to_string());
    let run = RawValue::from_string(run.trim().replace('\n', " ")).map_err(wrong)?;
    let header = Header { l4slab_bottleneck: FORMAT, build: build.to_owned(), run };
    let mut line = serde_json::to_vec(&header).map_err(wrong)?;
    line.write_all(b"\n").expect("memory");
    Ok(line)
}

/// Reads a log record by record.
pub struct Reader<R> {
    pub header: Header,
    from: R,
}

impl<R: BufRead> Reader<R> {
    /// # Errors
    /// One sentence: it is no log, or of another format.
    pub fn new(mut from: R) -> Result<Reader<R>, Refused> {
        let no_log = "is no log of l4slab bottleneck; give the file that --log has written";
        let mut line = String::new();
        let first = from.by_ref().take(100 << 20).read_line(&mut line);
        first.map_err(|_| Refused::input(no_log))?;
        let header: Header = serde_json::from_str(&line).map_err(|_| Refused::input(no_log))?;
        if header.l4slab_bottleneck != FORMAT {
            return Err(Refused::input("is a log of another version of l4slab; record it again"));
        }
        Ok(Reader { header, from })
    }

    /// The next record. The last one is the end.
    ///
    /// # Errors
    /// One sentence: it has no end, or is damaged.
    pub fn take(&mut self) -> Result<Record, Refused> {
        let damaged = "is damaged; record it again";
        let cut = "has no end, because its run was killed; only the log of a run that ended can be compared";
        let record = Record::read(&mut self.from).map_err(|_| Refused::input(damaged))?;
        record.ok_or_else(|| Refused::input(cut))
    }
}

/// A whole log.
pub struct Log {
    pub header: Header,
    pub records: Vec<Record>,
    pub end: Time,
}

impl Log {
    /// # Errors
    /// One sentence: it is no log, of another format, or has no end.
    pub fn read(from: impl BufRead) -> Result<Log, Refused> {
        let mut reader = Reader::new(from)?;
        let mut records = Vec::new();
        loop {
            match reader.take()? {
                Record::End(end) => return Ok(Log { header: reader.header, records, end }),
                record => records.push(record),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_as_it_was_written() {
        let mut pkt =
            Packet::new(7, GroupId::default(), Flags::ACK.with(Flags::DATA), 1514, Ecn::Ect1);
        (pkt.seq, pkt.payload, pkt.dscp) = (u32::MAX, 1448, 46);
        (pkt.tsval, pkt.stamp) =
            (Stamp::of(Time(5_000_000_000)), Time(u64::from(u32::MAX) * 1_000_000));
        pkt.bits = TcpBits::AE;
        pkt.group.number = 3;
        let ends = Ends { protocol: 6, ports: [1, 65_535], opening: 2 };
        let records = vec![
            Record::Arrival(Time(1), Arrival::of(&pkt, ends)),
            Record::Headers { id: 0, bytes: vec![7; 94] },
            Record::Change("{}".to_owned()),
            Record::Step { at: Time(2), id: 0, crossed: 1, ecn: 3, flags: 2, left: Time(1 << 40) },
            Record::Departure { due: Time(9), written: Time(10), id: 0, ecn: 3, flags: IS_BACK },
            Record::Loss { at: Time(11), id: 0, hop: 2, why: 6 },
        ];
        let mut bytes = header("b", "{\"a\": 1}").unwrap();
        records.iter().chain([&Record::End(Time(12))]).for_each(|r| r.write(&mut bytes));
        let log = Log::read(&bytes[..]).unwrap();
        assert_eq!((log.end, &log.records), (Time(12), &records));
        let Record::Arrival(_, arrival) = &log.records[0] else { panic!() };
        assert_eq!(Arrival::of(&arrival.packet(0), ends), Arrival::of(&pkt, ends));
        let cut = Log::read(&bytes[..bytes.len() - 3]).err().unwrap();
        assert!(cut.sentence.contains("has no end"), "{}", cut.sentence);
    }
}
