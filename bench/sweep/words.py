"""Faults in words a user can act on: what is wrong with a value, its limit, and what to do.

pydantic finds the faults of single values; its own wording is for programmers and is never shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from bench.sweep.faults import Fault, Location
from bench.sweep.fields import FORMAT
from bench.sweep.keys import closest, unknown_key
from bench.sweep.trial import show_value

_OTHER_VALUES = {
    "off": "fp32",
    "no": "fp32",
    "none": "fp32",
    "float32": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "adam": "adamw",
    "gpu": "cuda",
    "gpt2": "gpt2-124m",
    "gpt2-small": "gpt2-124m",
    "gpt2-medium": "gpt2-350m",
}
"""What other tools call our choices."""

_EXAMPLES = {
    "format": f"format: {FORMAT}",
    "name": "name: my-sweep",
    "axes": "axes: {micro_batch_size: [1, 2, 4]}",
    "preset": "preset: gpt2-mini",
    "when": "when: {micro_batch_size: 64}",
    "reason": 'reason: "does not fit"',
}
"""An example line for each required key."""


def plain_location(location: Location) -> Location:
    """Leave out the mark with which pydantic says that a key, not its value, is wrong."""
    return tuple(part for part in location if part != "[key]")


def from_pydantic(error: Mapping[str, Any], known: Iterable[str] = ()) -> Fault:
    """Put one pydantic error into words. `known` are the keys allowed where an unknown one stands."""
    location = plain_location(error["loc"])
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return unknown_key(location, known)
    if kind == "invalid_key" or "[key]" in error["loc"]:
        location = (*location[:-1], str(location[-1]))
        return Fault(location, "is not a name", "Keys are words, such as micro_batch_size", shows_value=False)
    if kind == "missing":
        return Fault(location, "is missing", f"Add {_EXAMPLES.get(str(location[-1]), location[-1])}", shows_value=False)
    problem, way_out = _value_in_words(kind, value, context, str(location[-1]) if location else "")
    return Fault(location, problem, way_out, value)


def _value_in_words(kind: str, value: Any, context: Mapping[str, Any], key: str) -> tuple[str, str]:
    if kind in {"literal_error", "unknown_choice"}:
        return _choice_in_words(value, context, key)
    if kind in _WANTED:
        return _type_in_words(_WANTED[kind], value, key)
    if kind in _LIMITS:
        name, words, way_out = _LIMITS[kind]
        limit = f"{context[name]:,.15g}"
        return f"is out of range: it must be {words.format(limit)}", way_out.format(limit)
    if kind == "finite_number":
        return "is not a finite number", "Write an ordinary number"
    if kind in {"too_short", "string_too_short"}:
        return "is empty", f"Add at least one entry, or remove {key}"
    if kind == "string_pattern_mismatch":
        if key == "name":
            return (
                "cannot be a folder's name",
                "Use letters, digits, dot, underscore and hyphen only, a letter or digit first, 100 at most",
            )
        return "is empty", "Say why, in a sentence"
    if kind in _OF_FUNCTIONS:
        return _OF_FUNCTIONS[kind]
    return "is not accepted here", f"See the schema: bench schema ({kind})"


_OF_FUNCTIONS = {
    "not_a_reference": (
        "is not of the form package.module:function",
        "Write the module as Python imports it from the current folder, a colon and the function, such as mine:build",
    ),
    "no_model_type": (
        "has no model_type",
        "Add it, such as {model_type: llama}: it says which configuration of transformers this is",
    ),
    "not_hf": (
        "is neither a path nor a section of settings",
        "Write path/to/config.json, or settings such as {model_type: llama, hidden_size: 256}",
    ),
    "not_plain": (
        "holds what is no plain value",
        "Write text, numbers, true, false, null, lists and sections only",
    ),
    "not_arguments": ("has keys that are no names of arguments", "Write {name: value}, as in {width: 64}"),
}

_LIMITS = {
    "greater_than": ("gt", "more than {}", "Use a larger number"),
    "greater_than_equal": ("ge", "at least {}", "Use {} or more"),
    "less_than": ("lt", "less than {}", "Use a smaller number"),
    "less_than_equal": ("le", "at most {}", "Use {} or less"),
}

_WANTED = {
    "int_type": "a whole number",
    "int_parsing_size": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a section of keys",
    "model_type": "a section of keys",
}

_SAMPLES = {"a whole number": "16", "a number": "0.1", "text": '"..."', "true or false": "true"}


def _type_in_words(wanted: str, value: Any, key: str) -> tuple[str, str]:
    """Say what a value is, what is wanted, and how to write that."""
    problem = f"is {_kind_of(value)}, not {wanted}"
    if wanted == "a section of keys":
        way_out = f"Write {key}: {_SECTION_SAMPLES.get(key, '{...}')}"
        return problem, way_out + (", or remove it" if value is None else "")
    if key == "skip":
        return problem, "Write a list of rules: [{when: {micro_batch_size: 64}, reason: ...}]"
    if wanted == "a list":
        return problem, f"Write [{show_value(value)}]" if _is_scalar(value) else "Write the values as a list: [1, 2, 4]"
    if isinstance(value, str) and wanted in {"a whole number", "a number"} and _number(value) is not None:
        return f"is text because of its quotes, not {wanted}", f"Remove the quotes: {value.strip()}"
    if isinstance(value, str) and wanted == "true or false":
        return problem, "Write true or false, without quotes (yes, no, on and off are text in YAML 1.2)"
    if isinstance(value, float) and wanted == "a whole number" and value.is_integer():
        return "has a fraction or an exponent, but must be a whole number", f"Write {value:.0f}"
    if isinstance(value, list):
        return f"{problem}: one value is needed here", f"Put the list under axes: {key}: {show_value(value)}"
    if wanted == "text" and _is_scalar(value):
        return problem, f'Put quotes round it: "{show_value(value)}"'
    way_out = f"Write {wanted}, such as {_SAMPLES.get(wanted, wanted)}"
    if isinstance(value, str) and key.endswith("_s"):
        way_out = "Write seconds as a plain number, without a unit"
    return problem, f"{way_out}, or remove it" if value is None else way_out


_SECTION_SAMPLES = {
    "base": "{global_batch_size: 32}",
    "model": "{preset: gpt2-mini}",
    "data": "{corpus: stdlib, rows: packed}",
    "optimizer": "{name: adamw, lr: 3.0e-4}",
    "schedule": "{name: constant}",
    "axes": "{micro_batch_size: [1, 2, 4]}",
    "measure": "{warmup_updates: 3, updates: 20}",
    "when": "{micro_batch_size: 64}",
    "synthetic": "{mean_tokens: 256}",
}


def _choice_in_words(value: Any, context: Mapping[str, Any], key: str) -> tuple[str, str]:
    choices = context["choices"] if "choices" in context else re.findall(r"'([^']*)'", context["expected"])
    if isinstance(value, list):
        return (
            f"is a list: one of {', '.join(choices)} is needed here",
            f"Put the list under axes: {key}: {show_value(value)}",
        )
    text = str(value).lower()
    ours = _OTHER_VALUES.get(text)
    meant = ours if ours in choices else closest(text, choices)
    problem = f"is not one of {', '.join(choices)}"
    if meant is not None:
        return problem, f"Did you mean {meant}?"
    own = ", or a function of your own: factory: package.module:function" if key == "preset" else ""
    return problem, f"Use {choices[0]}" if len(choices) == 1 else f"Use one of these{own}"


def _kind_of(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "a boolean"
    for types, words in (
        (int | float, "a number"),
        (str, "text"),
        (list, "a list"),
        (dict, "a section of keys"),
        (date, "a date"),
    ):
        if isinstance(value, types):
            return words
    return "something else"


def _is_scalar(value: Any) -> bool:
    return value is not None and not isinstance(value, list | dict)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
