"""A model run through torch.compile, and how many graphs it compiled: eager code must not pass for compiled code.

Graphs are counted where Dynamo counts them; one that is met again is none. The optimizer's step is not compiled, and
validation runs the model as it is.
"""

from __future__ import annotations

import logging
from typing import Any

from torch import nn

from bench.errors import BenchError

_LIMIT = ("recompile_limit", "cache_size_limit")
"""Names of Dynamo's limits of graphs for one function, in the warning with which it goes on without compiling."""


class CompileWatch(logging.Handler):
    """Count the graphs that were compiled in this process, and notice when Dynamo gives up."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.gave_up = False
        """Whether Dynamo met its limit of recompilations, after which it runs eager code."""
        logging.getLogger("torch._dynamo.convert_frame").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Look for the one warning that changes what was measured."""
        message = record.getMessage()
        self.gave_up = self.gave_up or any(limit in message for limit in _LIMIT)

    @property
    def graphs(self) -> int:
        """Graphs compiled so far [this process]."""
        from torch._dynamo.utils import counters

        return int(counters["stats"]["unique_graphs"])


def compiled(model: nn.Module, device: str) -> Any:
    """Wrap a model so that its calls are compiled; it keeps its parameters and stays usable as it is.

    Raises:
        BenchError: There is no compiler for what torch generates.
    """
    import torch

    if device == "cpu":
        _require_compiler()
    return torch.compile(model)


def _require_compiler() -> None:
    """See that there is a C++ compiler, which code for a CPU is built with."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        raise BenchError(
            "compile = true needs a C++ compiler for code that runs on a CPU, and none was found. Install g++, or name "
            "one in the environment variable CXX."
        ) from None
