//! A run that somebody watches and changes while it goes on: requests and responses as JSON, the same for
//! every door through which they come (a page's worker, a socket).
//!
//! A request is `{"do": …}` with what belongs to it, see [`Request`]; a response is `{"ok": {…}}` or
//! `{"refused": "one sentence"}`. Times are nanoseconds, rates bits per second, and columns are called as in
//! the result tables.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;

use crate::aqm::registry as qdiscs;
use crate::cc::registry as controllers;
use crate::distribution::Bin;
use crate::error::ScenarioError;
use crate::probe::{Series, Transfer};
use crate::scenario::{Change, Run};
use crate::sim::recording::{FlowRow, Histogram, LinkRow};
use crate::sim::watching::{AirEvents, Drained, Members, PacketEvents, Watch};
use crate::sim::{Recording, Simulation};
use crate::time::{Span, Time};

/// No request asks for more at once.
const LONGEST_ADVANCE: Span = Span::from_secs(100);
/// A live run has no end of its own, but times have.
const ENDLESS_NS: u64 = 1 << 60;

/// What can be asked.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// A new run, at time 0; its duration does not count.
    Start {
        run: Box<Run>,
        #[serde(default)]
        watch: Watch,
    },
    /// What is shown from now on.
    Watch { watch: Watch },
    /// A change at the time that has been reached, which is told: the same change planned for it
    /// (`[[at]]`) gives the same bits.
    Change { change: Box<Change> },
    /// Runs up to and including `until_ns`, and returns the news since the last call.
    Advance { until_ns: u64 },
    /// The rows of the tables `flows` and `links`, as if the run were over.
    Report {},
    /// A whole run, separate from the one in progress.
    Batch {
        run: Box<Run>,
        #[serde(default)]
        watch: Watch,
    },
    /// Whether a run can be started.
    Check { run: Box<Run> },
    /// The queues and the controllers, with their parameters.
    Vocabulary {},
}

/// A run that goes on, or none yet.
#[derive(Default)]
pub struct Live {
    session: Option<Session>,
}

struct Session {
    run: Run,
    simulation: Simulation,
    now: Time,
}

impl Session {
    fn new(mut run: Run, watch: Watch) -> Result<Session, ScenarioError> {
        run.check()?;
        run.duration_ns = ENDLESS_NS;
        let mut simulation = Simulation::new(&run)?;
        simulation.watch(watch);
        Ok(Session { run, simulation, now: Time::ZERO })
    }
}

impl Live {
    /// Answers a request.
    pub fn ask(&mut self, request: &str) -> String {
        let request = serde_json::from_str(request)
            .map_err(|e| ScenarioError(format!("the request is not valid: {e}")));
        match request.and_then(|request| self.answer(request)) {
            Ok(ok) => format!("{{\"ok\":{ok}}}"),
            Err(ScenarioError(refused)) => json!({ "refused": refused }).to_string(),
        }
    }

    fn answer(&mut self, request: Request) -> Result<String, ScenarioError> {
        match request {
            Request::Start { run, watch } => {
                let session = Session::new(*run, watch)?;
                let gauges: Vec<_> = session.run.gauges().iter().map(|g| g.name).collect();
                self.session = Some(session);
                Ok(json!({ "now_ns": 0, "gauges": gauges }).to_string())
            }
            Request::Watch { watch } => {
                self.session()?.simulation.watch(watch);
                Ok("{}".to_owned())
            }
            Request::Change { change } => {
                let Session { run, simulation, now } = self.session()?;
                run.at.push(Change { time_ns: now.0, ..*change });
                // With all that came before it must be a run.
                let done = run.check().and_then(|()| simulation.change(run));
                if done.is_err() {
                    run.at.pop();
                }
                let at = done?;
                Ok(json!({ "time_ns": at.0 }).to_string())
            }
            Request::Advance { until_ns } => {
                let session = self.session()?;
                let until = Time(until_ns);
                if until.since(session.now) > LONGEST_ADVANCE {
                    let most = LONGEST_ADVANCE.as_secs_f64();
                    return Err(ScenarioError(format!("at most {most} s at once can be run")));
                }
                if until > session.now {
                    session.simulation.run_until(until);
                    session.now = until;
                }
                let drained = session.simulation.drain();
                Ok(text(&Samples::new(session.now, &drained)))
            }
            Request::Report {} => {
                let session = self.session()?;
                if session.now.0 <= session.run.warmup_ns {
                    let what = "there is nothing to report before the warm-up is over";
                    return Err(ScenarioError(what.to_owned()));
                }
                let recording = session.simulation.report(session.now);
                Ok(text(&Report::new(session.now, &recording)))
            }
            Request::Batch { run, watch } => {
                run.check()?;
                let mut simulation = Simulation::new(&run)?;
                simulation.watch(watch);
                let end = simulation.run_to_end();
                let recording = simulation.report(end);
                let drained = simulation.drain();
                let (samples, report) = (Samples::new(end, &drained), Report::new(end, &recording));
                Ok(text(&Both { samples, flows: report.flows, links: report.links }))
            }
            Request::Check { run } => run.check().map(|()| "{}".to_owned()),
            Request::Vocabulary {} => Ok(json!({
                "qdiscs": qdiscs::listing(),
                "controllers": controllers::listing(),
                "version": env!("CARGO_PKG_VERSION"),
            })
            .to_string()),
        }
    }

    fn session(&mut self) -> Result<&mut Session, ScenarioError> {
        self.session.as_mut().ok_or_else(|| ScenarioError("no run was started".to_owned()))
    }
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it has nothing that JSON has not")
}

/// What has happened since the last one.
#[derive(Serialize)]
struct Samples<'a> {
    now_ns: u64,
    series: SeriesColumns<'a>,
    members: &'a Members,
    transfers: TransferColumns<'a>,
    histograms: Vec<HistogramRow<'a>>,
    packets: &'a PacketEvents,
    /// Of each medium that is watched.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    air: &'a [AirEvents],
}

#[derive(Serialize)]
struct Report<'a> {
    now_ns: u64,
    flows: &'a [FlowRow],
    links: &'a [LinkRow],
}

#[derive(Serialize)]
struct Both<'a> {
    #[serde(flatten)]
    samples: Samples<'a>,
    flows: &'a [FlowRow],
    links: &'a [LinkRow],
}

impl<'a> Samples<'a> {
    fn new(now: Time, drained: &'a Drained) -> Samples<'a> {
        let (flows, links) = (&drained.flow_names[..], &drained.link_names[..]);
        let histogram = |h: &'a Histogram| HistogramRow {
            quantity: h.quantity,
            flow: h.flow.map(|i| &flows[i][..]),
            link: h.link.map(|i| &links[i][..]),
            queue: h.queue,
            bins: h.bins.iter().map(bin).collect(),
        };
        Samples {
            now_ns: now.0,
            series: SeriesColumns { series: &drained.series, flows, links },
            members: &drained.members,
            transfers: TransferColumns { rows: &drained.transfers, flows },
            histograms: drained.histograms.iter().map(histogram).collect(),
            packets: &drained.packets,
            air: &drained.air,
        }
    }
}

impl<'a> Report<'a> {
    fn new(now: Time, recording: &'a Recording) -> Report<'a> {
        Report { now_ns: now.0, flows: &recording.flows, links: &recording.links }
    }
}

#[derive(Serialize)]
struct HistogramRow<'a> {
    quantity: &'static str,
    flow: Option<&'a str>,
    link: Option<&'a str>,
    queue: Option<&'static str>,
    /// From, to (both in ms), and how many.
    bins: Vec<(f64, f64, u64)>,
}

fn bin(bin: &Bin) -> (f64, f64, u64) {
    (bin.low.as_millis_f64(), bin.high.as_millis_f64(), bin.count)
}

/// The columns of the series, by name.
struct SeriesColumns<'a> {
    series: &'a Series,
    flows: &'a [String],
    links: &'a [String],
}

impl Serialize for SeriesColumns<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let name = |names: &'_ [String], i: &u16| names.get(usize::from(*i)).cloned();
        let s = self.series;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("time_s", &s.time_s)?;
        let flows: Vec<_> = s.flow.iter().map(|i| name(self.flows, i)).collect();
        map.serialize_entry("flow", &flows)?;
        let links: Vec<_> = s.link.iter().map(|i| name(self.links, i)).collect();
        map.serialize_entry("link", &links)?;
        map.serialize_entry("queue", &s.queue)?;
        for (column, values) in &s.columns {
            // What is not a number is null.
            map.serialize_entry(column, values)?;
        }
        map.end()
    }
}

/// The columns of a series as JSON, with the names of its flow groups and links.
pub fn series_as_json(series: &Series, flows: &[String], links: &[String]) -> String {
    text(&SeriesColumns { series, flows, links })
}

/// The columns of the table of transfers.
struct TransferColumns<'a> {
    rows: &'a [Transfer],
    flows: &'a [String],
}

impl Serialize for TransferColumns<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fn column<T>(rows: &[Transfer], of: impl Fn(&Transfer) -> T) -> Vec<T> {
            rows.iter().map(of).collect()
        }
        let (rows, flows) = (self.rows, self.flows);
        let ms = |span: Option<Span>| span.map(Span::as_millis_f64);
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("flow", &column(rows, |t| &flows[usize::from(t.group)]))?;
        map.serialize_entry("kind", &column(rows, |t| t.kind.name()))?;
        map.serialize_entry("start_s", &column(rows, |t| t.start.as_secs_f64()))?;
        map.serialize_entry("size_bytes", &column(rows, |t| t.bytes))?;
        map.serialize_entry("completion_ms", &column(rows, |t| t.completion.as_millis_f64()))?;
        map.serialize_entry("response_ms", &column(rows, |t| ms(t.response)))?;
        map.serialize_entry("ideal_ms", &column(rows, |t| ms(t.ideal)))?;
        map.serialize_entry("slowdown", &column(rows, Transfer::slowdown))?;
        map.serialize_entry("retransmits", &column(rows, |t| t.retransmits))?;
        map.end()
    }
}
