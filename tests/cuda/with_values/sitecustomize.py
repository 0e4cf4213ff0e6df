"""On PYTHONPATH: run one function of the product, named by WITH_VALUES as `module:function`, under `Values`.

So the product itself, ranks forked from its own server included, computes right values on the stand-in GPU.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

_MODULE, _, _FUNCTION = os.environ.get("WITH_VALUES", "").partition(":")


class _WrapsOne(importlib.abc.MetaPathFinder):
    """Wrap the function when its module is imported; find nothing else."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_wrap(module: Any) -> None:
            execute(module)
            setattr(module, _FUNCTION, _with_values(getattr(module, _FUNCTION)))

        spec.loader.exec_module = execute_and_wrap  # type: ignore[method-assign]
        return spec


def _with_values(function: Any) -> Any:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
        from tests.cuda.values import Values

        with Values():
            return function(*args, **kwargs)

    return wrapped


if _MODULE:
    sys.meta_path.insert(0, _WrapsOne())
