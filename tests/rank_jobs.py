"""What the ranks of the pool can do: each function runs on every rank and returns plain values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from bench.launch.trial_file import TrialFile
from bench.loop import (
    AccumulationLoop,
    DdpGradientSync,
    GlooAgreement,
    NoObserver,
    Observers,
    Precision,
    SummedCrossEntropy,
    UpdateResult,
    WindowCounts,
    diverged_parameters,
    make_schedule,
    parameters_checksum,
    windows,
)
from bench.measure.cpu import CpuDevice
from bench.measure.reductions import Reductions
from bench.rank.columns import measured_columns, train_losses
from bench.rank.protocol import run_protocol
from bench.rank.ranks import Ranks as HostRanks
from bench.rank.workbench import build_workbench
from bench.sweep.fields import MeasureSpec, TrialConfig
from tests.loops import CPU, Bias, Bomb, Trained, train
from tests.oracle import Batch, TinyLM, make_optimizer


@dataclass(frozen=True)
class Ranks:
    """One rank's place, and its two groups."""

    rank: int
    world: int
    gradients: dist.ProcessGroup
    hosts: dist.ProcessGroup

    def add_up(self, value: float) -> float:
        total = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(total, group=self.hosts)
        return total.item()


def _train(ranks: Ranks, model: nn.Module, data: Sequence[Any], steps: int, optimizer: Any, **options: Any) -> Trained:
    sync_options = options.pop("sync_options", {})
    sync = DdpGradientSync(model, group=ranks.gradients, **sync_options)
    return train(
        model,
        data,
        steps,
        optimizer,
        sync=sync,
        agreement=GlooAgreement(ranks.hosts),
        add_up=ranks.add_up,
        **options,
    )


def tiny_lm(
    ranks: Ranks,
    data: Sequence[Batch],
    steps: int,
    optimizer: str,
    class_weights: Sequence[float] | None = None,
    amp_mode: Any = "fp64",
    bombs: Sequence[int] = (),
    scaler_options: dict[str, Any] | None = None,
    lr_warmup_updates: int | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Train the tiny language model on this rank's micro-batches; float64 unless an AMP mode is asked for."""
    core = TinyLM(dtype=torch.float64 if amp_mode == "fp64" else torch.float32)
    model: nn.Module = Bomb(core, *bombs) if bombs else core
    opt = make_optimizer(optimizer, core)
    loss = SummedCrossEntropy(None if class_weights is None else torch.tensor(class_weights))
    precision = Precision("fp32" if amp_mode == "fp64" else amp_mode, "cpu", **(scaler_options or {}))
    if lr_warmup_updates:
        options["schedule"] = make_schedule(opt, "linear", lr_warmup_updates, 100)
    trained = _train(ranks, model, data, steps, opt, loss=loss, precision=precision, **options)
    return {
        "steps": trained.steps,
        "results": [result.result for result in trained.results],
        "plans": [result.plan for result in trained.results],
        "lrs": [result.lr for result in trained.results],
        "scales": [result.loss_scale for result in trained.results],
        "norms": [None if r.grad_norm is None else r.grad_norm.item() for r in trained.results],
        "checksum": parameters_checksum(core),
        "diverged": diverged_parameters(core, ranks.hosts),
    }


def bias(ranks: Ranks, data: Sequence[Batch], steps: int, class_weights: Sequence[float] | None = None) -> list[float]:
    """Give minus b after each update of SGD with rate 1."""
    model = Bias()
    loss = SummedCrossEntropy(None if class_weights is None else torch.tensor(class_weights, dtype=torch.float64))
    trained = _train(ranks, model, data, steps, torch.optim.SGD(model.parameters(), lr=1.0), loss=loss)
    return [-step.parameters[0] for step in trained.steps]


def denominators(ranks: Ranks, data: Sequence[Batch], steps: int) -> list[tuple[int, float]]:
    """Give valid tokens and units over all ranks of each window, at rate 0."""
    model = Bias()
    trained = _train(ranks, model, data, steps, torch.optim.SGD(model.parameters(), lr=0.0))
    return [(result.plan.all_ranks.valid_tokens, result.plan.all_ranks.units) for result in trained.results]


def agree(ranks: Ranks, counts: WindowCounts) -> Any:
    """Exchange one window's counts, twice, to see that nothing is left over."""
    agreement = GlooAgreement(ranks.hosts)
    for more in (True, False):
        agreement.begin(replace(counts, sequences=counts.sequences + more), more and ranks.rank == 0)
        agreed = agreement.finish()
    return agreed


def count_reductions(
    ranks: Ranks, data: Sequence[Batch], steps: int, every: bool, spoil: bool = False, bucket_cap_mb: float = 0.0002
) -> dict[str, Any]:
    """Count gradient reductions twice: by DistributedDataParallel's own hook, and by the benchmark's counter.

    `spoil` puts `no_sync` around the backward only, which is the well-known mistake.
    """
    model = TinyLM()
    sync = DdpGradientSync(model, "every" if every else "last", group=ranks.gradients, bucket_cap_mb=bucket_cap_mb)
    ddp: DistributedDataParallel = sync.model  # type: ignore[assignment]
    calls: list[int] = []

    def hook(group, bucket):  # type: ignore[no-untyped-def] # torch reads annotations, but not their text
        calls.append(bucket.index())
        return allreduce_hook(group, bucket)

    ddp.register_comm_hook(ranks.gradients, hook)
    reductions, loss = Reductions(), SummedCrossEntropy()
    loop = AccumulationLoop(
        sync,
        torch.optim.SGD(model.parameters(), lr=0.1),
        loss if not spoil else _spoiled(loss, ddp),
        Precision("fp32", "cpu"),
        CPU,
        observer=Observers(reductions),
    )
    per_window = []
    for window in windows(data, steps, loss.count, agreement=GlooAgreement(ranks.hosts)):
        calls.clear()
        if window.plan.update == 0:
            loop.run_window(window)  # buckets are laid out anew after the first backward
            continue
        with reductions:
            loop.run_window(window)
        per_window.append(len(calls))
    return {
        "by_hook": per_window,
        "by_counter": reductions.per_update,
        "buckets": reductions.most_per_micro_step,
        "hook_buckets": len(set(calls)),
    }


def _spoiled(loss: SummedCrossEntropy, ddp: DistributedDataParallel) -> Any:
    def loss_sum(model: nn.Module, batch: Batch) -> Tensor:
        asked, ddp.require_backward_grad_sync = ddp.require_backward_grad_sync, True
        total = loss(model, batch)
        ddp.require_backward_grad_sync = asked
        return total

    return loss_sum


class CountedCpu(CpuDevice):
    """A CPU whose clock moves on at each mark, by as much but for the noise, and at an exchange to where all are."""

    def __init__(self, tick_s: float, update_s: float, noise: float, seed: int) -> None:
        super().__init__()
        self._tick_s, self._noise, self._now_ns = tick_s, noise, 0
        self._update_ns, self._met_ns, self._has_met = round(update_s * 1e9), 0, False
        self._random = Random(seed)

    def meet(self) -> None:
        """Wait for the slowest rank, as in an exchange of gradients: the next mark is at the same time on all ranks."""
        self._now_ns = self._met_ns = max(self._now_ns, self._met_ns + self._update_ns)
        self._has_met = True

    def mark(self) -> int:
        """Let the time of one micro-step pass, but none right after an exchange."""
        if not self._has_met:
            self._now_ns += round(self._tick_s * (1 + self._noise * self._random.uniform(-1, 1)) * 1e9)
        self._has_met = False
        return self._now_ns


class Meets(NoObserver):
    """Let the ranks' clocks meet at the end of each update."""

    def __init__(self, device: CountedCpu) -> None:
        self._device = device

    def update_end(self, result: UpdateResult) -> None:
        """Wait for the slowest."""
        self._device.meet()


def measured(
    ranks: Ranks,
    cache: str,
    tick_s: float,
    update_s: float,
    accumulation_steps: int,
    measure: dict[str, Any],
    noise: float = 0.0,
    **config: Any,
) -> dict[str, Any]:
    """Measure a nano trial whose micro-steps take `tick_s` on this rank, but for noise, and its updates `update_s`.

    Gives what the rank reports.
    """
    os.environ["XDG_CACHE_HOME"] = cache
    spec = MeasureSpec.model_validate({"quality_updates": 0, **measure})
    trial = TrialConfig.model_validate(
        {
            "device": "cpu",
            "model": {"preset": "gpt2-nano"},
            "data": {"synthetic": {"documents": 300, "mean_tokens": 12}, "rows": "packed"},
            "seq_len": 16,
            "world_size": ranks.world,
            "global_batch_size": accumulation_steps * ranks.world,
            "accumulation_steps": accumulation_steps,
            "micro_batch_size": 1,
            "optimizer": {"name": "adamw", "lr": 0.01, "beta1": 0.9, "beta2": 0.95},
            **config,
        }
    )
    file = TrialFile("s", "0" * 12, 0, 0, 0, trial, spec, ranks.world, ())
    device = CountedCpu(tick_s, update_s, noise, ranks.rank)
    bench = build_workbench(file, HostRanks(ranks.rank, ranks.world, ranks.hosts), device, [Meets(device)])
    observed = run_protocol(bench)
    return measured_columns(bench, observed, train_losses(bench, observed))


class Branches(nn.Module):
    """Use one of two heads, as the first input says; a third is never used."""

    def __init__(self, with_unused: bool) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embedding = nn.Embedding(11, 4)
        self.heads = nn.ModuleList(nn.Linear(4, 11) for _ in range(2))
        self.pooler = nn.Linear(4, 4) if with_unused else None
        self.double()

    def forward(self, inputs: Tensor) -> Tensor:
        chosen = int(inputs[0, 0]) % 2
        return self.heads[chosen](self.embedding(inputs))


def branches(
    ranks: Ranks, data: Sequence[Batch], steps: int, with_unused: bool, search: bool, optimizer: str = "adamw"
) -> dict[str, Any]:
    """Train a model that leaves parameters out of some micro-batches."""
    model = Branches(with_unused)
    options = {"unused_parameters": "search"} if search else {}
    trained = _train(ranks, model, data, steps, make_optimizer(optimizer, model), sync_options=options)
    without = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    return {"steps": trained.steps, "without_gradient": without, "diverged": diverged_parameters(model, ranks.hosts)}


class Checkpointed(nn.Module):
    """Use one block once or twice under activation checkpointing."""

    def __init__(self, use_reentrant: bool, uses: int) -> None:
        super().__init__()
        self.use_reentrant, self.uses = use_reentrant, uses
        self.embedding = nn.Embedding(11, 4)
        self.block = nn.Linear(4, 4)
        self.head = nn.Linear(4, 11)

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.embedding(inputs)
        for _ in range(self.uses):
            x = checkpoint(self.block, x, use_reentrant=self.use_reentrant)
        return self.head(x)


def checkpointed(ranks: Ranks, data: Sequence[Batch], use_reentrant: bool, search: bool, uses: int) -> list[str]:
    """Train it."""
    torch.manual_seed(0)
    model = Checkpointed(use_reentrant, uses)
    options = {"unused_parameters": "search"} if search else {}
    trained = _train(ranks, model, data, 2, torch.optim.SGD(model.parameters(), lr=0.1), sync_options=options)
    return [result.result for result in trained.results]


class Normed(nn.Module):
    """Normalise by batch statistics: its buffers are broadcast by DistributedDataParallel."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 11)

    def forward(self, inputs: Tensor) -> Tensor:
        normed: Tensor = self.norm(self.embedding(inputs).flatten(0, 1))
        return self.head(normed).unflatten(0, inputs.shape)


def normed(ranks: Ranks, data: Sequence[Batch], every: bool) -> dict[str, Any]:
    """Train it."""
    torch.manual_seed(0)
    model = Normed()
    options = {"gradient_sync": "every" if every else "last"}
    trained = _train(ranks, model, data, 3, torch.optim.SGD(model.parameters(), lr=0.1), sync_options=options)
    return {
        "results": [result.result for result in trained.results],
        "diverged": diverged_parameters(model, ranks.hosts),
        "batches_seen": int(model.norm.num_batches_tracked),
    }


def wrap(ranks: Ranks, what: str) -> None:
    """Build what must be refused."""
    inner = nn.Linear(2, 2)
    if what == "wrapped":
        DdpGradientSync(DistributedDataParallel(inner, process_group=ranks.gradients), group=ranks.gradients)
    if what == "nested":
        model = nn.ModuleDict({"tower": DistributedDataParallel(inner, process_group=ranks.gradients)})
        DdpGradientSync(model, group=ranks.gradients)
    if what == "static_graph":
        DdpGradientSync(inner, group=ranks.gradients, static_graph=True)
    if what == "device_ids":
        DdpGradientSync(inner, group=ranks.gradients, device_ids=[0])
    if what == "find_unused_parameters":
        DdpGradientSync(inner, group=ranks.gradients, find_unused_parameters=True)
    if what == "sync_batch_norm":
        DdpGradientSync(nn.Sequential(inner, nn.SyncBatchNorm(2)), group=ranks.gradients)
    if what == "frozen":
        DdpGradientSync(inner.requires_grad_(False), group=ranks.gradients)


def planted_divergence(ranks: Ranks, name: str | None) -> list[str]:
    """Change the last bit of one element on the last rank."""
    model = TinyLM(dtype=torch.float32)
    if name is not None and ranks.rank == ranks.world - 1:
        with torch.no_grad():
            bits = model.get_parameter(name).view(torch.int32)
            bits.view(-1)[-1] ^= 1
    return diverged_parameters(model, ranks.hosts)


def zero_of_bad_parameters(ranks: Ranks) -> list[float]:
    """Take part without data with a parameter that is not finite; give its gradient."""
    model = nn.Linear(2, 1)
    model.weight.data.fill_(float("nan"))
    sync = DdpGradientSync(model, group=ranks.gradients)
    assert isinstance(sync.model, DistributedDataParallel)
    sync.model().backward()
    return [] if model.weight.grad is None else model.weight.grad.flatten().tolist()
