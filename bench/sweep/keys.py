"""Which keys a sweep file may have where, and which one was meant by a key that it may not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from bench.sweep.faults import Fault, Location
from bench.sweep.fields import MeasureSpec, SkipRule, SweepSpec
from bench.sweep.paths import field_paths

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

_TOO_COMMON = {"preset", "name", "unit"}
"""Keys of several sections: a hint at another section would be a guess."""


_LIKE_ELSEWHERE = 0.85
"""How alike a key of another section must be to be meant: a distant likeness there is chance."""


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


def closest(word: str, choices: Iterable[str], likeness: float = 0.6) -> str | None:
    """Find the choice that was probably meant; null when none is close."""
    by_lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=likeness)
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
    meant = _meant(key, known) or _meant(key, _places(), _LIKE_ELSEWHERE)
    if meant is not None:
        return f"Did you mean {meant}?"
    if len(known) <= 20:
        return f"Known here: {', '.join(known)}"
    return "Any field of base can be an axis, such as micro_batch_size, amp_mode or data.rows"


def _meant(key: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Find the name that was probably meant: by what other tools call it, then by its spelling."""
    by_last = {name.rsplit(".", 1)[-1]: name for name in known}
    ours = _OTHER_NAMES.get(key.lower().replace("-", "_"))
    near = closest(key, [last for last in by_last if last not in _TOO_COMMON or last in by_last.values()], likeness)
    return next((name for name in known if ours == name.removeprefix("base.")), None) or by_last.get(near or "")


def _places() -> list[str]:
    """List every key of a sweep file by its dotted name."""
    return [
        *(f"measure.{name}" for name in MeasureSpec.model_fields),
        *(f"base.{name}" for name in field_paths()),
        *SweepSpec.model_fields,
    ]
