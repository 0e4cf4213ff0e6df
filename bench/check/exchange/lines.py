"""The checklist: what was proved, with which verdict, and the figure behind it. No torch here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["PASS", "FAIL", "NOT PROVEN", "NOT APPLICABLE"]

TITLES = {
    "runs": "the training step runs",
    "examples": "every sequence contributes exactly once, the last window included",
    "weighting": "the gradient equals that of one concatenated batch",
    "update": "the applied update equals that of one concatenated batch",
    "precision": "the error in the configured precision is at most twice that of one concatenated batch",
    "counters": "counters agree with an independent count",
    "clipping": "clipping acts once, on the whole window's gradient",
    "schedule": "the schedule advances once per applied update",
    "gradient_sync": "gradients are synchronised as often as configured",
    "parameters": "every trainable parameter received a gradient",
    "layers": "no layer mixes the examples of a micro-batch or draws random numbers",
    "validation": "the validation loss does not depend on the micro-batch size",
}
"""Name of each line to the statement it proves, in the order of the checklist."""

ARITHMETIC = "arithmetic:"
"""How a line, and the reason of a launch, begins where the device computes wrongly, whatever was asked of it."""
_GRAVITY: tuple[Verdict, ...] = ("FAIL", "NOT PROVEN", "PASS", "NOT APPLICABLE")


@dataclass(frozen=True)
class Line:
    """State one line of the checklist."""

    name: str
    """Key of `TITLES`."""
    verdict: Verdict
    figure: float | None
    """The figure behind the verdict, which `words` explains; null where nothing was measured."""
    words: str
    """What was found, in a sentence."""

    def __post_init__(self) -> None:
        assert self.name in TITLES, f"{self.name} is no line of the checklist"

    def as_row(self) -> dict[str, Any]:
        """Give the fields, for JSON."""
        return asdict(self)


def overall(lines: Iterable[Line]) -> Verdict:
    """Give the verdict of a whole checklist: the worst of its lines, and NOT PROVEN if nothing was proved."""
    verdicts = {line.verdict for line in lines}
    gravest: Verdict = next((verdict for verdict in _GRAVITY if verdict in verdicts), "NOT PROVEN")
    return "NOT PROVEN" if gravest == "NOT APPLICABLE" else gravest


def merge(checklists: Iterable[Iterable[Line]]) -> list[Line]:
    """Join checklists: of each line the worst verdict; of equal ones that with the largest figure, then the last.

    A line that one of them proved and to another did not apply is proved: NOT APPLICABLE gives way to all others.
    """
    by_name: dict[str, Line] = {}
    for line in (line for checklist in checklists for line in checklist):
        known = by_name.get(line.name)
        if known is None or _weight(line) >= _weight(known):
            by_name[line.name] = line
    return [by_name[name] for name in TITLES if name in by_name]


def unproven(reason: str) -> list[Line]:
    """Give a checklist on which nothing was proved, for one reason."""
    return [Line("runs", "NOT PROVEN", None, reason)]


def failed(reason: str) -> list[Line]:
    """Give a checklist with one failure: the step cannot run."""
    return [Line("runs", "FAIL", None, reason)]


def _weight(line: Line) -> tuple[int, float]:
    return -_GRAVITY.index(line.verdict), -1.0 if line.figure is None else line.figure
