"""The timed part of a preset begins after the exchanges in which the host waits; a fixed length is kept and flagged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.rank import protocol, timed_columns
from bench.rank.columns import measured_columns, train_losses
from bench.rank.ddp_warmup import waiting_updates
from bench.rank.protocol import run_protocol
from bench.statistics.lengths import LENGTHS, Length
from bench.statistics.steady import WarmupRule
from bench.statistics.stopping import StopRule
from bench.sweep.fields import TrialConfig
from tests.small_launch import build, columns_of

AT_ONCE = Length(
    WarmupRule(window=1, tolerance=1e9, device_s=0.0, dropped=0, spike_ratio=1e9),
    StopRule(1e9, samples_at_least=3, seconds_at_least=0.0, seconds_at_most=1e9, samples_at_most=3),
    whole_updates_s=1e9,
)
"""Steady, and known well enough, as soon as there are samples."""


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("config", "device", "updates"),
    [
        ({"world_size": 2}, "cuda", 11),
        ({"world_size": 2, "gradient_sync": "every"}, "cuda", 3),
        ({"world_size": 2}, "cpu", 0),
        ({"world_size": 1}, "cuda", 0),
    ],
)
def test_host_waits_in_the_first_eleven_exchanges_on_gpus(config: dict[str, Any], device: str, updates: int) -> None:
    """One exchange an update, or one a micro-step; on one rank and on a CPU nothing waits."""
    assert waiting_updates(TrialConfig.model_validate({"accumulation_steps": 4, **config}), device) == updates


def wait_for(updates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take it that the host waits in the first updates of a launch on one rank."""
    for module in (protocol, timed_columns):
        monkeypatch.setattr(module, "waiting_updates", lambda config, device_kind: updates)


@pytest.mark.parametrize("quality_updates", [0, 8])
def test_preset_begins_the_timed_part_after_the_updates_in_which_the_host_waits(
    quality_updates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However soon its updates are steady; those that came before the warm-up count."""
    monkeypatch.setitem(LENGTHS, "quick", AT_ONCE)
    wait_for(11, monkeypatch)
    measure = {"preset": "quick", "warmup_updates": None, "updates": None, "quality_updates": quality_updates}
    bench = build(measure=measure)
    observed = run_protocol(bench)
    assert next(observed.part("timed")).samples[0].update == 11
    assert "ddp_warmup" not in measured_columns(bench, observed, train_losses(bench, observed))["flags"]


@pytest.mark.parametrize(("warmup_updates", "is_flagged"), [(6, True), (7, False)])
def test_fixed_length_is_run_as_asked_and_flagged(
    warmup_updates: int, is_flagged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First update and memory pass are four more."""
    wait_for(11, monkeypatch)
    columns = columns_of(build(measure={"warmup_updates": warmup_updates, "updates": 3}))
    assert (columns["warmup_updates"], columns["updates_attempted"]) == (warmup_updates, 3)
    assert ("ddp_warmup" in columns["flags"]) == is_flagged
