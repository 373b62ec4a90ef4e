"""Links in the sender's own host: the key `on_host` of a [link.NAME].

TCP hands such a link whole bursts, so that its flows have `gso` in a run's description.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from l4slab.base import run
from l4slab.experimentfile.wording import Place, Problem, numbered, show


def put_on_hosts(
    links: Mapping[str, run.Link],
    flows: Mapping[str, run.Flow],
    impairs: Iterable[run.Impair],
    rewrites: Iterable[run.Rewrite],
) -> None:
    """Gives flows what a link in their own host implies. Raises Problem where it cannot be there."""
    local = [name for name, link in links.items() if link.get("on_host")]
    for name, flow in flows.items():
        for link in local:
            if link in flow.get("reverse_path", []):
                text = f'= {show(flow["reverse_path"])} crosses link "{link}", which is in the host of senders'
                raise Problem(("flow", name), "reverse_path", f"{text}; ACKs need another link")
            if link in flow["path"]:
                _put(name, flow, link)
    for impair in impairs:
        if impair["before"] in local and impair["direction"] != "reverse":
            place: Place = ("impair", impair["name"])
            text = f"= {show(impair['before'])} is in the host that sends, before which nothing is impaired"
            raise Problem(place, "before", f'{text}; write direction = "reverse", or name a later link')
    for number, rewrite in enumerate(rewrites, 1):
        if rewrite["link"] in local and rewrite["where"] == "before":
            place = numbered("rewrite", number)
            text = f"= {show('before:' + rewrite['link'])} is in the host that sends, where nothing is rewritten"
            raise Problem(place, "where", f'{text}; write "after:{rewrite["link"]}"')


def _put(name: str, flow: run.Flow, link: str) -> None:
    place: Place = ("flow", name)
    if flow["kind"] != "tcp":
        text = f'crosses link "{link}", which has on_host = true and is for flows of kind = "tcp"'
        raise Problem(place, "kind", f"= {show(flow['kind'])} {text}; give it a path without this link")
    if flow["path"][0] != link:
        text = f'= {show(flow["path"])} does not begin with link "{link}", which is in the host that sends'
        raise Problem(place, "path", f"{text}; put it first, or remove its on_host")
    for key in ("host", "peer_host"):
        if key in flow:
            text = f'names a host beside link "{link}", whose flows share the host that it is in'
            raise Problem(place, key, f"{text}; remove it, or the on_host of the link")
    flow["gso"] = True
