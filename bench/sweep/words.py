"""Faults put in words a person can act on: what is wrong with a value, its limit, and the way out.

pydantic finds the faults of single values; its own wording is for programmers and never shown.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from bench.sweep.fields import FORMAT, MeasureSpec, SkipRule, SweepSpec
from bench.sweep.paths import field_paths
from bench.sweep.trial import show_value

Location = tuple[str | int, ...]
"""Keys and list positions from the top of the file down."""

_OTHER_NAMES = {
    "accumulation": "accumulation_steps",
    "gradient_accumulation_steps": "accumulation_steps",
    "grad_accum_steps": "accumulation_steps",
    "amp": "amp_mode",
    "precision": "amp_mode",
    "mixed_precision": "amp_mode",
    "per_device_train_batch_size": "micro_batch_size",
    "train_batch_size": "global_batch_size",
    "block_size": "seq_len",
    "sequence_length": "seq_len",
    "max_length": "seq_len",
    "dtype": "param_dtype",
    "learning_rate": "optimizer.lr",
    "warmup_steps": "schedule.lr_warmup_updates",
    "total_steps": "schedule.total_updates",
    "max_grad_norm": "clip_norm",
    "grad_clip": "clip_norm",
    "gradient_checkpointing": "activation_checkpointing",
    "gpus": "world_size",
    "num_gpus": "world_size",
    "nproc_per_node": "world_size",
    "timeout": "timeout_s",
    "repeats": "rounds",
    "timed_updates": "updates",
}
"""What other tools call our fields: a hint when no name of ours is close."""

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
"""A line to write for each key that must be there."""


@dataclass(frozen=True)
class Fault:
    """Hold one mistake: where it is, what is wrong, and what to do."""

    location: Location
    """The key or list item it is about; for a missing key, where it should be."""
    problem: str
    """Clause that follows "key = value"."""
    way_out: str
    """What to do, as a sentence without its full stop."""
    value: Any = None
    """Value found there."""
    shows_value: bool = True
    """Whether the value helps to see the fault."""

    def sentence(self, name: str | None = None) -> str:
        """Write the fault: name = value, problem, way out. `name` defaults to the dotted location."""
        shown = show_value(self.value)
        shown = shown if len(shown) <= 70 else shown[:67] + "..."
        subject = dotted(self.location) if name is None else name
        start = f"{subject} = {shown} {self.problem}" if self.shows_value else f"{subject} {self.problem}"
        return f"{start.strip()}. {self.way_out}" + ("" if self.way_out.endswith("?") else ".")


def dotted(location: Location) -> str:
    """Write a location as base.data.rows or axes.amp_mode[2]."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def closest(word: str, choices: Iterable[str]) -> str | None:
    """Find the choice that was probably meant; null when none is close."""
    by_lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def unknown_key(location: Location, known: Iterable[str]) -> Fault:
    """Say that a key is unknown, and which key was probably meant."""
    return Fault(
        location, "is not a known key", _key_advice(str(location[-1]), tuple(known), location), shows_value=False
    )


def _key_advice(key: str, known: tuple[str, ...], location: Location) -> str:
    if key in field_paths() and location[0] == "base":
        *sections, last = key.split(".")
        return "Write it nested: " + ": {".join([*sections, f"{last}: ..."]) + "}" * len(sections)
    meant = _meant(key, known) or _meant(key, _places())
    if meant is not None:
        return f"Did you mean {meant}?"
    if len(known) <= 20:
        return f"Known here: {', '.join(known)}"
    return "Any field of base can be an axis, such as micro_batch_size, amp_mode or data.rows"


def _meant(key: str, known: Iterable[str]) -> str | None:
    """Find the name that was probably meant: by what other tools call it, then by its spelling."""
    by_last = {name.rsplit(".", 1)[-1]: name for name in known}
    ours = _OTHER_NAMES.get(key.lower().replace("-", "_"))
    near = closest(key, [last for last in by_last if last not in _TOO_COMMON or last in by_last.values()])
    return next((name for name in known if ours == name.removeprefix("base.")), None) or by_last.get(near or "")


_TOO_COMMON = {"preset", "name", "unit"}
"""Keys of several sections: a hint at another section would be a guess."""


def _places() -> list[str]:
    """List every key of a sweep file by its dotted name."""
    return [
        *(f"measure.{name}" for name in MeasureSpec.model_fields),
        *(f"base.{name}" for name in field_paths()),
        *SweepSpec.model_fields,
    ]


def from_pydantic(error: Mapping[str, Any], known: Iterable[str] = ()) -> Fault:
    """Put one pydantic error into words. `known` are the keys allowed where an unknown one stands."""
    location = tuple(part for part in error["loc"] if part != "[key]")
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return unknown_key(location, known)
    if kind == "invalid_key" or "[key]" in error["loc"]:
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
    return "is not accepted here", f"See the schema: bench schema ({kind})"


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
        return problem, way_out + (", or remove the line" if value is None else "")
    if wanted == "a list":
        return problem, f"Write [{show_value(value)}]" if _is_scalar(value) else "Write the values as a list: [1, 2, 4]"
    if isinstance(value, str) and wanted in {"a whole number", "a number"} and _number(value) is not None:
        return f"is text because of its quotes, not {wanted}", f"Remove the quotes: {value.strip()}"
    if isinstance(value, str) and wanted == "true or false":
        return problem, "Write true or false, without quotes (yes, no, on and off are text in YAML 1.2)"
    if isinstance(value, float) and wanted == "a whole number" and value.is_integer():
        return "has a fraction or an exponent, and a whole number is needed", f"Write {value:.0f}"
    if isinstance(value, list):
        return f"{problem}: one value is needed here", f"Put the list below axes: {key}: {show_value(value)}"
    if wanted == "text" and _is_scalar(value):
        return problem, f'Put quotes round it: "{show_value(value)}"'
    way_out = f"Write {wanted}, such as {_SAMPLES.get(wanted, wanted)}"
    if isinstance(value, str) and key.endswith("_s"):
        way_out = "Write seconds as a plain number, without a unit"
    return problem, f"{way_out}, or remove the line" if value is None else way_out


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
            f"Put the list below axes: {key}: {show_value(value)}",
        )
    text = str(value).lower()
    ours = _OTHER_VALUES.get(text)
    meant = ours if ours in choices else closest(text, choices)
    problem = f"is not one of {', '.join(choices)}"
    return problem, f"Did you mean {meant}?" if meant is not None else f"Use {choices[0]}" if len(
        choices
    ) == 1 else "Use one of these"


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


def keys_at(location: Location) -> tuple[str, ...]:
    """List the keys that a sweep file may have beside the last part of a location."""
    match location[:-1]:
        case ():
            return tuple(SweepSpec.model_fields)
        case ("base", *sections):
            prefix = "".join(f"{part}." for part in sections)
            rests = [name.removeprefix(prefix) for name in field_paths() if name.startswith(prefix)]
            return tuple(rest for rest in rests if "." not in rest)
        case ("measure",):
            return tuple(MeasureSpec.model_fields)
        case ("skip", int()):
            return tuple(SkipRule.model_fields)
        case _:
            return ()
