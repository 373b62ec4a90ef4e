"""A recipe for an endpoint of the QUIC Interop Runner, whose image is unpacked in a folder."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

from l4slab.base.errors import InputError
from l4slab.stacks import BYTES, CC, FILE

_SCRIPT = "endpoint.sh"
# A root certificate and one of the server, for a hundred years: the date of the virtual machine does not matter.
_KEY = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
_CERTIFICATES = (
    f"{_KEY} -x509 -subj '/CN=l4slab root' -keyout ca.key -out $OUT/ca.pem -days 36500",
    f"{_KEY} -subj /CN=server -keyout $OUT/priv.key -out server.csr",
    "echo 'subjectAltName=DNS:server,DNS:server4,DNS:server6,DNS:server46' >names",
    "openssl x509 -req -in server.csr -CA $OUT/ca.pem -CAkey ca.key -CAcreateserial -extfile names -days 36500 "
    "-out $OUT/cert.pem",
)


def write(
    folder: Path,
    image: Path,
    controllers: Sequence[str],
    parameters: tuple[str, str],
    directory: str = "/",
    entry: str = "/run_endpoint.sh",
) -> None:
    """Write the recipe into a new folder. `parameters`: those of server and client, in which {cc} is the controller."""
    image = image.absolute()
    if not (image / entry.lstrip("/")).is_file():
        raise InputError(f"{image} has no {entry}; unpack the image there, or give its entry point with --entry")
    if len(controllers) > 1 and not any(CC in text for text in parameters):
        raise InputError(f"the controllers {', '.join(controllers)} are told nobody; write {CC} in --server-params")
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise InputError(f"{folder} is there already; remove it, or give another folder") from None
    with as_file(files("l4slab") / "stacks" / "interop" / _SCRIPT) as script:
        shutil.copy(script, folder / _SCRIPT)

    def command(role: str, more: str) -> str:
        words = [role, str(image), directory, entry, parameters[role == "client"]]
        return f"sh {{stack}}/{_SCRIPT} {shlex.join(words)} {BYTES}{more}"

    build = [f"cp {_SCRIPT} $OUT/", *_CERTIFICATES]
    lines = [
        f"summary     = {json.dumps(f'endpoint of the QUIC Interop Runner in {image}')}",
        'language    = "unknown"',
        'version     = ""',
        f"controllers = {json.dumps(list(controllers) or ['default'])}",
        'sender      = "server"',
        'needs       = { openssl = "the package openssl of your system", unshare = "the package util-linux" }',
        "build       = [",
        *(f"    {json.dumps(step)}," for step in build),
        "]",
        f"server      = {json.dumps(command('server', ''))}",
        f"client      = {json.dumps(command('client', ' {server} {server6} {number}'))}",
    ]
    (folder / FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
