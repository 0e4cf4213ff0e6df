"""`bench run`: one trial from flags, for a quick look."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from bench.cli.options import OUT_FOLDER, require_current_folder
from bench.errors import BenchError
from bench.sweep.settings import FLAG_OF, SETTINGS

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_KINDS = {"string": str, "int64": int, "float64": float}
_WITH_WORDS = {setting.path for setting in SETTINGS if setting.kind == "bool" and setting.choices}
"""Settings that are true, false or one of some words; such an option alone means true."""
_WORDS = {"true": True, "false": False}


def _setting(flag: str, help: str, kind: Any = str) -> Callable[[CommandT], CommandT]:
    """Make the option of one setting; left out, the sweep file's default holds."""
    return click.option(flag, type=kind, help=help)


def _settings(command: CommandT) -> CommandT:
    """Add an option for every setting of a trial, named by its dotted path; what it takes is checked as in a file."""
    first = {setting.flag: setting.path for setting in reversed(SETTINGS)}
    for setting in reversed(SETTINGS):
        if setting.is_section or setting.equals is not None or first[setting.flag] != setting.path:
            continue
        default = "" if setting.default in (None, "false") else f"  [default: {setting.default}]"
        options: dict[str, Any] = {"help": _in_flags(setting.sentence) + default, "default": None}
        if setting.path in _WITH_WORDS:
            options |= {"flag_value": "true", "is_flag": False, "metavar": f"[{'|'.join(setting.choices)}]"}
        elif setting.kind == "bool":
            options |= {"is_flag": True}
        else:
            options |= {"type": _KINDS[setting.kind], "metavar": "|".join(setting.choices) or None}
        command = click.option(setting.flag, setting.path.replace(".", "__"), **options)(command)
    return command


def _in_flags(sentence: str) -> str:
    """Call other settings by their option, and leave out what only a file can say: null."""
    said = re.sub(r"; null [^;]*(?=\.$)", "", sentence)
    return re.sub(r"\b[a-z]+(_[a-z]+)+\b", lambda name: FLAG_OF.get(name[0], name[0]), said)


@click.command()
@_settings
@_setting(
    "--preset", "How long to measure: quick, normal or strict. Not with a fixed number of updates.  [default: quick]"
)
@_setting("--warmup-updates", "Fixed number of updates before the timed part.  [default: 3 with --updates]", int)
@_setting("--updates", "Fixed number of updates of the timed part.  [default: 20 with --warmup-updates]", int)
@_setting("--quality-updates", "Update whose loss is reported; 0 for none.  [default: 20]", int)
@_setting("--timeout-s", "Time limit of the launch [seconds].  [default: 1800]", float)
@click.option("--out", type=OUT_FOLDER, help="Results folder.  [default: results/run-<utc>-<trial>]")
@click.pass_context
def run(ctx: click.Context, /, out: Path | None, **given: Any) -> None:
    """Run one trial from flags, for a quick look.

    The same as a sweep of one trial: same launch, same row, same folder layout. Prints the row at the end. A trial that
    a sweep would skip on this machine is refused.

    \b
    Example:
      bench run --model gpt2-tiny --global-batch-size 16 --micro-batch-size 4 --amp-mode bf16 --updates 10
    """
    from rich.console import Console

    from bench.cli.ending import show_end
    from bench.cli.load import refuse_bad_data, say_if_standin
    from bench.cli.progress import SweepProgress
    from bench.drive.driver import SweepInterrupted, run_sweep
    from bench.machine.environment import machine_facts
    from bench.sweep.expand import expand
    from bench.sweep.flags import own_code_named, sweep_from_flags
    from bench.sweep.trial import Search, Skipped

    require_current_folder()
    length = {name: given.pop(name) for name in ("preset", "warmup_updates", "updates")}
    if all(value is None for value in length.values()):
        length["preset"] = "quick"
    measure = length | {"rounds": 1} | {name: given.pop(name) for name in ("quality_updates", "timeout_s")}
    config = own_code_named({name.replace("__", "."): value for name, value in given.items()})
    config |= {path: _WORDS.get(config[path], config[path]) for path in _WITH_WORDS}
    # The folder's name holds the trial's id, which needs the settings checked first.
    draft = sweep_from_flags(config, measure, "run")
    refuse_bad_data(draft)
    facts = machine_facts(draft.devices_asked())
    say_if_standin(facts)
    (point,) = expand(draft, facts)
    assert not isinstance(point, Search), "flags cannot ask for a search"
    if isinstance(point, Skipped):
        raise BenchError(f"This trial cannot run here: {point.reason}")
    name = f"run-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{point.trial_id}"
    sweep = sweep_from_flags(config, measure, name)
    folder = out or Path("results") / name
    try:
        with SweepProgress(Console(stderr=True)) as progress:
            summary = run_sweep(sweep, folder, facts, progress, prove=True)
    except SweepInterrupted as interrupt:
        click.echo(f"interrupted; what is finished is kept in {folder}", err=True)
        ctx.exit(128 + (interrupt.number or 15))
    show_end(folder, draw=False)
    ctx.exit(1 if summary.failed else 0)
