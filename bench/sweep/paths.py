"""Dotted names of settings, such as data.rows: what they stand for, and how they read and replace values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from bench.sweep.fields import TrialConfig


@cache
def field_paths() -> dict[str, FieldInfo]:
    """List every setting of a trial by its dotted name, sections before what is in them."""
    return dict(_walk(TrialConfig, ""))


def _walk(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        yield prefix + name, field
        inner = section_of(field)
        if inner is not None:
            yield from _walk(inner, f"{prefix}{name}.")


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Find the class of a field that is a section with fields of its own; null for a plain value."""
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def value_at(config: BaseModel, key: str) -> Any:
    """Look a setting up by its dotted name; null below a section that is not given."""
    part: Any = config
    for name in key.split("."):
        part = getattr(part, name, None)
    return part


def with_settings(base: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Put settings with dotted names over nested ones; a section replaces the whole section, then its fields follow."""
    result = dict(base)
    for name in sorted(settings, key=lambda dotted: dotted.count(".")):
        section = result
        *parents, last = name.split(".")
        for parent in parents:
            section[parent] = dict(section.get(parent) or {})
            section = section[parent]
        section[last] = settings[name]
    return result


def overlap(one: str, other: str) -> bool:
    """Tell whether two dotted names are equal or one is a section that holds the other."""
    return one == other or one.startswith(other + ".") or other.startswith(one + ".")
