"""`l4slab check`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from click.shell_completion import CompletionItem

from l4slab import _core
from l4slab.base import tabular
from l4slab.base.errors import InputError
from l4slab.base.tabular import Column
from l4slab.base.values import Keys
from l4slab.cli import options, terminal, verdicts
from l4slab.cli.verdicts import Outcome, Outputs, Verdict

if TYPE_CHECKING:
    from l4slab.tools.check import Card, Program
    from l4slab.tools.check.baseline import Baseline
    from l4slab.tools.check.card import Item


def _controllers(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    known = (*_core.controllers(), *_core.media_controllers())
    names = [CompletionItem(one["name"], help=one["summary"]) for one in known]
    return [item for item in names if item.value.startswith(incomplete)] or [CompletionItem(incomplete, type="file")]


@click.command()
@click.argument("cc", metavar="[CC]", required=False, shell_complete=_controllers)
@click.option(
    "--queue",
    metavar="TC",
    shell_complete=options.qdisc_names,
    help="Judge a queue instead: a tc string, a custom queue, or a file with classes.",
)
@click.option("--option", "given", multiple=True, metavar="NAME=VALUE", help="An option of the congestion control.")
@click.option("--media", is_flag=True, help="CC is for media: the test cases of RFC 8867 and 8869.")
@click.option(
    "--stack",
    metavar="NAME",
    shell_complete=options.stack_names,
    help="Judge a packaged stack (l4slab list stacks); CC is its controller.",
)
@click.option("--server", metavar="COMMAND", help="Judge a program: command of its server.")
@click.option("--client", metavar="COMMAND", help="Command of its client, which sends until it is stopped.")
@click.option("--sender", type=click.Choice(["client", "server"]), help="The end that sends; default: the client.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Environment variable of the program.")
@click.option("--item", "only", multiple=True, metavar="ID", help="Only this requirement; may be repeated.")
@click.option("--out", metavar="DIR", help="Folder for runs and report; default: results/check-CC.")
@options.engine
@options.workers
@click.option(
    "--quick", is_flag=True, help="What takes the simulator a minute, or the kernel 15; the card names the rest."
)
@click.option("--baseline", metavar="CARD", help="A card.json; a verdict that is worse makes the exit status 1.")
@click.option(
    "--fail-on", metavar="PERCENT", help="With --baseline: fail also on a number that is worse by more, such as 5%."
)
@click.option("--badge", metavar="FILE", help="Write a badge, as JSON for the endpoint of shields.io.")
@verdicts.with_outputs
@options.dry_run
@options.as_json
def check(
    cc: str | None,
    queue: str | None,
    given: tuple[str, ...],
    media: bool,
    stack: str | None,
    server: str | None,
    client: str | None,
    sender: Literal["client", "server"] | None,
    variables: tuple[str, ...],
    only: tuple[str, ...],
    out: str | None,
    engine: str,
    workers: int | None,
    quick: bool,
    baseline: str | None,
    fail_on: str | None,
    badge: str | None,
    outputs: Outputs,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Test a congestion control or a queue against the requirements of RFCs: a card of verdicts.

    CC is a name as in an experiment file's cc. With --server and --client, it is the congestion control of the
    program's TCP. A failed requirement is a result, not an error, unless it passed in the --baseline.
    """
    from l4slab.campaign.remote import is_url
    from l4slab.tools import check as checking
    from l4slab.tools.check.baseline import read

    options.refuse_empty(out=out, baseline=baseline, fail_on=fail_on, queue=queue)
    if fail_on is not None and baseline is None:
        raise click.UsageError("--fail-on needs --baseline; give the card to compare with")
    if badge is not None and dry_run:
        raise click.UsageError("--dry-run gives no verdicts; leave --badge out")
    badge_file = verdicts.writable(badge=badge)
    saved = None if baseline is None else read(baseline, engine, _part(fail_on))
    settings = dict(options.setting(text) for text in given)
    env = dict(options.setting(text, "--env", "RUST_LOG=info") for text in variables)
    if queue is not None:
        if any((cc, given, media, stack, server, client, sender, variables)):
            raise click.UsageError("--queue judges a queue; leave CC and its options out")
        asked, name = checking.suite_of_queue(queue, only), f"queue-{_as_name(queue, {})}"
    else:
        program = (
            _program(cc, server, client, sender, env) if stack is None else _stack(stack, (server, client, sender), env)
        )
        asked = checking.suite(cc, settings, only, program, media)
        name = f"{'media-' if media else ''}{_as_name(program.name(cc) if program else cc or '', settings)}"
    folder = out or options.results_folder(f"check-{name}", engine)
    asked = checking.possible(asked, engine)
    if quick:
        whole, asked = asked, checking.quick(asked, engine)
        if asked.lacking == whole.lacking:
            terminal.err().print("--quick leaves nothing out: the whole card takes no longer")
    if saved is not None:
        saved.require(asked, only)
    if dry_run:
        from l4slab.api import campaign
        from l4slab.cli import summary

        summary.show_plans(campaign.plan(asked.experiments, engine), engine, folder, as_json)
        for experiment, why in () if as_json else asked.lacking.items():
            terminal.say(f"{experiment}: not measured, {why}")
        return 0
    card = checking.judge(asked, folder, engine, workers, terminal.progress())
    if not is_url(folder):
        verdicts.write(Path(folder) / "card.json", terminal.json_of(document(card)) + "\n")
    if badge_file is not None:
        verdicts.write(badge_file, badge_of(card))
    outputs.write(lambda: outcome(card, saved))
    return _show(card, saved, as_json)


def _part(percent: str | None) -> float | None:
    """`5%` as 0.05. Raises InputError."""
    if percent is None:
        return None
    match = re.fullmatch(r"([0-9]{1,4}(?:\.[0-9]+)?) ?%", percent)
    if match is None:
        raise InputError(f"{percent!r} is not a percentage; give one such as 5%", key="--fail-on")
    return float(match[1]) / 100


def _stack(name: str, others: Sequence[str | None], env: dict[str, str]) -> Program:
    from l4slab import stacks
    from l4slab.tools.check import Program

    if others != (None, None, None):
        raise click.UsageError("--stack says its commands itself; leave --server, --client and --sender out")
    try:
        stacks.find(name)
    except ValueError as error:
        raise InputError(f"{name} {error}", key="--stack") from None
    return Program(stack=name, env=env)


def _program(
    cc: str | None,
    server: str | None,
    client: str | None,
    sender: Literal["client", "server"] | None,
    env: dict[str, str],
) -> Program | None:
    if server is not None and client is not None:
        from l4slab.tools.check import Program

        return Program(server, client, sender or "client", env)
    for name, value, other in (
        ("server", server, "client"),
        ("client", client, "server"),
        ("sender", sender, "server"),
        ("env", env or None, "server"),
    ):
        if value is not None:
            raise InputError(f"--{name} needs --{other}; give both commands of the program")
    if cc is None:
        raise InputError("CC is missing; give a congestion control, or --server and --client of a program")
    return None


def _as_name(cc: str, settings: dict[str, str]) -> str:
    """A folder's name from a controller, which may be a path, and its options."""
    words = [cc, *(f"{name}={value}" for name, value in settings.items())]
    return re.sub(r"[^\w.=-]+", "-", "-".join(words)).strip("-.")


def _show(card: Card, saved: Baseline | None, as_json: bool) -> int:
    changed = [] if saved is None else saved.changed(card)
    worse = [] if saved is None else saved.worse(card)
    status = 1 if card.failures or worse else 0
    if as_json:
        told = document(card) | {"exit_status": status}
        if saved is not None:
            told |= {"changed": [item.id for item in changed], "worse": [item.id for item in worse]}
        terminal.as_json(told)
        return status
    from l4slab.tools.check.card import PARTS

    applicable = [item for item in card.items if item.verdict != "not applicable"]
    for part, title in PARTS.items():
        of_part = [item for item in applicable if item.part == part]
        if of_part:
            _show_part(title, of_part)
            terminal.say("")
    if len(applicable) < len(card.items):
        _show_not_applicable([item for item in card.items if item.verdict == "not applicable"])
        terminal.say("")
    for text in card.failures[:10]:
        terminal.err().print(f"l4slab: {text}", markup=False)
    if card.report is not None:
        terminal.say(f"Report: {card.report}")
    if saved is not None:
        _show_changed(changed, worse, saved)
    terminal.say(f"{card.cc} {bottom_line(card.items)}")
    if saved is not None:
        terminal.say(against(card, saved) + (f" (exit status {status})" if status else ""))
    return status


def against(card: Card, saved: Baseline) -> str:
    """In how many verdicts and numbers a card differs from a saved one, and how many of them are worse."""
    fallen = sum(map(saved.fails_now, card.items))
    line = f"verdicts that differ from {saved.file}: {len(saved.changed(card))}, for the worse: {fallen}"
    if saved.limit is not None:
        line += f"; other numbers worse by more than {100 * saved.limit:g} %: {len(saved.worse(card)) - fallen}"
    return line


def _show_changed(changed: list[Item], worse: list[Item], saved: Baseline) -> None:
    shown = changed + [item for item in worse if item not in changed]

    def change(item: Item) -> str:
        by = saved.beyond(item) or 0.0
        if item in worse:
            return f"worse by {100 * by:.3g} %" if 0 < by < math.inf else "worse"
        return "better" if by < 0 else ""

    def was(item: Item) -> str:
        place = saved.places.get(item.id)
        where = f" ({place})" if place and place != item.worst_at else ""
        return f"{tabular.cell(saved.numbers.get(item.id))}{where}"

    columns = [
        Column("before", [saved.verdicts[item.id] for item in shown], weight=9, stays=True),
        Column("now", [item.verdict for item in shown], weight=9, stays=True),
        Column("id", [item.id for item in shown], weight=6, stays=True),
        Column("change", [change(item) for item in shown], weight=8, stays=True),
        Column("was", [was(item) for item in shown], weight=7, folds=True),
        Column("measured", [measured(item) for item in shown], weight=7, folds=True),
        Column("bound", [bound(item) for item in shown], weight=7, stays=True),
    ]
    if shown:
        terminal.show(f"Not as in {saved.file}", columns, ["red" if item in worse else "" for item in shown])
        terminal.say("")


def _show_part(title: str, items: list[Item]) -> None:
    columns = [
        Column("verdict", [item.verdict for item in items], weight=9, stays=True),
        Column("section", [item.section for item in items], weight=8, stays=True),
        Column("level", [item.level for item in items], weight=7, stays=True),
        Column("id", [item.id for item in items], weight=6, stays=True),
        Column("requirement", [item.says for item in items], weight=5, folds=True),
        Column("measured", [measured(item) for item in items], weight=7, folds=True),
        Column("bound", [bound(item) for item in items], weight=7, stays=True),
    ]
    terminal.show(title, columns, ["red" if item.verdict == "fail" else "" for item in items], "; --json has all")


def _show_not_applicable(items: list[Item]) -> None:
    # One reason may hold for a whole document, as for BBR's draft.
    alike: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        alike.setdefault((item.part, item.why), []).append(item)
    rows = [
        group for of_one in alike.values() for group in ([of_one] if len(of_one) > 3 else [[item] for item in of_one])
    ]
    columns = [
        Column("document", [group[0].part for group in rows], weight=4),
        Column("section", [group[0].section if len(group) == 1 else "" for group in rows], weight=5, stays=True),
        Column(
            "id",
            [group[0].id if len(group) == 1 else f"{len(group)} requirements" for group in rows],
            weight=6,
            stays=True,
        ),
        Column("why", [group[0].why for group in rows], weight=7, folds=True),
    ]
    terminal.show("Not applicable", columns, more="; --json has all")


def measured(item: Item, place: bool = True) -> str:
    """The measured value in words and its place, or the reason for no verdict."""
    if item.why:
        return item.why
    from l4slab.base import metrics

    words = [part for part in item.quantity.split("_") if part not in metrics.UNITS]
    unit = metrics.unit_of(item.quantity)
    where = f" ({item.worst_at})" if item.worst_at and place else ""
    unmet = f"; not: {', '.join(item.unmet)}" if item.unmet else ""
    if item.measured is None:
        return f"no {' '.join(words)}{where}{unmet}"
    return f"{' '.join(words)} {tabular.cell(item.measured)} {unit}".strip() + where + unmet


def bound(item: Item) -> str:
    """The bound in words."""
    return f"{item.relation} {tabular.cell(item.bound)}" if item.relation and not item.why else ""


def bottom_line(items: Sequence[Item]) -> str:
    """A sentence after the controller's name: how many requirements of each level are met, and which are not."""
    from l4slab.tools.check.card import LEVELS

    parts = []
    for level in LEVELS:
        verdicts = [item.verdict for item in items if item.level == level]
        decided = verdicts.count("pass") + verdicts.count("fail")
        if decided:
            parts.append(f"{verdicts.count('pass')} of {decided} {level or 'others'}")
    failed = [item.id for item in items if item.verdict == "fail"]
    sentences = [f"meets {', '.join(parts)}" if parts else "has no verdict"]
    sentences += [f"not met: {', '.join(failed)}"] if failed else []
    for verdict in ("not measured", "not applicable"):
        count = sum(item.verdict == verdict for item in items)
        sentences += [f"{count} {verdict}"] if count else []
    return "; ".join(sentences) + "."


def outcome(card: Card, saved: Baseline | None = None) -> Outcome:
    """The report for CI: a verdict per requirement and failed run. With a saved card, only worse verdicts fail."""
    worse = [] if saved is None else saved.worse(card)
    found = [_verdict(item, saved, item in worse) for item in card.items]
    found += [Verdict("run", "the run ends", "error", "runs", measured=text) for text in card.failures]
    line = f"{card.cc} {bottom_line(card.items)}"
    line += "" if saved is None else f" {len(worse)} requirements are worse than in {saved.file}."
    return Outcome(f"l4slab check {card.cc}", line, found, report=card.report)


_STATUSES: dict[str, verdicts.Status] = {
    "pass": "pass", "fail": "fail", "not applicable": "skipped", "not measured": "undecided",
}  # fmt: skip


def _verdict(item: Item, saved: Baseline | None, is_worse: bool) -> Verdict:
    status, found = _STATUSES[item.verdict], measured(item, place=False)
    if saved is not None:
        if status == "fail" and not is_worse:
            status = "skipped"
        status = "fail" if is_worse else status
        before = saved.verdicts.get(item.id, "not there")
        if item.id in saved.numbers:
            before += f", {tabular.cell(saved.numbers[item.id])}"
        if is_worse or item.verdict != "pass":
            found += f" ({item.verdict}; in the baseline: {before})"
    says = f"{item.section}{f', {item.level}' if item.level else ''}: {item.says}"
    return Verdict(item.id, says, status, item.part, item.worst_at, found, bound(item), _excess(item))


def badge_of(card: Card) -> str:
    """How many requirements are met. Red where a MUST fails, yellow where another one does."""
    decided = [item for item in card.items if item.verdict in ("pass", "fail")]
    failed = [item for item in decided if item.verdict == "fail"]
    color = "red" if any(item.level == "MUST" for item in failed) else "yellow" if failed else "brightgreen"
    message = f"{len(decided) - len(failed)} of {len(decided)} met" if decided else "no verdict"
    is_error = bool(card.failures)
    return verdicts.badge("l4slab check", message, color if decided and not is_error else "lightgrey", is_error)


def _excess(item: Item) -> float | None:
    """How far the measured number is beyond its bound, as a part of the bound."""
    measured, bound = item.measured, item.bound
    if item.why or not isinstance(measured, int | float) or not isinstance(bound, int | float) or not bound:
        return None
    return item.beyond(measured, bound) / abs(bound)


def document(card: Card) -> Keys:
    """The card for scripts."""
    return {
        "l4slab": _core.version(),
        "queue" if card.kind == "queue" else "cc": card.cc,
        "options": dict(card.options),
        "engine": card.engine,
        "counts": dict(card.counts()),
        "bottom_line": bottom_line(card.items),
        "items": [vars(item) for item in card.items],
        "failures": list(card.failures),
        "notes": list(card.notes),
        "folder": None if card.folder is None else str(card.folder),
        "report": card.report,
    }
