"""What a sweep is made of: trials, and combinations that are skipped with a reason."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bench.errors import BenchError
from bench.sweep.fields import DATA_SOURCES, SweepSpec, TrialConfig
from bench.sweep.names import IN_EVERY_NAME, axis_columns, name_of


@dataclass(frozen=True)
class Sweep:
    """Hold a checked sweep: what was asked, before any machine is looked at."""

    name: str
    """Name of the sweep and of its results folder."""
    path: Path | None
    """File it was read from; null when it was made from flags."""
    question: str
    """What the sweep asks: the first comment of its file; empty when there is none."""
    spec: SweepSpec
    """The checked content."""
    axes: tuple[str, ...]
    """Dotted names of the axes in file order, the last varies fastest; or all that listed trials name."""
    text: str
    """The file as written, to be kept beside the results."""

    def devices_asked(self) -> set[str]:
        """List every value of `device` that a trial of this sweep has: auto, cpu, cuda."""
        base = self.spec.base.device
        if self.spec.trials:
            return {settings.get("device", base) for settings in self.spec.trials}
        return set(self.spec.axes.get("device", [base]))

    def on_device(self, device: str) -> Sweep:
        """Let every trial run on this device instead of the one in the file.

        Raises:
            BenchError: The device is an axis of the sweep.
        """
        if "device" in self.axes:
            raise BenchError(
                f"--device {device}: {self.path or self.name} has device as an axis. Remove one of the two."
            )
        return self._with(base=self.spec.base.model_copy(update={"device": device}))

    def with_rounds(self, rounds: int) -> Sweep:
        """Change the number of passes over the trials; all else stays, trial ids included."""
        return self._with(measure=self.spec.measure.model_copy(update={"rounds": rounds}))

    def _with(self, **sections: Any) -> Sweep:
        return replace(self, spec=self.spec.model_copy(update=sections))


@dataclass(frozen=True)
class Trial:
    """Hold one point of a sweep that can run."""

    trial_id: str
    """12 hex digits that name this configuration in every sweep and on every machine."""
    config: TrialConfig
    """Resolved settings: device is cpu or cuda, and global_batch_size and accumulation_steps are both set."""
    axis_values: tuple[tuple[str, Any], ...] = ()
    """Axis name and value, in file order."""

    def label(self) -> str:
        """Write the axis values, such as micro_batch_size=4 amp_mode=bf16, in the words of the sweep file."""
        return label_of(self.axis_values) or f"micro_batch_size={self.config.micro_batch_size}"

    def name(self) -> str:
        """Name it as its results are named: bf16 4 x 8, 2 ranks."""
        axes = axis_columns(self.axis_values)
        named = {name: getattr(self.config, name) for name in IN_EVERY_NAME}
        # The global batch follows from the cut and the ranks, which are named.
        extra = [column for column in axes if column not in (*IN_EVERY_NAME, "global_batch_size")]
        return name_of({**axes, **named}, extra)


@dataclass(frozen=True)
class Skipped:
    """Hold one point of a sweep that does not run, and why."""

    trial_id: str
    """The id it would have as a trial."""
    config: TrialConfig
    """Its settings; accumulation_steps is null where the batch does not divide."""
    reason: str
    """Why it does not run, in a sentence, with what would work."""
    axis_values: tuple[tuple[str, Any], ...] = ()
    """Axis name and value, in file order."""

    def label(self) -> str:
        """Write the axis values, such as micro_batch_size=4 amp_mode=bf16."""
        return label_of(self.axis_values) or f"micro_batch_size={self.config.micro_batch_size}"


@dataclass(frozen=True)
class Search:
    """Hold one point of a sweep with an open micro-batch size: the largest of its candidates that fits is wanted."""

    candidates: tuple[Trial, ...]
    """The trials it may run, by growing micro-batch size; at least one."""
    axis_values: tuple[tuple[str, Any], ...] = ()
    """Axis name and value, in file order; that of micro_batch_size is {max: N}."""

    def label(self) -> str:
        """Write the axis values, such as amp_mode=bf16 micro_batch_size={max: 256}."""
        return label_of(self.axis_values)


def label_of(axis_values: tuple[tuple[str, Any], ...]) -> str:
    """Write axis names and values with single spaces between them."""
    return " ".join(f"{name}={show_value(value)}" for name, value in axis_values)


def show_value(value: Any) -> str:
    """Write a value as a sweep file would: null, true, bf16, {preset: gpt2-mini}."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {show_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show_value(item) for item in value) + "]"
    if isinstance(value, str):
        # Quotes show what is otherwise read wrongly: "16" is not 16, and an empty text is not nothing.
        return value if value and value == value.strip() and not _reads_as_other(value) else json.dumps(value)
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def _reads_as_other(text: str) -> bool:
    """Tell whether a plain YAML scalar of this text would be a number, a boolean or null."""
    try:
        float(text)
    except ValueError:
        return text.lower() in {"true", "false", "null", "~"}
    return True


def resolve(config: TrialConfig, auto_device: Literal["cpu", "cuda"]) -> TrialConfig:
    """Fill in what the settings leave open: the device, the derived batch size, and the chosen optimizer's numbers.

    accumulation_steps stays null where global_batch_size does not divide; nothing is ever rounded.
    """
    sequences_per_micro_step = config.micro_batch_size * config.world_size
    accumulation_steps, global_batch_size = config.accumulation_steps, config.global_batch_size
    if global_batch_size is None and accumulation_steps is not None:
        global_batch_size = accumulation_steps * sequences_per_micro_step
    elif accumulation_steps is None and global_batch_size is not None:
        quotient, rest = divmod(global_batch_size, sequences_per_micro_step)
        accumulation_steps = quotient if rest == 0 else None

    optimizer = config.optimizer
    numbers = {"momentum": 0.0} if optimizer.name == "sgd" else {"beta1": 0.9, "beta2": 0.95}
    if optimizer.factory is not None:
        numbers = {}  # its own
    missing = {name: value for name, value in numbers.items() if getattr(optimizer, name) is None}
    data = config.data
    if all(getattr(data, source) is None for source in DATA_SOURCES):
        data = data.model_copy(update={"corpus": "stdlib"})
    return config.model_copy(
        update={
            "device": auto_device if config.device == "auto" else config.device,
            "global_batch_size": global_batch_size,
            "accumulation_steps": accumulation_steps,
            "optimizer": optimizer.model_copy(update=missing),
            "data": data,
        }
    )


def trial_id(resolved: TrialConfig) -> str:
    """Name a resolved configuration: 12 hex digits of the SHA-256 of its canonical JSON.

    Fields at their default are left out, so that a field added later keeps old ids. The three sizes of the batch are
    always in; accumulation_steps never is, as it follows from them.
    """
    settings = resolved.model_dump(mode="json", exclude_defaults=True, exclude={"accumulation_steps"})
    for name in ("micro_batch_size", "world_size", "global_batch_size"):
        settings[name] = getattr(resolved, name)
    canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]
