"""CUDA graphs and compiled kernels go through the stand-in as through a GPU."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cuda.on_standin import run

pytestmark = pytest.mark.cuda


def _graph() -> str:
    import torch

    layer, inputs = torch.nn.Linear(64, 64, device="cuda"), torch.ones(8, 64, device="cuda")
    layer(inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layer(inputs)
        try:
            torch.cuda.current_stream().synchronize()
        except RuntimeError as error:
            said = str(error).splitlines()[0]
    graph.replay()
    torch.cuda.synchronize()
    return said


def test_a_captured_graph_replays_and_a_wait_inside_is_refused() -> None:
    assert run(_graph) == "CUDA error: operation not permitted when stream is capturing"


def _compiled() -> dict[str, Any]:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)).cuda()
    torch.compile(model)(torch.ones(8, 64, device="cuda")).sum().backward()
    torch.cuda.synchronize()
    return {"gradients": sum(parameter.grad is not None for parameter in model.parameters())}


def test_triton_compiles_for_the_stand_in(tmp_path: Any) -> None:
    folders = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"), "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    trace = tmp_path / "trace"
    assert run(_compiled, variables=folders, trace=trace) == {"gradients": 4}
    assert "launch triton_" in trace.read_text()
