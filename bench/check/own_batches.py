"""Prove the loop on the user's own data and loss: accumulated windows against all their samples in one batch.

The samples are collated once into micro-batches and once, all of a window, into one batch, whose loss is divided by its
own units. Everything is held in float64 on the CPU; layers known to be random or batch-dependent are put to rest.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from bench.check.exchange.lines import Line, failed, unproven
from bench.check.exchange.request import ProofRequest
from bench.check.optimizers import make_optimizer, norm_of
from bench.check.own_cases import CASES, MOST_SAMPLES, TOLERANCE, Case, Found
from bench.check.precision_line import DTYPE_NAMES, MOST_RATIO, PRODUCTS
from bench.check.subject import Subject, TooLarge, put_to_rest, refuse_too_large
from bench.errors import BenchError
from bench.loop import (
    AccumulationLoop,
    Agreement,
    DdpGradientSync,
    GradientSync,
    Precision,
    WindowCounts,
    forward_is_random,
    windows,
)
from bench.loop.switches import set_switches
from bench.loop.window import to_device
from bench.measure.arithmetic import ERROR_LIMITS
from bench.measure.peaks import matmul_precision
from bench.standin import is_standin
from bench.sweep.fields import TrialConfig
from bench.workload.batch_loss import BatchLoss, mean_words
from bench.workload.batches import Data, LaidOut, make_data
from bench.workload.models import make_model
from bench.workload.user_errors import described


def prove_own_batches(
    request: ProofRequest, agreement: Agreement, layers: Callable[[Subject, bool], Line]
) -> list[Line]:
    """Give the checklist of a configuration whose data or loss are the user's own [one rank].

    Args:
        request: What to prove; it holds the configuration.
        agreement: How ranks agree on windows.
        layers: Makes the line on layers that mix or draw.
    """
    deadline_s = time.monotonic() + request.time_limit_s
    assert request.own is not None, "it is of own batches"
    config = TrialConfig.model_validate(request.own)
    try:
        data = make_data(config)
        model = make_model(config, "cpu")
        refuse_too_large(sum(parameter.numel() for parameter in model.parameters()), request.model, "")
    except TooLarge as reason:
        return unproven(str(reason))
    except (MemoryError, KeyboardInterrupt):
        raise
    except BenchError as error:
        return failed(str(error))
    except BaseException as error:
        return failed(described(error))
    try:
        proof = _Proof(config, data, model, agreement, request)
        return proof.lines(deadline_s, layers)
    except BenchError as error:
        return failed(str(error))
    except (RuntimeError, TypeError, ValueError) as error:
        if "dtype" in str(error) or "Double" in str(error) or "Float" in str(error):
            return unproven(
                f"the user's code does not run in float64: {described(error)}. Let what it makes follow the type of "
                "what the model returned, as in weights.to(outputs)"
            )
        return failed(described(error))


class _Proof:
    def __init__(
        self, config: TrialConfig, data: Data, model: nn.Module, agreement: Agreement, request: ProofRequest
    ) -> None:
        self._config, self._data, self._agreement, self._request = config, data, agreement, request
        self._model = model
        source = data.source
        count = min(MOST_SAMPLES, source.window_size(0, MOST_SAMPLES))
        self._samples = source.window(0, count, range(count))
        assert data.make is not None, "batches are the user's own"
        self._make = data.make
        self._loss_sum = BatchLoss(_loss_of(data), model, are_tokens=config.data.factory is None)

    def fresh(self) -> nn.Module:
        """Copy the model in float64, in training mode, with random and batch-dependent layers in eval mode."""
        model = copy.deepcopy(self._model).double().train()
        put_to_rest(model)
        return model

    def lines(self, deadline_s: float, layers: Callable[[Subject, bool], Line]) -> list[Line]:
        """Run the cases and read the checklist."""
        subject = Subject(self._model, 0)
        first = self._batches([self._samples[:2]], torch.float64)[0]
        is_random = forward_is_random(self._loss_sum, self.fresh(), first)
        found, done = Found(), 0
        for case in CASES:
            if sum(case.sizes) > len(self._samples):
                continue
            if time.monotonic() > deadline_s:
                break
            self._run(case, found)
            done += 1
        if not done:
            return unproven(f"the data have {len(self._samples)} samples, or the time limit was used up")
        lines = self._read(found, done)
        if is_random:
            lines = [Line(one.name, "NOT PROVEN", one.figure, "the forward pass is random") for one in lines]
        if self._agreement.world_size == 1:
            lines.append(self._precision(found) if not is_random else _unknown("the forward pass is random"))
        ranks = "one rank" if self._agreement.world_size == 1 else f"{self._agreement.world_size} ranks"
        words = f"{done} of {len(CASES)} cases finished on {ranks}, with samples of the user's own data"
        return [Line("runs", "PASS", float(done), words), *lines, layers(subject, is_random)]

    def _batches(self, chunks: Sequence[Sequence[Any]], dtype: torch.dtype) -> list[LaidOut]:
        return [_in(dtype, batch) for batch in self._make(chunks, False)]

    def _chunks(self, case: Case) -> list[list[Any]]:
        left = iter(self._samples)
        return [[next(left) for _ in range(size)] for size in case.sizes]

    def _run(self, case: Case, found: Found) -> None:
        """Train on one case, and hold every update against its samples in one batch."""
        world, rank = self._agreement.world_size, self._agreement.rank
        steps = -(-case.accumulation_steps // world)
        chunks = self._chunks(case)
        mine = self._batches(chunks[rank::world], torch.float64)
        planned = [chunks[start : start + steps * world] for start in range(0, len(chunks), steps * world)]
        model, reference = self.fresh(), self.fresh()
        optimizer, right = make_optimizer(case.optimizer, model), make_optimizer(case.optimizer, reference)
        given: list[Tensor] = []

        def before_step(*_: Any) -> None:
            given[:] = [_gradient(parameter).clone() for parameter in model.parameters()]

        optimizer.register_step_pre_hook(before_step)
        loop = self._loop(self._sync(model), optimizer, _float64(), "cpu")
        stream = windows(mine, steps, _count, agreement=self._agreement, **self._window_options())
        for number, window in enumerate(stream):
            with torch.no_grad():
                for its, now in zip(reference.parameters(), model.parameters(), strict=True):
                    its.copy_(now)
            self._set_whole_gradients(reference, [sample for chunk in planned[number] for sample in chunk])
            expected = [_gradient(parameter).clone() for parameter in reference.parameters()]
            before = [parameter.detach().clone() for parameter in reference.parameters()]
            right.step()
            result = loop.run_window(window)
            self._compare(found, case, model, reference, given, expected, before)
            counts, samples = result.plan.all_ranks, sum(len(chunk) for chunk in planned[number])
            if (counts.sequences, counts.micro_batches) != (samples, len(planned[number])):
                found.wrong_counts.append(f"{counts.sequences} of {samples} samples, in {case.name}")
            found.updates += 1
            found.samples += samples

    def _compare(
        self,
        found: Found,
        case: Case,
        model: nn.Module,
        reference: nn.Module,
        given: Sequence[Tensor],
        expected: Sequence[Tensor],
        before: Sequence[Tensor],
    ) -> None:
        norm = norm_of(list(expected))
        error = norm_of([mine - its for mine, its in zip(given, expected, strict=True)]) / (norm or 1.0)
        after, right = list(model.parameters()), list(reference.parameters())
        change = norm_of([its - was for its, was in zip(right, before, strict=True)])
        updated = norm_of([mine - its for mine, its in zip(after, right, strict=True)]) / (change or 1.0)
        if not error <= found.gradient_error:  # a nan is larger
            found.gradient_error, found.where = error if math.isfinite(error) else math.inf, case.name
        found.update_error = max(found.update_error, updated if math.isfinite(updated) else math.inf)
        found.with_gradient |= {name for name, parameter in reference.named_parameters() if parameter.grad is not None}

    def _read(self, found: Found, done: int) -> list[Line]:
        error = found.gradient_error
        if error <= TOLERANCE:
            words = f"relative error at most {error:.1e}, in float64; limit {TOLERANCE:.0e}"
            weighting = Line("weighting", "PASS", error, words)
            is_right = found.update_error <= TOLERANCE
            words = (
                f"relative error {found.update_error:.1e} at most, SGD with momentum and AdamW (eps 1e-4) in float64"
            )
            update = Line("update", "PASS" if is_right else "FAIL", found.update_error, words)
        else:
            words = f"relative error {error:.3g}, in {found.where}{self._why_wrong()}"
            weighting = Line("weighting", "FAIL", error, words)
            update = Line("update", "NOT PROVEN", None, "the gradients it starts from are wrong already")
        counted = "; ".join(found.wrong_counts[:1])
        told = f"{found.samples} samples in {found.updates} updates of {done} cases"
        examples = Line("examples", "FAIL" if counted else "PASS", float(len(found.wrong_counts)), counted or told)
        names = [name for name, parameter in self._model.named_parameters() if parameter.requires_grad]
        without = [name for name in names if name not in found.with_gradient]
        some = f"{len(names) - len(without)} of {len(names)} received one"
        without_words = (
            f"no gradient, or one of zero, in {', '.join(without[:4])}: use them in the loss, or freeze them"
        )
        parameters = Line(
            "parameters",
            "FAIL" if without else "PASS",
            float(len(without)),
            f"{without_words}; {some}" if without else some,
        )
        return [examples, weighting, update, parameters]

    def _why_wrong(self) -> str:
        """Say what is known to make a gradient wrong: a loss that is a mean."""
        two = self._samples[:2]
        if len(two) < 2:
            return ""
        model = self.fresh().eval()
        with torch.no_grad():
            batches = [batch.tensors for batch in self._batches([two[:1], two[1:], two], torch.float64)]
            words = mean_words(
                self._loss_sum.loss, lambda batch: self._loss_sum.outputs(model, batch), batches[:2], batches[2]
            )
        return f": {words}" if words else "; samples that are padded otherwise in a larger batch can be the cause"

    def _precision(self, found: Found) -> Line:
        """Accumulate one window in the configured precision, from the initial weights [one rank]."""
        request = self._request
        if request.device == "cuda" and is_standin():
            return _unknown("a stand-in GPU computes no values, so none can be wrong")
        if found.gradient_error > TOLERANCE:
            return _unknown("the gradient is wrong in float64 already")
        set_switches(cast(Any, request.amp_mode))
        chunks = self._chunks(CASES[0])[:2]
        if sum(map(len, chunks)) > len(self._samples):
            return _unknown(f"the data have only {len(self._samples)} samples")
        whole = [sample for chunk in chunks for sample in chunk]
        exact = self._whole_gradients(self.fresh(), whole, torch.float64, _float64(), "cpu")
        dtype = next(parameter.dtype for parameter in self._model.parameters() if parameter.is_floating_point())

        def copied() -> nn.Module:
            model = copy.deepcopy(self._model).to(request.device).train()
            put_to_rest(model)
            return model

        try:
            precision = self._configured()
            own = self._whole_gradients(copied(), whole, torch.float32, precision, request.device)
            model, given = copied(), cast(list[Tensor], [])
            optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.0)
            optimizer.register_step_pre_hook(
                lambda *_: given.extend(_gradient(p).double().cpu() for p in model.parameters())
            )
            loop = self._loop(GradientSync(model), optimizer, self._configured(), request.device)
            for window in windows(self._batches(chunks, torch.float32), 2, _count, agreement=self._agreement):
                loop.run_window(window)
        except ValueError as refused:  # a mode that the loop refuses for this model, such as fp16 with fp16 weights
            return Line("precision", "FAIL", None, str(refused))
        norm = norm_of(exact) or 1.0
        error = norm_of([mine - its for mine, its in zip(given, exact, strict=True)]) / norm
        usual = norm_of([mine - its for mine, its in zip(own, exact, strict=True)]) / norm
        limit = ERROR_LIMITS[matmul_precision(cast(Any, request.amp_mode), DTYPE_NAMES.get(dtype, "fp32"))]
        is_right = error <= max(MOST_RATIO * usual, limit) and error <= PRODUCTS * max(limit, usual)
        words = f"error {error:.1e} against {usual:.1e} of one batch, of the gradient's norm, on {request.device}"
        return Line("precision", "PASS" if is_right else "FAIL", error, words)

    def _configured(self) -> Precision:
        options = {"init_scale": 1024.0} if self._request.amp_mode == "fp16" else {}
        return Precision(cast(Any, self._request.amp_mode), self._request.device, **options)

    def _whole_gradients(
        self, model: nn.Module, samples: list[Any], dtype: torch.dtype, precision: Precision, device: str
    ) -> list[Tensor]:
        self._set_whole_gradients(model, samples, dtype, precision, device)
        return [_gradient(parameter).double().cpu() for parameter in model.parameters()]

    def _set_whole_gradients(
        self,
        model: nn.Module,
        samples: list[Any],
        dtype: torch.dtype = torch.float64,
        precision: Precision | None = None,
        device: str = "cpu",
    ) -> None:
        """Put the gradients of one batch of these samples into `.grad`."""
        for parameter in model.parameters():
            parameter.grad = None
        (batch,) = self._batches([samples], dtype)
        with (precision or _float64()).autocast():
            loss = self._loss_sum(model, to_device(batch, torch.device(device)))
        (loss / batch.unit_sum).backward()  # type: ignore[no-untyped-call]

    def _loop(self, sync: GradientSync, optimizer: Optimizer, precision: Precision, device: str) -> AccumulationLoop:
        return AccumulationLoop(sync, optimizer, self._loss_sum, precision, torch.device(device))

    def _sync(self, model: nn.Module) -> GradientSync:
        if self._agreement.world_size == 1:
            return GradientSync(model)
        return DdpGradientSync(model, "every" if self._request.gradient_sync == "every" else "last")

    def _window_options(self) -> dict[str, Any]:
        if self._request.window_mode != "streamed":
            return {}
        return {"window_mode": "streamed", "nominal_units": 3.0 * (self._data.units_per_sequence or 1.0)}


def _loss_of(data: Data) -> Any:
    assert data.loss is not None, "batches are the user's own"
    return data.loss


def _unknown(words: str) -> Line:
    return Line("precision", "NOT PROVEN", None, words)


def _float64() -> Precision:
    precision = Precision("fp32", "cpu")
    precision.autocast_dtype = None
    return precision


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.detach()


def _in(dtype: torch.dtype, batch: Any) -> Any:
    """Give a batch with its floating tensors in this type."""
    tensors = {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in batch.tensors.items()
    }
    return replace(batch, tensors=tensors)


def _count(batch: LaidOut) -> WindowCounts:
    return WindowCounts(1, batch.sequences, batch.valid_targets, batch.token_slots, batch.unit_sum)
