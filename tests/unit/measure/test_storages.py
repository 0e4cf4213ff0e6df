"""What the peak consisted of: every storage once, by what it turned out to be kept for."""

from __future__ import annotations

import gc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

from bench.measure.device import PeakParts, Residents, Witnessed
from bench.measure.storages import LiveStorages, Use
from bench.measure.witness import DispatchWitness

KIBI = 1024


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def kibibytes(count: int) -> torch.Tensor:
    return torch.empty(count * KIBI, dtype=torch.uint8)


def parts_of(passed: Witnessed) -> PeakParts:
    assert passed.parts is not None
    assert passed.parts.total_bytes == passed.live_peak_bytes
    return passed.parts


def test_use_that_is_known_only_after_the_peak_counts_at_the_peak() -> None:
    """A result is saved by the next operator, a tensor becomes a gradient later: both were so all along."""
    storages = LiveStorages("cpu")
    result, other = kibibytes(3), kibibytes(5)
    storages.see(result)
    storages.see(other)
    del other
    storages.see(result, Use.ACTIVATION)
    del result
    gc.collect()
    parts = storages.parts()
    assert (parts.activation_bytes, parts.temporary_bytes) == (3 * KIBI, 5 * KIBI)
    assert storages.live_bytes == 0


def test_garbage_collector_may_strike_while_the_peak_is_kept() -> None:
    """Tensors in reference cycles die whenever it likes, also while the storages of a peak are listed."""
    storages, kept = LiveStorages("cpu"), [kibibytes(1) for _ in range(50)]
    threshold = gc.get_threshold()
    gc.disable()
    try:
        for _ in range(50):
            cycle: list[object] = [kibibytes(1)]
            storages.see(cycle[0])  # type: ignore[arg-type]
            cycle.append(cycle)
            del cycle
        storages.see_all(kept, Use.ACTIVATION)
        gc.set_threshold(1, 1, 1)
        gc.enable()
        parts = storages.parts()
    finally:
        gc.set_threshold(*threshold)
        gc.enable()
    assert (parts.activation_bytes, parts.temporary_bytes) == (50 * KIBI, 50 * KIBI)
    gc.collect()
    assert storages.live_bytes == 50 * KIBI


def test_largest_use_wins_in_any_order() -> None:
    """A parameter is saved for the backward too; it stays a parameter."""
    for uses in ((Use.PARAMETER, Use.ACTIVATION), (Use.ACTIVATION, Use.PARAMETER)):
        storages, tensor = LiveStorages("cpu"), kibibytes(1)
        for use in uses:
            storages.see(tensor, use)
        assert storages.parts().model_bytes == KIBI
        assert storages.use_of(tensor) is Use.PARAMETER
        assert storages.use_of(kibibytes(1)) is None


def test_phase_is_that_of_the_first_moment_of_the_peak() -> None:
    """An equal height later is no new peak."""
    storages = LiveStorages("cpu")
    for phase in ("forward", "backward", "update"):
        storages.phase = phase
        held = kibibytes(2 if phase == "forward" else 4)
        storages.see(held)
        del held
    assert storages.parts().phase == "backward"


@given(
    st.lists(
        st.tuples(st.sampled_from(["make", "drop", "grow", "use"]), st.integers(1, 64), st.sampled_from(Use)),
        max_size=40,
    )
)
def test_parts_of_any_history_are_those_of_the_highest_moment(steps: list[tuple[str, int, Use]]) -> None:
    """Held against a list kept by hand, in which every storage has its last use."""
    storages = LiveStorages("cpu")
    live: list[tuple[torch.Tensor, list[Use]]] = []
    peak, at_peak = 0, list[tuple[int, list[Use]]]()
    for step, size, use in steps:
        if step == "make" or not live:
            live.append((torch.empty(size, dtype=torch.uint8), [use]))
            storages.see(live[-1][0], use)
        elif step == "drop":
            live.pop(size % len(live))
        else:
            tensor, uses = live[size % len(live)]
            if step == "grow":
                tensor.resize_(size)
            uses.append(max(uses[-1], use))
            storages.see(tensor, use)
            del tensor  # or it would outlive its drop
        total = sum(tensor.untyped_storage().nbytes() for tensor, _ in live)
        if total > peak:
            peak, at_peak = total, [(tensor.untyped_storage().nbytes(), uses) for tensor, uses in live]
    parts = storages.parts()

    def of(*uses: Use) -> int:
        return sum(size for size, known in at_peak if known[-1] in uses)

    assert parts.total_bytes == storages.peak_bytes == peak
    assert parts.model_bytes == of(Use.PARAMETER)
    assert parts.gradient_bytes == of(Use.GRADIENT)
    assert parts.optimizer_state_bytes == of(Use.OPTIMIZER_STATE)
    assert parts.ddp_bucket_bytes == of(Use.DDP_BUCKET)
    assert parts.activation_bytes == of(Use.ACTIVATION)
    assert parts.temporary_bytes == of(Use.TEMPORARY, Use.WEIGHT_CAST)


class Tower(nn.Module):
    """Three layers of one shape, with or without checkpointing."""

    def __init__(self, checkpointing: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(3))
        self.checkpointing = checkpointing

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        def block(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(layer(x))

        for layer in self.layers:
            rows = checkpoint(block, layer, rows, use_reentrant=False) if self.checkpointing else block(layer, rows)
        return rows.sum()


def step(model: nn.Module, rows: torch.Tensor, amp: torch.dtype | None = None, with_backward: bool = True) -> Witnessed:
    """Run forward and backward under the witness."""

    def residents() -> Residents:
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        return Residents(model=list(model.parameters()), gradients=gradients)

    with DispatchWitness(residents) as witness:
        witness.phase_begin("forward")
        with torch.autocast("cpu", dtype=amp or torch.bfloat16, enabled=amp is not None):
            loss = model(rows)
        witness.phase_begin("backward")
        if with_backward:
            loss.backward()
    return witness.result()


def test_what_autograd_saves_is_an_activation_and_what_it_does_not_is_temporary() -> None:
    """tanh saves its result, the layer its input; the layer's own result is gone when the next one runs."""
    rows = torch.ones(32, 64)  # 8 KiB
    parts = parts_of(step(Tower(), rows, with_backward=False))
    assert parts.model_bytes == 3 * 16 * KIBI
    assert parts.activation_bytes == 4 * 8 * KIBI, "the rows, and the results of three tanh"
    assert parts.temporary_bytes == 8 * KIBI, "the last layer's result"


def test_gradients_on_their_way_to_grad_are_gradients() -> None:
    """All of a first backward's, at the end of which nothing else is left but the rows."""
    model = nn.Linear(512, 512, bias=False)
    parts = parts_of(step(Sum(model), torch.ones(1, 512)))
    assert parts.phase == "backward"
    assert parts.gradient_bytes == parts.model_bytes == 1024 * KIBI


class Sum(nn.Module):
    """Add up what a module gives."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor = self.inner(rows).sum()
        return total


def test_what_checkpointing_makes_again_is_an_activation() -> None:
    """It keeps the inputs of three blocks, and at the peak, in the backward, what one block saves besides."""
    rows = torch.ones(1024, 64)  # 256 KiB
    kept = parts_of(step(Tower(), rows, with_backward=False))
    again = parts_of(step(Tower(checkpointing=True), rows))
    assert again.phase == "backward"
    assert 3 * 256 * KIBI < again.activation_bytes <= 5 * 256 * KIBI
    assert kept.activation_bytes == 4 * 256 * KIBI


def test_autocasts_copies_of_weights_are_temporary() -> None:
    """Autograd saves them, but they grow with the model and not with the rows."""
    rows = torch.ones(1, 64)
    parts = parts_of(step(Tower(), rows, torch.bfloat16, with_backward=False))
    assert parts.temporary_bytes >= 3 * 8 * KIBI, "three weights of 16 KiB in two bytes an element"
    assert parts.activation_bytes < 4 * KIBI


@pytest.mark.parametrize("checkpointing", [False, True])
def test_witness_keeps_nothing_alive(checkpointing: bool) -> None:
    """After the backward only what the test itself holds is left, and the peak is that of a pass without hooks."""
    model, rows = Tower(checkpointing), torch.ones(1024, 64)
    with DispatchWitness(lambda: Residents(model=list(model.parameters()))) as witness:
        model(rows).backward()
    lasting = 2 * 3 * 16 * KIBI + 256 * KIBI  # parameters, gradients, rows
    gc.collect()
    assert witness.storages.live_bytes == lasting


def test_what_a_model_saves_elsewhere_by_hooks_of_its_own_is_left_to_it() -> None:
    """Its hooks come first; what they give back is what is kept."""
    rows = torch.ones(1024, 64)

    def half(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(torch.bfloat16)

    with DispatchWitness() as witness, torch.autograd.graph.saved_tensors_hooks(half, torch.Tensor.float):
        Tower()(rows).backward()
    plain = parts_of(step(Tower(), rows)).activation_bytes
    assert parts_of(witness.result()).activation_bytes < plain


def test_storages_of_another_device_are_divided_the_same_way() -> None:
    """A meta model stands for one on a GPU: the same layers have the same bytes, none of them on the CPU."""
    peaks = []
    for device in ("cpu", "meta"):
        model, rows = Tower().to(device), torch.empty(1024, 64, device=device)
        seen = Residents(model=list(model.parameters()))
        with DispatchWitness(lambda seen=seen: seen, device_type=device) as witness:  # type: ignore[misc]
            witness.phase_begin("forward")
            loss = model(rows)
        peaks.append(parts_of(witness.result()))
        del loss
    assert peaks[0] == peaks[1]
