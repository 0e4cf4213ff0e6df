"""The loop and its observer, schedule units, and what it needs to be imported."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from bench.loop import NoGradient, NoObserver, Observers, SummedCrossEntropy, make_schedule
from bench.loop.schedule import lr_factor
from tests.loops import train
from tests.oracle import TinyLM, make_optimizer, random_batch
from tests.patience import PATIENCE_S

DATA = [random_batch(1, 3, seed) for seed in range(4)]


class Diary(NoObserver):
    """Write down every call."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def window_begin(self, plan: Any) -> None:
        self.calls.append(f"window {plan.update}")

    def phase_begin(self, phase: str) -> None:
        self.calls.append(phase)

    def micro_step_end(self) -> None:
        self.calls.append("micro")

    def update_end(self, result: Any) -> None:
        self.calls.append(result.result)


@pytest.mark.parametrize("options", [{}, {"window_mode": "streamed", "nominal_units": 6.0}])
def test_observer_sees_every_phase_in_order(options: dict[str, Any]) -> None:
    """Two micro-steps, one update, in both window modes and for each of several observers."""
    diaries = Diary(), Diary()
    model = TinyLM()
    train(model, DATA[:3], 2, make_optimizer("sgd", model), observer=Observers(*diaries), window_options=options)
    step = ["forward", "backward", "micro"]
    right = ["window 0", *step, *step, "update", "applied", "window 1", *step, "update", "applied"]
    assert [diary.calls for diary in diaries] == [right, right]


def test_loss_that_depends_on_no_trainable_parameter_is_refused_by_their_names() -> None:
    """Torch says only that element 0 of tensors does not require grad."""
    model = TinyLM()
    optimizer = make_optimizer("sgd", model)
    names = [name for name, _ in model.named_parameters()]

    class Constant(SummedCrossEntropy):
        def __call__(self, model: torch.nn.Module, micro_batch: Any) -> torch.Tensor:
            return super().__call__(model, micro_batch).detach()

    with pytest.raises(NoGradient, match=f"depends on none: {names[0]}, .*the non-reentrant kind") as refused:
        train(model, DATA[:1], 1, optimizer, loss=Constant())
    assert list(refused.value.names) == names


def test_schedule_by_epoch_moves_at_the_end_of_an_epoch_only() -> None:
    """Updates leave it alone."""
    model = TinyLM()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    trained = train(model, DATA, 2, optimizer, schedule=schedule, schedule_unit="epoch")
    assert [result.lr for result in trained.results] == [1.0, 1.0]
    trained.loop.validation_end(3.0)
    assert optimizer.param_groups[0]["lr"] == 1.0
    trained.loop.epoch_end()
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_schedule_by_validation_moves_by_its_loss() -> None:
    """A plateau of two validations halves the rate."""
    model = TinyLM()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    trained = train(model, DATA, 2, optimizer, schedule=schedule, schedule_unit="validation")
    for loss in (2.0, 2.0):
        trained.loop.validation_end(loss)
    trained.loop.epoch_end()
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_schedule_shapes() -> None:
    """Up a line, then level, down a line, or down half a cosine; 0 for ever after."""
    assert [lr_factor("constant", applied, 2, None) for applied in range(4)] == [0.5, 1.0, 1.0, 1.0]
    assert [lr_factor("linear", applied, 1, 5) for applied in (0, 1, 3, 5, 9)] == [1.0, 1.0, 0.5, 0.0, 0.0]
    assert [lr_factor("cosine", applied, 0, 4) for applied in (0, 2, 4)] == pytest.approx([1.0, 0.5, 0.0], abs=1e-15)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    with pytest.raises(ValueError, match="needs total_updates"):
        make_schedule(optimizer, "linear", 0, None)


@pytest.mark.slow
def test_loop_needs_torch_and_nothing_else_of_ours() -> None:
    """`from bench.loop import ...` works where no other part of this package, or its dependencies, can be imported."""
    code = (
        "import sys\n"
        "blocked = ['pydantic', 'pandas', 'pyarrow', 'click', 'matplotlib', 'psutil', 'rich', 'ruamel']\n"
        "sys.modules.update(dict.fromkeys(blocked))\n"
        "from bench.loop import *\n"
        "ours = {name for name in sys.modules if name.startswith('bench.')}\n"
        "assert all(name.startswith('bench.loop') for name in ours), ours\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S)


def test_summed_cross_entropy_is_exported_with_its_count() -> None:
    """Loss and units come in one object."""
    assert callable(SummedCrossEntropy().count)
