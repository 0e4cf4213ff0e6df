"""What stands below the table: failures, predictions of the two-point law, how to run the choice, the machine."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from bench.decide.law import fit_laws
from bench.decide.recommend import Recommendation
from bench.decide.reproduce import sweep_file_lines, torchrun_lines
from bench.page.document import safe
from bench.page.figures import MOST_LAUNCHES_DRAWN
from bench.report.configurations import Configuration
from bench.report.points import Row, extra_axes, name_with
from bench.sweep.names import clean
from bench.units import listed

_MOST_LAWS = 12
_FACTS = (
    *("gpu_name", "cpu_model", "cpu_count", "hostname", "driver_version", "cuda_version", "cudnn_version"),
    *("nccl_version", "torch_version", "python_version", "bench_version", "measurement_version", "time_method"),
    *("memory_method", "corpus_hash"),
)


def failures(configurations: Sequence[Configuration]) -> str:
    """List the reasons for which configurations failed, and which did for each."""
    reasons: dict[str, list[str]] = {}
    for one in configurations:
        if one.fault is not None:
            reasons.setdefault(one.fault, []).append(one.name)
    if not reasons:
        return ""
    each = list(reasons.items())[:40]
    lines = [f"<li><b>{safe(listed(names, 5, '; '))}</b>: {safe(reason)}</li>" for reason, names in each]
    if len(reasons) > 40:
        lines.append(f"<li>and {len(reasons) - 40:,} further reasons</li>")
    return f"<h2>What did not run, and why</h2><ul>{''.join(lines)}</ul>"


def laws(launches: Sequence[Row]) -> str:
    """Say what the two-point law says of counts that were not measured, and where it fails."""
    found = fit_laws(launches) if len(launches) <= MOST_LAUNCHES_DRAWN else []
    if not found:
        return ""
    extra = extra_axes([law.row for law in found])
    lines = []
    for law in found[:_MOST_LAWS]:
        steps = ", ".join(map(str, law.steps))
        name = name_with(law.row, extra, accumulation_steps="A")
        fails = f" <b>Does not hold:</b> {safe('; '.join(law.failures))}." if law.failures else ""
        lines.append(f"<li>{safe(name)}, measured at A = {steps}: {safe(law.sentence())}.{fails}</li>")
    more = f"<li>and {len(found) - _MOST_LAWS} more</li>" if len(found) > _MOST_LAWS else ""
    return (
        "<h2>Other accumulation counts: predicted, not measured</h2><p class=quiet>Update time = fixed part + A x "
        f"time per micro-step; A: accumulation steps.</p><ul>{''.join(lines)}{more}</ul>"
    )


def reproduce(result: Recommendation | None) -> str:
    """Write the choice as a sweep file and as a command for a script of one's own."""
    if result is None:
        return ""
    sweep = "\n".join(sweep_file_lines(result.choice.row))
    torchrun = "\n".join(torchrun_lines(result.choice.row))
    first = f"<p>Sweep file to measure it again</p><pre>{safe(sweep)}</pre>"
    return f"<h2>Run it</h2>{first}<p>In your own training script</p><pre>{safe(torchrun)}</pre>"


def machine(table: pa.Table) -> str:
    """List the facts of the machine and its software, and what the words of the page mean."""
    items = []
    for name in _FACTS:
        values = [value for value in pc.unique(table.column(name)).to_pylist() if value is not None]
        if values:
            shown = safe(clean(listed(list(map(str, values)), 6)))
            items.append(f"<div><dt>{name.replace('_', ' ')}</dt><dd>{shown}</dd></div>")
    return (
        f'<h2>Machine and versions</h2><section id="machine"><dl>{"".join(items)}</dl></section>'
        "<p class=quiet>Valid tokens: targets that count in the loss, without padding. Speeds: all ranks, whole "
        "updates, slowest rank, tokens / seconds over all rounds. Bytes: 1 GiB = 1024<sup>3</sup>. Made by bench.</p>"
    )
