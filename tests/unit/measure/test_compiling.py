"""Compiled graphs are counted by the part of the launch they were compiled in; eager code does not pass for compiled.

Dynamo runs here with its backend `eager`: graphs are the same, and no compiler takes seconds for each.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo

from bench.drive.recorded_launches import COMPILE_S, limits_of
from bench.errors import BenchError
from bench.measure.compiling import CompileWatch, compiled
from bench.rank.columns import facts_before, measured_columns, train_losses
from bench.rank.protocol import Observations, run_protocol
from bench.rank.witnessed import witness_updates
from bench.rank.witnessed_columns import witnessed_columns, witnessed_rows
from bench.rank.workbench import Workbench
from bench.sweep.fields import MeasureSpec, TrialConfig
from tests.unit.rank.test_protocol import build

MEASURE = {"warmup_updates": 1, "updates": 3, "quality_updates": 2}


@pytest.fixture(autouse=True)
def dynamo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


def observed(**config: Any) -> tuple[Workbench, Observations, dict[str, Any]]:
    bench = build(MEASURE, **config)
    seen = run_protocol(bench)
    return bench, seen, measured_columns(bench, seen, train_losses(bench, seen))


@pytest.mark.slow
def test_one_shape_is_compiled_once_in_the_first_update() -> None:
    """The model is the same, and so is its loss."""
    losses = {}
    for compile_ in (False, True):
        _, _, columns = observed(compile=compile_, data={"corpus": "stdlib"})
        losses[compile_] = columns["final_train_loss"]
        names = ("compiled_graphs", "recompiled_graphs", "recompiled_graphs_timed")
        assert [columns[name] for name in names] == ([1, 0, 0] if compile_ else [None, None, None])
        assert not {"recompiled", "not_compiled"} & {*columns["flags"]}
    assert losses[True] == pytest.approx(losses[False], rel=1e-6)


@pytest.mark.slow
def test_another_shape_is_compiled_again_and_counted_where_it_was() -> None:
    """https://github.com/Lightning-AI/litgpt/pull/794 : rows of other widths."""
    _, seen, columns = observed(compile=True)  # ragged rows
    assert seen.graphs is not None
    assert columns["compiled_graphs"] >= 1
    assert columns["recompiled_graphs"] == sum(seen.graphs.values()) - columns["compiled_graphs"]
    assert ("recompiled" in columns["flags"]) == (columns["recompiled_graphs_timed"] > 0)


@pytest.mark.slow
def test_a_graph_of_the_timed_part_is_a_flag() -> None:
    """Its seconds are in the figure."""
    bench = build(MEASURE, compile=True, data={"corpus": "stdlib"})
    plain, forwards = bench.loop.loss_sum, []

    def shorter(model: torch.nn.Module, micro_batch: Any) -> torch.Tensor:
        forwards.extend([1] * (model is bench.loop.sync.model))  # validation runs the model as it is
        total: torch.Tensor = plain(model, micro_batch)
        if len(forwards) == 11:  # of the timed part: 5 updates of 2 micro-batches come before
            model(micro_batch.inputs[:, :5])
        return total

    bench.loop.loss_sum = shorter
    columns = measured_columns(bench, seen := run_protocol(bench), train_losses(bench, seen))
    assert (columns["recompiled_graphs_timed"], "recompiled" in columns["flags"]) == (1, True)


@pytest.mark.slow
def test_eager_code_is_not_called_compiled() -> None:
    """https://github.com/NVIDIA/TensorRT-LLM/issues/6142 : the limit is met, and torch goes on without a word to us."""
    limit = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"
    with torch._dynamo.config.patch({limit: 1, "automatic_dynamic_shapes": False}):
        _, _, columns = observed(compile=True)
    assert "not_compiled" in columns["flags"]


@pytest.mark.slow
def test_nothing_compiled_is_a_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where Dynamo is switched off by a variable that somebody left in the environment."""
    monkeypatch.setattr(torch, "compile", lambda model: model)
    _, _, columns = observed(compile=True, data={"corpus": "stdlib"})
    assert (columns["compiled_graphs"], "not_compiled" in columns["flags"]) == (0, True)


def test_other_warnings_are_no_limit() -> None:
    """Only the one that says that eager code runs."""
    watch = CompileWatch()
    logging.getLogger("torch._dynamo.convert_frame").warning("something else")
    assert not watch.gave_up


@pytest.mark.slow
def test_compiled_model_is_not_witnessed() -> None:
    """Under a mode in the dispatcher torch runs it as eager code: the peak would be that of another program."""
    bench, _, columns = observed(compile=True, data={"corpus": "stdlib"})
    told = witness_updates(bench, is_shortened=False)
    after = facts_before(bench) | columns | witnessed_columns(bench, told, columns)
    assert (after["peak_allocated_bytes"], after["witnessed_updates"]) == (None, 0)
    assert "not_witnessed" not in after["flags"]
    assert [row["peak_allocated_bytes"] for row in witnessed_rows(told)] == [None]


def test_missing_compiler_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is trained."""
    from torch._inductor import cpp_builder
    from torch._inductor.exc import InvalidCxxCompiler

    def none() -> str:
        raise InvalidCxxCompiler

    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", none)
    with pytest.raises(BenchError, match="needs a C\\+\\+ compiler"):
        compiled(torch.nn.Linear(1, 1), "cpu")


def test_limits_leave_time_to_compile_unless_they_are_given() -> None:
    """A limit of the file stands."""
    eager, compiling = TrialConfig(), TrialConfig(compile=True)
    usual = limits_of(MeasureSpec(), eager, None)
    assert (usual.start_s, usual.stall_s) == (120.0, 60.0)
    longer = limits_of(MeasureSpec(), compiling, None)
    assert (longer.start_s, longer.stall_s) == (COMPILE_S, COMPILE_S)
    given = limits_of(MeasureSpec(start_timeout_s=30.0), compiling, None)
    assert (given.start_s, given.stall_s) == (30.0, COMPILE_S)
