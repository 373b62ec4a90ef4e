"""CONTRIBUTING's recipes: a throw-away queue, controller, traffic type, metric and trait method, and their files.

Each recipe is followed in code: new files, and lines after an anchor of an existing file. The quick test looks for
the anchors and counts the files. The slow one makes the changes in a copy of the tree, and the compiler and Python
accept them. Files that `./dev.sh generate` and UPDATE_PINNED=1 write do not count.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = "crates/core/src"


@dataclass(frozen=True)
class Recipe:
    """`lines`: file, anchor, what follows the line that has it."""

    most_files: int
    new: dict[str, str] = field(default_factory=dict)
    lines: tuple[tuple[str, str, str], ...] = ()

    def files(self) -> set[str]:
        return {*self.new, *(file for file, _, _ in self.lines)}

    def follow(self, root: Path) -> None:
        for name, text in self.new.items():
            assert not (root / name).exists()
            (root / name).write_text(text)
        for name, anchor, text in self.lines:
            before, found, after = (root / name).read_text().partition(anchor)
            rest, newline, after = after.partition("\n")
            assert found + newline == f"{anchor}\n", f"{name} has no line with {anchor}"
            (root / name).write_text(before + anchor + rest + newline + text + after)


QUEUE = """\
//! Last in, first out.

use super::{Aqm, Backlog, DropReason, LinkInfo, Marking, Pkt, Qdisc, QueueCx, Separation};
use crate::params::Described;
use crate::params::kinds::{count, params};

params! {
    pub struct Config {
        /// what the queue holds at most
        limit: u32 = 1000, count(1..=u32::MAX).shown("PACKETS"), "a throw-away queue";
    }
}

struct Stack<P> {
    packets: Vec<P>,
    limit: u32,
}

impl<P: Pkt + Send> Aqm<P> for Stack<P> {
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        match self.packets.len() < self.limit as usize {
            true => self.packets.push(pkt),
            false => cx.drop(pkt, DropReason::Overflow),
        }
    }
    fn dequeue(&mut self, _cx: &mut QueueCx<P>) -> Option<P> {
        self.packets.pop()
    }
    fn backlog(&self) -> Backlog {
        let bytes = self.packets.iter().map(|pkt| u64::from(pkt.frame_len())).sum();
        Backlog { packets: self.packets.len() as u64, bytes }
    }
}

impl Described for Config {
    const NAME: &'static str = "throwaway";
    const SUMMARY: &'static str = "last in, first out";
    const IN_LINUX: bool = false;
}

impl Qdisc for Config {
    const SEPARATION: Separation = Separation::Single;
    const MARKING: Marking = Marking::Never;

    fn build<P: Pkt + Send + 'static>(&self, _link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Stack { packets: Vec::new(), limit: self.limit })
    }
}
"""

CONTROLLER = """\
//! Half on congestion, one segment per ACK.

use super::{Ack, Congestion, CongestionControl, Controller, Role, Window};
use crate::params::Described;
use crate::params::kinds::{fraction, params};
use crate::rng::Rng;
use crate::time::Time;

params! {
    pub struct Options {
        /// factor on congestion
        beta: f64 = 0.5, fraction(), "a throw-away controller";
    }
}

impl Described for Options {
    const NAME: &'static str = "throwaway";
    const SUMMARY: &'static str = "half on congestion, one segment per ACK";
}

impl Controller for Options {
    type Made = Throwaway;
    const ROLE: Role = Role::Classic;
    const LOOK: u8 = 2;
    fn build(&self, _rng: Rng) -> Throwaway {
        Throwaway(self.beta)
    }
}

pub struct Throwaway(f64);

impl CongestionControl for Throwaway {
    fn on_ack(&mut self, ack: &Ack, w: &mut Window) {
        w.cwnd += u32::from(ack.state.may_grow);
    }
    fn on_congestion(&mut self, _why: Congestion, _at: Time, w: &mut Window) {
        w.ssthresh = ((f64::from(w.cwnd) * self.0) as u32).max(2);
    }
}
"""

TRAFFIC = """\
//! A constant rate, by another name.

use serde::Deserialize;

use super::{Place, Traffic, WireKind, cbr};
use crate::element::Flow;

#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Spec {
    rate_bps: u64,
}

impl Traffic for Spec {
    fn sender_name(&self) -> &str {
        "throwaway"
    }
    fn wire(&self) -> Option<WireKind> {
        Some(WireKind::Udp)
    }
    fn build(&self, place: &Place) -> Box<dyn Flow> {
        let keys = serde_json::json!({ "rate_bps": self.rate_bps });
        serde_json::from_value::<cbr::Spec>(keys).expect("a rate").build(place)
    }
}
"""

MODEL = '''
class ThrowawayFlow(AnyFlow):
    """`count` sources at a constant rate."""

    summary: ClassVar[str] = "a constant rate, by another name"

    kind: Literal["throwaway"] = "throwaway"
    rate: Rate = Field(examples=['"50Mbit"'], serialization_alias="rate_bps")
    rtt: TimeOrZero = Field(examples=['"10ms"'], serialization_alias="rtt_ns")

'''

RECIPES = {
    "queue": Recipe(
        6,
        {
            f"{CORE}/aqm/throwaway.rs": QUEUE,
            "tests/conformance/throwaway.rs": "//! The throw-away queue, step by step.\n",
        },
        (
            (f"{CORE}/aqm.rs", "pub mod tbf;", "pub mod throwaway;\n"),
            (f"{CORE}/aqm/registry.rs", "    Tbf(tbf::TbfConfig),", "    Throwaway(super::throwaway::Config),\n"),
            ("tests/conformance/main.rs", "mod tc;", "mod throwaway;\n"),
            ("docs/model.md", "| `curvy_red` |", "| `throwaway` | last in, first out | no Linux has it |\n"),
        ),
    ),
    "controller": Recipe(
        6,
        {f"{CORE}/cc/throwaway.rs": CONTROLLER},
        (
            (f"{CORE}/cc.rs", "pub mod sce;", "pub mod throwaway;\n"),
            (f"{CORE}/cc/registry.rs", "    Reno(reno::Options),", "    Throwaway(super::throwaway::Options),\n"),
        ),
    ),
    "traffic type": Recipe(
        9,
        {f"{CORE}/traffic/throwaway.rs": TRAFFIC},
        (
            (f"{CORE}/traffic.rs", "pub mod tcp;", "pub mod throwaway;\n"),
            (f"{CORE}/traffic.rs", '        "tcp" => spec', '        "throwaway" => spec::<throwaway::Spec>(keys),\n'),
            (
                f"{CORE}/scenario/schema.rs",
                "kind::<tcp::Spec>",
                '            kind::<crate::traffic::throwaway::Spec>(all, "ThrowawayFlow", "throwaway"),\n',
            ),
            ("python/l4slab/experimentfile/traffic.py", "    batch: int = Field(", MODEL),
            (
                "python/l4slab/experimentfile/traffic.py",
                "        *(MediaFlow, CbrFlow, UdpPragueFlow, ProgramFlow),",
                "        ThrowawayFlow,\n",
            ),
            (
                "docs/experiment-file.md",
                '| `kind` | `"tcp"` |',
                "| `rate` | | rate of a throw-away source, of frames |\n",
            ),
            ("docs/schema.py", "KIND_TABLES = {", '    "throwaway": ("CBR",),\n'),
        ),
    ),
    "metric of flows": Recipe(
        5,
        {},
        (
            (
                f"{CORE}/sim/recording.rs",
                "pub struct FlowRow {",
                "    /// Flows that count.\n    pub throwaway: f64,\n",
            ),
            (
                f"{CORE}/sim/closing.rs",
                "        count: flows().count() as u32,",
                "        throwaway: flows().count() as f64,\n",
            ),
            ("python/l4slab/base/metrics.py", "FLOWS: Schema = {", '    "throwaway": _FLOAT,\n'),
            (
                "python/l4slab/engines/linux/recording/flows.py",
                '        "rate_mbps": frames',
                '        "throwaway": float(flow.count),\n',
            ),
            ("docs/results.md", "| `rate_mbps` | Mb/s |", "| `throwaway` | | flows that count |\n"),
        ),
    ),
    "method of the controller trait": Recipe(
        5,
        {},
        (
            (
                f"{CORE}/cc.rs",
                "    fn on_congestion(&mut self, why: Congestion, at: Time, w: &mut Window);",
                "    /// The window is as it should be.\n    fn throwaway(&mut self, _w: &mut Window) {}\n",
            ),
            (
                f"{CORE}/cc/reno.rs",
                "impl CongestionControl for Reno {",
                "    fn throwaway(&mut self, w: &mut Window) {\n        w.cwnd_count = 0;\n    }\n",
            ),
            (
                f"{CORE}/transport/sender/recovery.rs",
                "        self.cc.on_congestion(why, at, &mut self.win);",
                "        self.cc.throwaway(&mut self.win);\n",
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_touches_few_files_that_are_as_it_says(name: str, tmp_path: Path) -> None:
    recipe = RECIPES[name]
    assert len(recipe.files()) <= recipe.most_files
    for file in recipe.files():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        if file not in recipe.new:
            shutil.copyfile(ROOT / file, tmp_path / file)
    recipe.follow(tmp_path)


@pytest.mark.slow
def test_the_recipes_are_all_that_it_takes(tmp_path: Path) -> None:
    if shutil.which("cargo") is None:
        pytest.skip("needs cargo")
    for folder in ("crates", "benches", "tests", "python", "docs"):
        ignored = shutil.ignore_patterns("*.so", "__pycache__", "notebooks", "laboratory")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for file in ("Cargo.toml", "Cargo.lock", "clippy.toml"):
        if (ROOT / file).is_file():
            shutil.copyfile(ROOT / file, tmp_path / file)
    for recipe in RECIPES.values():
        recipe.follow(tmp_path)
    command = ["cargo", "check", "--quiet", "--offline", "--package", "l4slab-core", "--features", "schema", "--tests"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    shutil.copyfile(ROOT / "python/l4slab/_core.abi3.so", tmp_path / "python/l4slab/_core.abi3.so")
    program = (
        "import json; from l4slab.base import metrics; from l4slab.experimentfile.traffic import KINDS;"
        "print(json.dumps([KINDS['throwaway'].summary, 'throwaway' in metrics.FLOWS]))"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "python")}
    said = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(said.stdout) == ["a constant rate, by another name", True]
