"""The parts of a launch, in this process: what they number, when validation is, what is never measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from bench.launch.heartbeat import Beat
from bench.launch.trial_file import TrialFile
from bench.launch.watchdog import LaunchLimits, Watchdog
from bench.loop import NoObserver
from bench.measure.cpu import CpuDevice
from bench.rank.columns import doubts, facts_before, measured_columns, train_losses, update_rows, why_invalid
from bench.rank.protocol import Observations, run_protocol
from bench.rank.quality import validation_loss
from bench.rank.ranks import Ranks
from bench.rank.witnessed import witness_updates
from bench.rank.witnessed_columns import witnessed_columns
from bench.rank.workbench import Workbench, build_workbench
from bench.sweep.fields import MeasureSpec, TrialConfig
from tests.loops import Bomb

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def build(measure: dict[str, Any], **config: Any) -> Workbench:
    """Build a nano trial on one rank, in this process."""
    trial = TrialConfig.model_validate(
        {
            "device": "cpu",
            "model": {"preset": "gpt2-nano"},
            "data": {"synthetic": {"documents": 300, "mean_tokens": 12}, "rows": "ragged"},
            "seq_len": 16,
            "global_batch_size": 4,
            "accumulation_steps": 2,
            "micro_batch_size": 2,
            "optimizer": {"name": "adamw", "lr": 0.01, "beta1": 0.9, "beta2": 0.95},
            **config,
        }
    )
    file = TrialFile("s", "0" * 12, 0, 0, 0, trial, MeasureSpec(**measure), 1, ())
    return build_workbench(file, Ranks(0, 1, None), CpuDevice(), [])


def phases(observed: Observations) -> list[tuple[str, list[int]]]:
    return [(part.name, [sample.update for sample in part.samples]) for part in observed.parts]


MEMORY = [("first", [0]), ("memory", [1]), ("memory", [2]), ("memory", [3])]


@pytest.mark.parametrize(
    ("quality_updates", "parts"),
    [
        (0, [("warmup", [4, 5]), ("timed", [6, 7, 8])]),
        (2, [("warmup", [4, 5]), ("timed", [6, 7, 8])]),
        (4, [("warmup", [4, 5]), ("timed", [6, 7, 8])]),
        (5, [("quality", [4]), ("warmup", [5, 6]), ("timed", [7, 8, 9])]),
        (8, [("quality", [4, 5, 6, 7]), ("warmup", [8, 9]), ("timed", [10, 11, 12])]),
        (9, [("warmup", [4, 5]), ("timed", [6, 7, 8]), ("quality", [9])]),
        (11, [("warmup", [4, 5]), ("timed", [6, 7, 8]), ("quality", [9, 10]), ("quality", [11])]),
    ],
)
def test_quality_update_is_never_inside_the_timed_part(quality_updates: int, parts: list[Any]) -> None:
    """Updates up to it run before the warm-up where it would be; every update is numbered once."""
    observed = run_protocol(build({"warmup_updates": 2, "updates": 3, "quality_updates": quality_updates}))
    assert phases(observed) == MEMORY + parts
    assert (observed.validation_loss is None) == (quality_updates == 0)


class Evaluate(NoObserver):
    """Evaluate before every update, as nobody would in a measurement."""

    def __init__(self) -> None:
        self.bench: Workbench | None = None
        self.losses: list[float | None] = []

    def window_begin(self, plan: Any) -> None:
        assert self.bench is not None
        self.losses.append(validation_loss(self.bench))


def test_validation_loss_is_of_the_parameters_the_quality_update_starts_from() -> None:
    """Wherever the update lies, in whatever parts, it is the value seen right before that update."""
    bench = build({"warmup_updates": 2, "updates": 3, "quality_updates": 0})
    bench.loop.observer = watcher = Evaluate()
    watcher.bench = bench
    for _ in range(12):
        bench.loop.run_window(bench.feed.next_window())
    assert len(set(watcher.losses)) == 12
    # The memory pass feeds full rows at update 2: what comes before compares.
    measured = {
        quality: run_protocol(
            build({"warmup_updates": warmup, "updates": 3, "quality_updates": quality})
        ).validation_loss
        for quality, warmup in ((1, 2), (2, 2))
    }
    assert [measured[quality] for quality in (1, 2)] == watcher.losses[1:3]
    anywhere = [
        run_protocol(build({"warmup_updates": warmup, "updates": updates, "quality_updates": 8})).validation_loss
        for warmup, updates in ((0, 1), (1, 2), (0, 9), (9, 1))
    ]
    assert len(set(anywhere)) == 1


def test_loss_curve_does_not_depend_on_the_warm_up() -> None:
    """Case 45: warm-up updates are real updates of the one trajectory: nothing is undone, nothing is extra.

    https://github.com/pytorch/torchtitan/pull/4382
    """
    curves = []
    for warmup in (0, 3):
        bench = build({"warmup_updates": warmup, "updates": 8 - warmup, "quality_updates": 0})
        curves.append(train_losses(bench, run_protocol(bench)))
    assert curves[0] == curves[1]
    assert list(curves[0]) == list(range(12))


def test_evaluation_leaves_training_as_it_was() -> None:
    """No gradient, mode or parameter changes, and the loss curve with and without it is the same."""
    curves = []
    for quality in (0, 4):
        bench = build({"warmup_updates": 1, "updates": 4, "quality_updates": quality})
        curves.append(train_losses(bench, run_protocol(bench)))
        assert bench.model.training
    assert curves[0] == curves[1]


def test_validation_loss_is_the_mean_over_every_held_out_token() -> None:
    """Each held-out sequence once, whatever the micro-batch; held against one sequence at a time."""
    bench = build({"quality_updates": 0}, micro_batch_size=2)
    sequences = bench.source.held_out()
    assert 0 < len(sequences) <= 64
    total, count = 0.0, 0
    for sequence in sequences:
        tokens = torch.from_numpy(sequence)
        with torch.no_grad():
            logits = bench.model(tokens[None, :-1])[0].double()
        total -= float(torch.log_softmax(logits, -1).gather(1, tokens[1:, None]).sum())
        count += len(tokens) - 1
    assert validation_loss(bench) == pytest.approx(total / count, rel=1e-6)


def test_memory_pass_starts_after_an_applied_update() -> None:
    """Case 44: fp16 whose first update overflows tries again, so that the optimizer's state exists when memory is read.

    https://github.com/verl-project/verl/pull/1349
    """
    bench = build({"warmup_updates": 0, "updates": 2, "quality_updates": 0}, amp_mode="fp16")
    bench.loop.sync.model = Bomb(bench.model, 1)
    observed = run_protocol(bench)
    assert phases(observed)[:3] == [("first", [0]), ("first", [1]), ("memory", [2])]
    losses = train_losses(bench, observed)
    columns = measured_columns(bench, observed, losses)
    rows = update_rows(observed, losses)
    columns |= witnessed_columns(bench, witness_updates(bench, is_shortened=False), facts_before(bench) | columns)
    assert [row["result"] for row in rows][:3] == ["skipped", "applied", "applied"]
    assert [row["loss_scale"] for row in rows][:2] == [65536.0, 32768.0]
    # The launch's first update holds the one-off costs, whatever the scaler made of it.
    assert columns["first_update_s"] == next(observed.part("first")).host_seconds
    trainable = sum(parameter.numel() for parameter in bench.model.parameters())
    assert 8 * trainable <= columns["optimizer_state_bytes"] < 8.2 * trainable
    assert columns["host_reads_per_update"] == 1


def test_skips_in_the_timed_part_are_counted_apart() -> None:
    """attempted = applied + skipped, in the row as in the updates.

    https://github.com/deepspeedai/DeepSpeed/issues/931
    """
    bench = build({"warmup_updates": 0, "updates": 4, "quality_updates": 0}, amp_mode="fp16")
    bench.loop.sync.model = Bomb(bench.model, 11)
    observed = run_protocol(bench)
    columns = measured_columns(bench, observed, train_losses(bench, observed))
    counted = [columns[f"updates_{name}"] for name in ("attempted", "applied", "skipped", "empty")]
    assert counted == [4, 3, 1, 0]
    assert why_invalid(bench, observed, train_losses(bench, observed)) is None


def test_timed_part_without_an_applied_update_makes_the_launch_invalid() -> None:
    """F14: every update was skipped, so their time is not that of training; one applied update is enough."""
    bench = build({"warmup_updates": 0, "updates": 2, "quality_updates": 0}, amp_mode="fp16")
    bench.loop.sync.model = Bomb(bench.model, 9, 11)
    observed = run_protocol(bench)
    losses = train_losses(bench, observed)
    assert [sample.result for sample in observed.samples("timed")] == ["skipped", "skipped"]
    assert why_invalid(bench, observed, losses) == "no update of the timed part was applied"
    assert measured_columns(bench, observed, losses)["updates_applied"] == 0


def test_loss_that_is_not_finite_makes_the_launch_invalid() -> None:
    """https://github.com/PrimeIntellect-ai/prime-rl/pull/1961"""
    bench = build({"warmup_updates": 0, "updates": 2, "quality_updates": 0})
    bench.loop.sync.model = Bomb(bench.model, 10)
    observed = run_protocol(bench)
    assert "is nan" in str(why_invalid(bench, observed, train_losses(bench, observed)))


def test_parameters_without_a_gradient_are_named_and_flagged() -> None:
    """A layer that the loss never touches trains nothing, and nobody would know."""
    measure = {"warmup_updates": 0, "updates": 2, "quality_updates": 0}
    bench = build(measure)
    assert bench.optimizer.param_groups[0]["weight_decay"] > 0, "or an update without gradient could not be told"
    bench.model.unused = torch.nn.Linear(2, 2)
    bench.model.frozen = torch.nn.Linear(2, 2).requires_grad_(False)
    observed = run_protocol(bench)
    columns = measured_columns(bench, observed, train_losses(bench, observed))
    assert columns["parameters_without_gradient"] == ["unused.bias", "unused.weight"]
    assert "no_gradient" in columns["flags"]
    observed = run_protocol(bench := build(measure))
    columns = measured_columns(bench, observed, train_losses(bench, observed))
    assert (columns["parameters_without_gradient"], "no_gradient" in columns["flags"]) == ([], False)


def test_a_parameter_that_got_a_gradient_once_is_trained() -> None:
    """An expert that a micro-batch does not need has none in that update."""
    bench = build({"warmup_updates": 0, "updates": 2, "quality_updates": 0})
    bench.model.expert = torch.nn.Parameter(torch.zeros(()))
    calls = []
    plain = bench.loop.loss_sum

    def sometimes(model: torch.nn.Module, micro_batch: Any) -> torch.Tensor:
        calls.append(1)
        return plain(model, micro_batch) + (bench.model.expert if 4 < len(calls) <= 6 else 0.0)

    bench.loop.loss_sum = sometimes
    assert run_protocol(bench).without_gradient == ()


def test_doubtful_layers_become_flags_and_presets_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    """The row says it in a word, the log in a sentence."""
    bench = build({})
    assert doubts(bench) == []
    bench.model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5))
    assert doubts(bench) == ["batch_coupled", "random_layers"]
    printed = capsys.readouterr().err
    assert "0 (BatchNorm1d) normalises" in printed
    assert "1 (Dropout) draws" in printed


@pytest.mark.parametrize("mode", ["buffered", "streamed"])
def test_window_modes_feed_the_same_window_of_full_rows(mode: str) -> None:
    """One window of the memory pass has only full rows, the same update in both modes."""
    bench = build({"warmup_updates": 0, "updates": 2, "quality_updates": 0}, window_mode=mode)
    rows = update_rows(observed := run_protocol(bench), train_losses(bench, observed))
    assert [row["valid_tokens"] == 4 * 16 for row in rows] == [update == 2 for update in range(6)]
    assert [row["micro_batches"] for row in rows] == [2] * 6


def test_long_validation_is_no_hang() -> None:
    """Every micro-batch of it is a sign of life to the watchdog; here each takes 50 s of a counted clock."""
    bench, now_s = build({"quality_updates": 0}), 0.0
    watchdog = Watchdog(LaunchLimits(start_s=120.0, total_s=1e9, stall_s=60.0), now_s)
    last = Beat("data", 4, -1, now_s, 10, 8)
    assert watchdog.look({0: last}, now_s) is None
    loss_sum = bench.loop.loss_sum

    def beat(phase: str) -> None:
        nonlocal last
        last = Beat(phase, 4, -1, now_s, last.beats + 1, 8)

    def slow(model: torch.nn.Module, micro_batch: Any) -> torch.Tensor:
        nonlocal now_s
        now_s += 50.0
        assert watchdog.look({0: last}, now_s) is None
        return loss_sum(model, micro_batch)

    bench.beat, bench.loop.loss_sum = beat, slow
    validation_loss(bench)
    assert now_s > 60.0, "all in all longer than the stall limit"
    assert last.phase == "data", "it is over"


def test_evaluation_runs_in_evaluation_mode_without_gradients() -> None:
    """Dropout is off and nothing is kept for a backward."""
    bench = build({"quality_updates": 0})
    loss_sum, modes = bench.loop.loss_sum, []

    def watched(model: torch.nn.Module, micro_batch: Any) -> torch.Tensor:
        total = loss_sum(model, micro_batch)
        modes.append((model.training, total.requires_grad))
        return total

    bench.loop.loss_sum = watched
    validation_loss(bench)
    assert set(modes) == {(False, False)}
