"""A sweep of one trial, made from the flags of a command; faults speak of flags instead of lines."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from bench.errors import BenchError
from bench.sweep.check import check_one_trial
from bench.sweep.faults import Fault, dotted
from bench.sweep.hf.configuration import is_hf
from bench.sweep.paths import field_paths, with_settings
from bench.sweep.settings import FLAG_OF
from bench.sweep.trial import Sweep

_OF_SECTIONS = {
    "model": "--model",
    "schedule.unit": "--schedule-unit",
    "data.synthetic.vocab_size": "--synthetic-vocab-size",
}
"""What a message calls settings that have no option of their own, where the last part of the name would mislead."""


OR_FACTORY = {"model.preset": "model.factory", "optimizer.name": "optimizer.factory"}
"""Settings whose option takes `package.module:function` too, and the setting that this is then."""


def flag_of(name: str) -> str:
    """Write the flag of a setting: micro_batch_size is --micro-batch-size, data.rows is --rows."""
    return (FLAG_OF | _OF_SECTIONS).get(name, "--" + name.rsplit(".", 1)[-1].replace("_", "-"))


def sweep_from_flags(config: Mapping[str, Any], measure: Mapping[str, Any], name: str) -> Sweep:
    """Make a sweep of exactly one trial. Keys of `config` may be nested or dotted; null means not given.

    Raises:
        BenchError: Settings are wrong, one line each, named by their flag.
    """
    given = {key: value for key, value in config.items() if value is not None}
    document = {
        "format": 1,
        "name": name,
        "base": with_settings({}, given),
        "axes": {},
        "measure": {key: value for key, value in measure.items() if value is not None},
    }
    spec, faults = check_one_trial(document)
    if faults or spec is None:
        raise BenchError("\n".join(dict.fromkeys(_in_flags(fault) for fault in faults)))
    return Sweep(spec.name, None, "", spec, (), document_text(document))


def own_code_named(config: Mapping[str, Any]) -> dict[str, Any]:
    """Tell what options that take several kinds of names name: a colon makes `package.module:function` of one.

    Arguments of such functions are read as YAML, which is how a sweep file writes them: {width: 64}.

    Raises:
        BenchError: Arguments are no section of keys.
    """
    named = dict(config)
    if is_hf(str(named.get("model.preset") or "")):
        named["model.hf"] = named.pop("model.preset")
    for name, factory in OR_FACTORY.items():
        if ":" in str(named.get(name) or ""):
            named[factory] = named.pop(name)
    for name in [name for name in named if name.endswith(".args") and named[name] is not None]:
        named[name] = _arguments(flag_of(name), named[name])
    return named


def _arguments(flag: str, text: str) -> dict[str, Any]:
    try:
        found = YAML(typ="safe", pure=True).load(text)
    except YAMLError:
        found = None
    if not isinstance(found, dict):
        raise BenchError(f"{flag} = {text} is no section of keys. Write it as in a sweep file: '{{width: 64}}'.")
    return found


def document_text(document: Mapping[str, Any]) -> str:
    """Write the settings as a sweep file would hold them, to be kept beside the results."""
    stream = io.StringIO()
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.dump(dict(document), stream)
    return stream.getvalue()


def _in_flags(fault: Fault) -> str:
    """Write a fault with flags where it has dotted names."""
    keys = [str(part) for part in fault.location if part not in ("base", "measure")]
    if not keys:
        return (
            "The global batch size is missing. Add --global-batch-size (sequences per update) or --accumulation-steps."
        )
    names = sorted((name for name in field_paths() if "_" in name or "." in name), key=len, reverse=True)
    pattern = re.compile(r"(?<![\w.-])(?:" + "|".join(re.escape(name) for name in names) + r")(?![\w.])")
    own = replace(
        fault,
        problem=pattern.sub(lambda found: flag_of(found[0]), fault.problem),
        way_out=pattern.sub(lambda found: flag_of(found[0]), fault.way_out),
    )
    return own.sentence(flag_of(dotted(tuple(keys))))
