"""Which files the user's own functions are made of, told without running any of them. No torch.

A function's module counts, and what it imports from the folder that this module, or its package, lies in. Of an
installed package only the module itself does: its other files are not the user's to edit between runs.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

_INSTALLED = tuple(
    Path(folder).resolve()
    for name, folder in sysconfig.get_paths().items()
    if name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def own_code_hash(references: Iterable[str | None]) -> str | None:
    """Hash the files of functions, `package.module:function`: 16 hexadecimal digits; null without any.

    Equal while no file changes, wherever the folder lies. What cannot be found hashes as absent: whoever runs it says
    so in words.
    """
    modules = sorted({reference.partition(":")[0] for reference in references if reference is not None})
    if not modules:
        return None
    digest = hashlib.sha256()
    for module in modules:
        digest.update(f"{module}\n".encode())
        for name, path in sorted(own_files(module).items()):
            digest.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def own_files(module: str) -> dict[str, Path]:
    """List a module's file and those that it imports from the same folder, by dotted name."""
    found: dict[str, Path] = {}
    waiting = [module]
    root = _folder_of(module)
    while waiting and root is not None:
        name = waiting.pop()
        for part in _with_parents(name):
            path = _find(part)
            if part in found or path is None or not path.is_relative_to(root):
                continue
            found[part] = path
            waiting += [] if _is_installed(path) else _imported(part, path)
    return found


def _folder_of(module: str) -> Path | None:
    """Find the folder that the user's code lies in: that of a module by itself, or of its whole package."""
    path = _find(module.partition(".")[0])
    return None if path is None else path.parent


def _is_installed(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in _INSTALLED)


def _with_parents(name: str) -> list[str]:
    """List a dotted name's packages before it: Python runs these too."""
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]


def _find(name: str) -> Path | None:
    """Find a module's file as Python would from the current folder, without importing anything."""
    spec: ModuleSpec | None = None
    path = [str(Path.cwd()), *sys.path]
    for part in _with_parents(name):
        try:
            spec = PathFinder.find_spec(part, path)
            if spec is None and "." not in part:
                spec = importlib.util.find_spec(part)  # finders of editable installs; a name without a dot runs nothing
        except (ImportError, ValueError, KeyError, AttributeError):  # as of namespace packages nobody imported
            return None
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or [])
    if spec is None or spec.origin is None or not spec.has_location:
        return None
    file = Path(spec.origin)
    return file.resolve() if file.suffix == ".py" and file.is_file() else None


def _imported(name: str, path: Path) -> Iterator[str]:
    """Read which modules a file imports, anywhere in it."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return  # importing it will say so
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            if base:
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names)
