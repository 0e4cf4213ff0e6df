"""Whether AMP modes train alike, as far as they made the same updates."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from benchmarks.gpu_check.outcome import Finding, judge

LOSS_TOLERANCE = 0.05
"""Largest difference of losses between AMP modes after the same updates from the same weights [nats per token]."""


def judge_losses(curves: Mapping[str, pd.DataFrame]) -> Finding:
    """Compare the losses of the last update before which no mode had skipped one, and see that each mode trained.

    A skipped update leaves the weights as they were while its sequences are used up: from the next one on, losses
    belong to other weights and say nothing about precision.

    Args:
        curves: AMP mode to the updates of one launch, in order: update, result, train_loss [nats per token].
    """
    by_update = {mode: curve.set_index("update").sort_index() for mode, curve in curves.items()}
    shared = sorted(set.intersection(*(set(curve.index) for curve in by_update.values())))
    skips = [update for curve in by_update.values() for update in curve.index[curve["result"] == "skipped"]]
    compared = max((update for update in shared if update <= min(skips, default=update)), default=None)
    if compared is None:
        return Finding("FAIL", "the modes share no update")
    losses = pd.Series({mode: float(curve["train_loss"][compared]) for mode, curve in by_update.items()})
    untrained = [mode for mode, curve in by_update.items() if not (curve["result"] == "applied").any()]
    listed = ", ".join(f"{mode} {loss:.4f}" for mode, loss in losses.items())
    figure = f"{listed} nats a token at update {compared}, {LOSS_TOLERANCE} allowed"
    skipped = [mode for mode, curve in by_update.items() if (curve["result"] == "skipped").any()]
    figure += f"; {', '.join(skipped)} skipped updates from {min(skips)} on" if skipped else ""
    figure += f"; {', '.join(untrained)} applied none" if untrained else ""
    return judge(bool(losses.max() - losses.min() <= LOSS_TOLERANCE) and not untrained, figure)
