//! One host's end of a connection, for `l4slab packetdrill`.

use std::sync::{Mutex, PoisonError};

use l4slab_core::cc::registry::parse;
use l4slab_core::ecn::{Ecn, EcnSupport};
use l4slab_core::packet::{EcnBytes, Flags, GroupId, TCP_IP_HEADERS, TcpBits};
use l4slab_core::rng::Rng;
use l4slab_core::sack::Block;
use l4slab_core::time::{Span, Time};
use l4slab_core::transport::endpoint::{self, Arrival, Sent};
use l4slab_core::transport::options::{Options, Pacing};
use l4slab_core::transport::rtt::RTO_MIN;
use l4slab_core::transport::sender::{SenderConfig, Switches};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::refused;

/// A host's end of a connection under a clock from outside, in ns.
#[pyclass]
pub struct Endpoint(Mutex<endpoint::Endpoint>);

#[pymethods]
impl Endpoint {
    /// `ecn` is off, classic or accecn; `mss` the payload of a full segment; `settings` are the sysctls that the core's
    /// `Switches` names, and `ecn_option`. A ValueError says what is wrong.
    #[new]
    fn new(
        cc: &str,
        ecn: &str,
        mss: u32,
        timestamps: bool,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<Endpoint> {
        let setting = |key| get::<u32>(settings, key).map(|value| value.unwrap_or(0));
        let ecn = match ecn {
            "off" => EcnSupport::Off,
            "classic" => EcnSupport::Classic,
            "accecn" => EcnSupport::AccEcn,
            _ => return Err(refused(format!("ecn \"{ecn}\" is not off, classic or accecn"))),
        };
        let config = SenderConfig {
            flow: 0,
            group: GroupId::default(),
            ecn,
            pace_bps: None,
            bytes: None,
            receive_window: None,
            stream: true,
            dscp: 0,
            mtu: mss + TCP_IP_HEADERS,
            rto_min: RTO_MIN,
            rules: Options {
                idle_restart: setting("slow_start_after_idle")? > 0,
                pacing: if setting("paces")? > 0 { Pacing::On } else { Pacing::Controller },
                ..Options::default()
            },
            stop: Time::NEVER,
            switches: Switches {
                timestamps,
                accecn_option: false,
                ecn_fallback: setting("ecn_fallback")? > 0,
                least_burst: setting("min_tso_segs")?,
            },
        };
        let controller = parse(cc, &[]).map_err(|e| refused(e.to_string()))?;
        let option = setting("ecn_option")? as u8;
        let cc = controller.build(Rng::stream(0, "controller", 0));
        Ok(Endpoint(Mutex::new(endpoint::Endpoint::new(config, cc, option))))
    }

    /// Opens the connection, or waits for a peer that does.
    fn start(&mut self, now: u64, is_client: bool) {
        self.end().start(Time(now), is_client);
    }
    /// Lets time pass up to `until`, exclusively.
    fn run(&mut self, until: u64) {
        self.end().run(Time(until));
    }
    /// When something is to happen without anybody.
    fn deadline(&mut self) -> u64 {
        self.end().deadline().0
    }
    fn write(&mut self, now: u64, size: u64) {
        self.end().write(Time(now), size);
    }
    /// The application sends nothing more.
    fn finish(&mut self, now: u64) {
        self.end().finish(Time(now));
    }
    /// Another `tcp_ecn_option`.
    fn set_option(&mut self, setting: u8) {
        self.end().set_option(setting);
    }
    fn abort(&mut self) {
        self.end().sender.abort();
    }
    fn is_established(&mut self) -> bool {
        self.end().sender.is_established()
    }

    /// A packet arrives: a dict with the fields of the core's `Arrival`.
    fn arrive(&mut self, now: u64, arrival: &Bound<'_, PyDict>) -> PyResult<()> {
        let arrival = read(arrival)?;
        self.end().arrive(Time(now), &arrival);
        Ok(())
    }

    /// What was sent since the last call: dicts.
    fn take_sent<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.end().take_sent().iter().map(|sent| show(py, sent)).collect()
    }

    /// What `tcp_info` would tell of the sending side.
    fn info<'py>(&mut self, py: Python<'py>, now: u64) -> PyResult<Bound<'py, PyDict>> {
        let d = PyDict::new(py);
        let (busy, limited) = self.end().times(Time(now));
        d.set_item("busy_time", busy.as_micros())?;
        d.set_item("rwnd_limited", limited.as_micros())?;
        let mut result = Ok(());
        self.end().sender.info(&mut |name, value| {
            if let Err(e) = d.set_item(name, value) {
                result = Err(e);
            }
        });
        result.map(|()| d)
    }
    /// Bytes in sequence that have arrived, segments in sequence, and how ECN was negotiated.
    fn received(&mut self) -> (u64, u32, &'static str) {
        let end = self.end();
        (end.receiver.received_bytes, end.receiver.next(), end.mode().name())
    }
}

impl Endpoint {
    fn end(&mut self) -> &mut endpoint::Endpoint {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

fn get<'py, T>(d: &Bound<'py, PyDict>, key: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py>,
    for<'a> <T as FromPyObject<'a, 'py>>::Error: Into<PyErr>,
{
    d.get_item(key)?.map(|v| v.extract().map_err(Into::into)).transpose()
}

fn read(d: &Bound<'_, PyDict>) -> PyResult<Arrival> {
    let time = |ms: u64| Time::ZERO + Span::from_millis(ms);
    let flag = |key| Ok::<bool, PyErr>(get(d, key)?.unwrap_or(false));
    let blocks: Vec<(u32, u32)> = get(d, "blocks")?.unwrap_or_default();
    let option: Option<(u32, u32, u32)> = get(d, "option")?;
    Ok(Arrival {
        is_syn: flag("is_syn")?,
        is_fin: flag("is_fin")?,
        is_pushed: flag("is_pushed")?,
        bits: TcpBits(get(d, "bits")?.unwrap_or(0)),
        field: Ecn::from_bits(get(d, "field")?.unwrap_or(0)),
        ack: get(d, "ack")?,
        window: get(d, "window")?.unwrap_or(0),
        data: get(d, "data")?,
        tsval: time(get(d, "tsval_ms")?.unwrap_or(0)),
        echo: get(d, "echo_ms")?.map(time),
        blocks: blocks.into_iter().map(|(start, end)| Block::new(start, end)).collect(),
        is_dsack: flag("is_dsack")?,
        option: option.map(|(ect0, ce, ect1)| EcnBytes { ect0, ce, ect1 }),
    })
}

fn show<'py>(py: Python<'py>, sent: &Sent) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    let p = &sent.packet;
    let is_data = p.flags.has(Flags::DATA);
    d.set_item("at_ns", sent.at.0)?;
    d.set_item("is_syn", p.flags.has(Flags::SYN))?;
    d.set_item("is_data", is_data)?;
    d.set_item("is_fin", p.flags.has(Flags::FIN))?;
    d.set_item("is_again", p.flags.has(Flags::RETRANSMISSION))?;
    d.set_item("is_pushed", p.bits.has(TcpBits::PSH))?;
    d.set_item("bits", p.bits.without(TcpBits::PSH).0)?;
    d.set_item("field", p.ecn.get().bits())?;
    d.set_item("seq", if is_data { p.seq } else { sent.next })?;
    d.set_item("payload", p.payload)?;
    d.set_item("ack", sent.ack)?;
    d.set_item("window_kib", p.window)?;
    d.set_item("tsval_ms", sent.tsval.millis())?;
    d.set_item("echo_ms", sent.echo.millis())?;
    let blocks: Vec<(u32, u32)> = sent.blocks.as_slice().iter().map(|b| (b.start, b.end)).collect();
    d.set_item("blocks", blocks)?;
    d.set_item("option", sent.option.map(|o| (o.ect0, o.ce, o.ect1)))?;
    Ok(d)
}
