"""The checklist: what was proved, with which verdict, and the figure behind it. No torch here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["PASS", "FAIL", "NOT PROVEN", "NOT APPLICABLE"]

TITLES = {
    "runs": "the training step runs",
    "examples": "every planned example contributes once, the last window included",
    "weighting": "the weighting of the gradient equals the concatenated batch's",
    "update": "the applied update equals the reference's",
    "precision": "in the configured precision, at most twice the concatenated batch's own error",
    "counters": "counters agree with an independent count",
    "clipping": "clipping acts once, on the whole window's gradient",
    "schedule": "the schedule advances once per applied update",
    "gradient_sync": "gradient synchronisations per update are as asked",
    "parameters": "every trainable parameter received a gradient",
    "layers": "no layer couples the examples of a micro-batch or draws random numbers",
    "validation": "the validation loss does not depend on the cut",
}
"""Name of each line to the statement it is about, in the order of the checklist."""

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
    """Give the verdict of a whole checklist: the gravest, and NOT PROVEN where nothing was proved."""
    verdicts = {line.verdict for line in lines}
    gravest: Verdict = next((verdict for verdict in _GRAVITY if verdict in verdicts), "NOT PROVEN")
    return "NOT PROVEN" if gravest == "NOT APPLICABLE" else gravest


def merge(checklists: Iterable[Iterable[Line]]) -> list[Line]:
    """Join checklists: of each line the gravest, of equally grave ones that with the largest figure, then the last.

    What one of them proved and another had nothing to say about is proved: NOT APPLICABLE is the lightest.
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
    """Give a checklist of one failure: the step cannot be run."""
    return [Line("runs", "FAIL", None, reason)]


def _weight(line: Line) -> tuple[int, float]:
    return -_GRAVITY.index(line.verdict), -1.0 if line.figure is None else line.figure
