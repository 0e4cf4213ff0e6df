"""The witnessed updates: last in a launch, of the largest window, and in the way of nothing that decides."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from bench.loop import NoObserver, Observers
from bench.measure.cpu import CpuDevice
from bench.measure.reductions import Reductions
from bench.rank.protocol import run_protocol
from bench.rank.witnessed import _witness, witness_updates
from bench.rank.witnessed_columns import witnessed_rows
from bench.rank.workbench import Workbench
from tests.planted_launch import planted
from tests.small_launch import build


@pytest.fixture(autouse=True)
def cache_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


class SeesModes(NoObserver):
    """Note by update whether a mode in torch's dispatcher, or a hook on what autograd saves, is in the way."""

    def __init__(self) -> None:
        self.found: dict[int, bool] = {}
        self._update = -1

    def window_begin(self, plan: object) -> None:
        self._update = plan.update  # type: ignore[attr-defined]

    def phase_begin(self, phase: object) -> None:
        has_hooks = torch._C._autograd._saved_tensors_hooks_is_enabled() and bool(
            torch._C._autograd._top_saved_tensors_default_hooks(True)
        )
        self.found[self._update] = _get_current_dispatch_mode() is not None or has_hooks


def seen_by(bench: Workbench) -> SeesModes:
    watcher = SeesModes()
    bench.loop.observer = Observers(watcher, bench.loop.observer)
    return watcher


def test_nothing_of_ours_is_in_the_way_of_any_update_that_decides() -> None:
    """A dispatch mode changes what autograd allocates and how long it takes: only the last update has one."""
    bench = build(measure={"warmup_updates": 1, "updates": 2, "quality_updates": 8})
    watcher = seen_by(bench)
    observed = run_protocol(bench)
    assert watcher.found == dict.fromkeys(range(9), False)
    assert {part.name for part in observed.parts} == {"first", "memory", "warmup", "timed", "quality"}
    witness_updates(bench, is_shortened=False)
    assert watcher.found == dict.fromkeys(range(9), False) | {9: True}
    assert _get_current_dispatch_mode() is None


@pytest.mark.parametrize("window_mode", ["buffered", "streamed"])
def test_largest_window_is_witnessed_and_its_loss_left_out(window_mode: str) -> None:
    """Full rows, like the update that decides; the number it has, and so its data, depends on the launch's length."""
    bench = build(data={"synthetic": {"documents": 300, "mean_tokens": 12}, "rows": "ragged"}, window_mode=window_mode)
    observed = run_protocol(bench)
    (row,) = witnessed_rows(witness_updates(bench, is_shortened=False))
    assert row["valid_tokens"] == 2 * 2 * 32
    assert (row["phase"], row["train_loss"]) == ("witness", None)
    assert row["peak_allocated_bytes"] > 0
    decides = [sample.plan.all_ranks.valid_tokens for sample in observed.samples("memory")]
    assert [tokens == 2 * 2 * 32 for tokens in decides] == [False, True, False]


@pytest.mark.parametrize("window_mode", ["buffered", "streamed"])
def test_full_windows_are_witnessed_where_shortened_ones_were_timed(window_mode: str) -> None:
    """Reads and synchronisations are counted per update as asked for."""
    sizes = {"global_batch_size": 128, "accumulation_steps": 64, "micro_batch_size": 2}
    bench, _ = planted({"preset": "normal"}, lambda _: 1.0, lambda _: 1.6, window_mode=window_mode, **sizes)
    observed = run_protocol(bench)
    assert observed.pace.is_shortened
    (row,) = witnessed_rows(witness_updates(bench, observed.pace.is_shortened))
    assert (row["sequences"], row["micro_batches"]) == (128, 64)


def test_witness_knows_old_gradients_and_does_not_hold_them() -> None:
    """A window starts by dropping the gradients of the one before; held, they would count twice in every peak."""
    model = nn.Linear(16, 16)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 16)).sum().backward()
    optimizer.step()
    lasting = 4 * (16 * 16 + 16)  # bytes of the parameters, and so of the gradients and of each moment
    steps = 2 * 4
    gradients = [weakref.ref(parameter.grad) for parameter in model.parameters()]
    bench = SimpleNamespace(model=model, optimizer=optimizer, device=CpuDevice(), reductions=Reductions())
    with _witness(bench) as witness:
        assert witness.storages.live_bytes == 4 * lasting + steps
        optimizer.zero_grad(set_to_none=True)
        assert [gradient() for gradient in gradients] == [None, None]
        assert witness.storages.live_bytes == 3 * lasting + steps
