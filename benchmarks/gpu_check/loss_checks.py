"""Whether AMP modes train alike, as far as they made the same updates."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from benchmarks.gpu_check.outcome import Finding, judge

LOSS_TOLERANCE = 0.05
"""Largest difference of losses between AMP modes after the same updates from the same weights [nats per token]."""
_LOSS_AT_START = 0.5  # nats per token from ln(vocabulary), which a model that knows nothing yet has

Launch = tuple[str, int]
"""AMP mode and round of a launch."""


def judge_losses(curves: Mapping[Launch, pd.DataFrame], vocab_size: int) -> Finding:
    """Compare the losses of the last update before which no launch had skipped one, and see that each trained.

    A skipped update leaves the weights as they were while its sequences are used up: from the next one on, losses
    belong to other weights and say nothing about precision. Equal losses may all be wrong, so the first is held
    against that of guessing.

    Args:
        curves: For each launch its updates: update, result, train_loss [nats per token], which witnessed ones lack.
        vocab_size: Tokens of the vocabulary.
    """
    by_update = {
        launch: curve.dropna(subset="train_loss").set_index("update").sort_index() for launch, curve in curves.items()
    }
    shared = sorted(set.intersection(*(set(curve.index) for curve in by_update.values())))
    skips = [update for curve in by_update.values() for update in curve.index[curve["result"] == "skipped"]]
    compared = max((update for update in shared if update <= min(skips, default=update)), default=None)
    if compared is None:
        return Finding("FAIL", "the launches share no update")
    losses = {launch: float(curve["train_loss"][compared]) for launch, curve in by_update.items()}
    at_first = [float(curve["train_loss"].iloc[0]) for curve in by_update.values()]
    guessed = math.log(vocab_size)
    untrained = _modes_of({launch: (curve["result"] == "applied").any() for launch, curve in by_update.items()}, False)
    skipped = _modes_of({launch: (curve["result"] == "skipped").any() for launch, curve in by_update.items()}, True)
    listed = ", ".join(f"{mode} {loss:.4f}" for mode, loss in {mode: losses[mode, n] for mode, n in losses}.items())
    figure = f"{listed} nats a token at update {compared}, {LOSS_TOLERANCE} allowed"
    figure += f"; {at_first[0]:.4f} at first, ln(vocabulary) {guessed:.4f}"
    figure += f"; {', '.join(skipped)} skipped updates from {min(skips)} on" if skipped else ""
    figure += f"; {', '.join(untrained)} applied none" if untrained else ""
    starts_right = max(abs(loss - guessed) for loss in at_first) <= _LOSS_AT_START
    agrees = max(losses.values()) - min(losses.values()) <= LOSS_TOLERANCE
    return judge(agrees and starts_right and not untrained, figure)


def _modes_of(answers: Mapping[Launch, bool], answer: bool) -> list[str]:
    """Name each AMP mode that has a launch with this answer."""
    return list(dict.fromkeys(mode for (mode, _), given in answers.items() if bool(given) is answer))
