"""The user's own functions by name, `package.module:function`: imported in a rank, never by the driver. No torch."""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.workload.user_errors import NoSuchNameError, described


def look_in_current_folder() -> None:
    """Let modules be found from the folder that the command was called in, as `python -m` finds them [this process]."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def load(reference: str, what: str) -> Any:
    """Import `package.module:function`.

    Raises:
        NoSuchNameError: There is no such module, or it has no such name.
        BenchError: The module cannot be imported; says why, in the words of the first real error.
    """
    module_name, colon, attribute = reference.partition(":")
    if not colon or not module_name or not attribute:
        raise NoSuchNameError(f"{what} = {reference} is not of the form package.module:function.")
    try:
        module = importlib.import_module(module_name)
    except BaseException as error:  # the user's module may raise anything when it is imported
        if isinstance(error, KeyboardInterrupt):
            raise
        problem = f"{what} = {reference}: {module_name} cannot be imported: {described(error)}"
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module_name}.".startswith(f"{missing}."):
            where = f"{problem}. Modules are looked for from {Path.cwd()} on."
            raise NoSuchNameError(where) from None
        raise BenchError(problem) from error
    if not hasattr(module, attribute):
        near = difflib.get_close_matches(attribute, vars(module), n=1)
        meant = f" Did you mean {module_name}:{near[0]}?" if near else ""
        raise NoSuchNameError(f"{what} = {reference}: {module_name} has no {attribute}.{meant}")
    return getattr(module, attribute)


def load_function(reference: str, what: str) -> Callable[..., Any]:
    """Import `package.module:function`, which must be something that can be called.

    Raises:
        BenchError: It cannot be imported, or not be called.
    """
    found = load(reference, what)
    if not callable(found):
        raise BenchError(f"{what} = {reference} is a {type(found).__name__}, not a function.")
    return found  # type: ignore[no-any-return]


def call(function: Callable[..., Any], what: str, given: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Call the user's function; what it raises itself is passed on as it is, since it may be out of memory.

    Args:
        function: To call.
        what: How a message calls it, such as `model.factory = mine:build`.
        given: Arguments by position.
        named: Arguments by name.

    Raises:
        BenchError: It does not take these arguments; says what it takes.
    """
    try:
        taken = inspect.signature(function)
    except (TypeError, ValueError):  # of C code, which has none
        return function(*given, **named)
    try:
        taken.bind(*given, **named)
    except TypeError as error:
        passed = ", ".join([*(["..."] * len(given)), *(f"{name}={value!r}" for name, value in named.items())])
        raise BenchError(
            f"{what} takes {taken}, and is called with ({passed}): {error}. Change the function, or its args."
        ) from None
    return function(*given, **named)


def first_name(function: Callable[..., Any]) -> str | None:
    """Name the first argument of a function; null where it says none."""
    try:
        return next(iter(inspect.signature(function).parameters), None)
    except (TypeError, ValueError):
        return None
