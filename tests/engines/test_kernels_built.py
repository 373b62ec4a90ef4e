"""A kernel with a patch and a module, built and held against the default one. It takes a minute or two."""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Iterator
from pathlib import Path

import l4slab
import polars as pl
import pytest
from l4slab.cli import main
from l4slab.engines.linux import kernels

# No kernel of a user's.
NAME = "made-by-a-test"
PIE = Path("include/net/pie.h")
SOURCE = kernels.cache() / "source"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build"),
    pytest.mark.skipif(not (SOURCE / PIE).is_file(), reason="the default kernel was not built here"),
]

MODULE = """
#include <linux/module.h>
#include <net/tcp.h>

static u32 quarter_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)) / 4, 2U);
}

static struct tcp_congestion_ops quarter __read_mostly = {
	.name		= "quarter",
	.owner		= THIS_MODULE,
	.ssthresh	= quarter_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cong_avoid	= tcp_reno_cong_avoid,
};

static int __init quarter_init(void)
{
	return tcp_register_congestion_control(&quarter);
}
module_init(quarter_init);
MODULE_LICENSE("Dual MIT/GPL");
"""
EXPERIMENT = """
duration = "8s"
warmup = "3s"
[link.one]
rate = "10Mbit"
qdisc = "{qdisc}"
[[flow]]
name = "a"
cc = "{cc}"
rtt = "20ms"
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One whose PIE aims at twice the delay, with a controller that takes three quarters back."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "ours").mkdir()
    (folder / "ours" / "tcp_quarter.c").write_text(MODULE)
    before = (SOURCE / PIE).read_text()
    after = before.replace("params->target = PSCHED_NS2TICKS(15 ", "params->target = PSCHED_NS2TICKS(30 ")
    assert after != before
    texts = (text.splitlines(keepends=True) for text in (before, after))
    (folder / "x.patch").write_text("".join(difflib.unified_diff(*texts, f"a/{PIE}", f"b/{PIE}")))
    words = ["--patch", str(folder / "x.patch"), "--module", str(folder / "ours"), "--name", NAME]
    try:
        assert main(["linux", "build", *words]) == 0
        yield NAME
    finally:
        shutil.rmtree(kernels.folder_of(NAME), ignore_errors=True)


def test_what_a_patch_changes_is_found_and_nothing_else(kernel: str, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    text = EXPERIMENT.format(qdisc="{qdisc}", cc="cubic")
    file.write_text(text + '[sweep]\nqdisc = ["pie", "pie target 15ms", "pie target 20ms", "codel"]\n')
    out = tmp_path / "out"
    assert main(["agree", str(file), "--kernel", kernel, "--trials", "5", "--out", str(out)]) == 1
    rows = pl.read_parquet(out / "kernels.parquet")
    changed = dict(rows.group_by("qdisc").agg(pl.col("changed").any()).iter_rows())
    # What the file writes out as the default counts as left out, as one and the same run.
    assert changed == {"pie": True, "pie target 20ms": False, "codel": False}
    delay = rows.filter(qdisc="pie", link="one", quantity="sojourn_ms_mean").row(0, named=True)
    assert delay["against"] == pytest.approx(15, rel=0.2)
    assert delay["kernel"] == pytest.approx(30, rel=0.2)


def test_a_module_is_a_controller_of_its_kernel(kernel: str, tmp_path: Path) -> None:
    # In a queue of half a path, one that keeps a quarter idles for longer than one that keeps half.
    used = {}
    for cc in ("reno", "quarter"):
        file = tmp_path / f"{cc}.toml"
        file.write_text(EXPERIMENT.format(qdisc="pfifo limit 8", cc=cc))
        used[cc] = l4slab.run(file, engine=f"linux:{kernel}").links["utilisation"].item()
    assert 0.5 < used["quarter"] < used["reno"] - 0.05
    with pytest.raises(l4slab.InputError, match="quarter"):
        l4slab.run(file, engine="linux")
