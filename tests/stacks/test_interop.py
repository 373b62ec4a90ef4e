"""Endpoints of the QUIC Interop Runner: the recipe, and the contract, with an endpoint that speaks HTTP by busybox."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import l4slab
import pytest
from l4slab import stacks
from l4slab.cli import main
from l4slab.engines.linux import kernels

needs_kernel = pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
ENDPOINT = r"""#!/bin/sh
/setup.sh
{ echo "$ROLE $TESTCASE $QLOGDIR $SERVER_PARAMS$CLIENT_PARAMS $PWD"; cat /etc/motd; cat /etc/hosts; } >/logs/seen
test "$TESTCASE-$ROLE" = http3-server || test "$TESTCASE" = transfer || exit 127
if [ "$ROLE" = server ]; then
    test -s /certs/priv.key
    exec httpd -f -p 443 -h /www
fi
/wait-for-it.sh sim:57832
echo $REQUESTS >/logs/names
for name in server server4 server6 server46; do
    getent ahosts $name | sed -n "s/ *STREAM.*//;T;s/^/$name /p" >>/logs/names
done
# A static program does not look into /etc/hosts.
for url in $REQUESTS; do
    host=${url#https://} host=${host%%:*}
    # Of several addresses the last one, which is IPv6's.
    server=$(sed -n "/ $host\( \|$\)/s/ .*//p" /etc/hosts | sed '$!d')
    case $server in *:*) server="[$server]" ;; esac
    wget -q -O /downloads/${url##*/} "http://$server:443/${url##*/}"
done
"""
EXAMPLES = Path(__file__).parents[2] / "examples" / "interop"
FILE = """
duration = "5s"
[link.bottleneck]
rate = "10Mbit"
qdisc = "pfifo limit 25"
[[flow]]
name = "endpoint"
kind = "program"
stack = "./mine"
bytes = "1MB"
rtt = "30ms"
"""


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like the file system of an image; the cache of builds is empty, and has the kernel of this machine."""
    own = kernels.cache()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cache" / "l4slab").mkdir(parents=True)
    (tmp_path / "cache" / "l4slab" / "linux").symlink_to(own)
    made = tmp_path / "image"
    for name in ("bin", "etc", "work"):
        (made / name).mkdir(parents=True)
    (made / "etc" / "motd").write_text("of the image\n")
    # As images of Debian and Ubuntu have it: a name has several addresses.
    (made / "etc" / "host.conf").write_text("multi on\n")
    (made / "run_endpoint.sh").write_text(ENDPOINT)
    (made / "run_endpoint.sh").chmod(0o755)
    return made


def test_a_recipe_is_written_for_an_image(image: Path) -> None:
    words = ["--cc", "cubic", "--cc", "bbr", "--server-params", "--cc={cc} -q", "--directory", "/work"]
    assert main(["stacks", "import", str(image), "mine", *words]) == 0
    recipe = stacks.find("./mine").recipe
    assert recipe.controllers == ("cubic", "bbr")
    assert recipe.sender == "server"
    assert recipe.server == (
        f"sh {{stack}}/endpoint.sh server {image} /work /run_endpoint.sh '--cc={{cc}} -q' {{bytes}}"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--entry", "/start"], "has no /start"),
        (["--cc", "a", "--cc", "b"], "told nobody"),
    ],
)
def test_mistakes_have_a_sentence(
    image: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stacks", "import", str(image), "mine", *words]) == 2
    assert sentence in capsys.readouterr().err


@needs_kernel
@pytest.mark.slow
def test_an_endpoint_runs_by_the_contract(image: Path, tmp_path: Path) -> None:
    kernel = kernels.installed()
    assert kernel is not None
    shutil.copy(kernel.root / "usr/bin/busybox", image / "bin")
    for name in ("sh", "cat", "test", "sed", "httpd", "wget"):
        (image / "bin" / name).symlink_to("busybox")
    getent = str(shutil.which("getent"))
    shutil.copy(getent, image / "bin")
    for library in re.findall(r"(/\S+) \(", subprocess.check_output(["ldd", getent], text=True)):
        (image / library[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, image / library[1:])
    words = ["--server-params", "of the {cc}", "--directory", "/work"]
    assert main(["stacks", "import", str(image), "mine", *words]) == 0
    assert main(["stacks", "build", "./mine"]) == 0
    text = (EXAMPLES / "goodput.toml").read_text()
    (tmp_path / "good.toml").write_text(text.replace('"quinn"', '"./mine"').replace("trials   = 5", "trials = 1"))
    found = l4slab.run("good.toml", engine="linux", out="good")
    assert not found.failures
    (claim,) = found.claims.iter_rows(named=True)
    # Of TCP over this link: 1448 of 1514 B of each packet.
    assert claim["verdict"] == "holds"
    assert json.loads(claim["evidence"])["goodput_mbps"] == pytest.approx(10 * 1448 / 1514, rel=0.02)
    (kept,) = (tmp_path / "good").glob("lab/*/programs")
    at_server, at_client = ((kept / f"logs-{role}-1" / "seen").read_text() for role in ("server", "client"))
    assert at_server.startswith(
        "server transfer /logs/qlog/ of the default /work\nof the image\n127.0.0.1 localhost sim\n"
    )
    four, six = "10.208.0.1", "fd00::ad0:1"
    assert at_client.endswith(f"{four} server server4 server46\n{six} server6 server46\n")
    (tmp_path / "six.toml").write_text(FILE + 'env = { TESTCASE = "ipv6" }\n')
    found = l4slab.run("six.toml", engine="linux", out="six")
    assert not found.failures
    assert found.transfers["size_bytes"].item() > 1_000_000
    (names,) = (tmp_path / "six").glob("lab/*/programs/logs-client-1/names")
    asked, *answers = names.read_text().splitlines()
    assert asked == "https://server6:443/1000000"
    assert sorted(answers) == sorted(
        [f"server {four}", f"server4 {four}", f"server6 {six}", f"server46 {four}", f"server46 {six}"]
    )
    (tmp_path / "both.toml").write_text(FILE + 'env = { REQUESTS = "https://server46:443/1000000" }\n')
    found = l4slab.run("both.toml", engine="linux", out="both")
    assert not found.failures
    assert found.transfers["size_bytes"].item() > 1_000_000
    (names,) = (tmp_path / "both").glob("lab/*/programs/logs-client-1/names")
    assert names.read_text().startswith("https://server46:443/1000000\n")
    (tmp_path / "other.toml").write_text(FILE + '[sweep]\n"flow.endpoint.env.TESTCASE" = ["http3", "v2"]\n')
    with pytest.warns(UserWarning, match="2 runs failed"):
        other = l4slab.run("other.toml", engine="linux", out="other")
    client, server = sorted(reason for _, reason in other.failures)
    assert client.startswith('the client of flow "endpoint" ended with status 127, by which')
    assert "the endpoint does not support the test case v2" in server
