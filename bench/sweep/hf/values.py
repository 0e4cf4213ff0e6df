"""Values of settings that are not one plain type: words beside booleans, configurations, names in one text."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

REENTRANT: dict[str, str] = {
    "column": "reentrant_checkpointing",
    "equals": "reentrant",
    "sentence": "Whether they do so by torch's older way, use_reentrant=True; null in rows of older versions.",
}
"""Second column of activation_checkpointing, whose first stays true or false as it always was."""


def _kind_of_checkpointing(value: Any) -> Any:
    """Take the full name non_reentrant as true, which is what trial ids and older files hold."""
    if not isinstance(value, bool) and value not in ("reentrant", "non_reentrant"):
        choices = ["false", "true", "non_reentrant", "reentrant"]
        raise PydanticCustomError("unknown_choice", "unknown kind of checkpointing", {"choices": choices})
    return True if value == "non_reentrant" else value


Checkpointing = Annotated[
    bool | Literal["reentrant"],
    BeforeValidator(_kind_of_checkpointing, json_schema_input_type=bool | Literal["non_reentrant", "reentrant"]),
]


ALL_LINEAR = "all-linear"
"""Word of `lora.target_modules` for every linear layer but the one that makes logits."""


def _a_configuration(given: Any) -> Any:
    """Take the settings of a Hugging Face configuration only with the one that says which model it is."""
    if isinstance(given, dict) and not isinstance(given.get("model_type"), str):
        raise PydanticCustomError("no_model_type", "no model_type")
    if isinstance(given, str) and given.strip():
        return given
    if not isinstance(given, dict):
        raise PydanticCustomError("not_hf", "neither a path nor settings")
    try:
        json.dumps(given, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise PydanticCustomError("not_plain", "not plain values") from None
    return given


def _names_in_one_text(given: Any) -> Any:
    """Join a list of names by commas: so written, they can be a value of an axis."""
    is_list = isinstance(given, list) and bool(given) and all(isinstance(name, str) for name in given)
    return ", ".join(given) if is_list else given


HfConfig = Annotated[
    str | dict[str, Any], BeforeValidator(_a_configuration, json_schema_input_type=str | dict[str, Any])
]
Names = Annotated[
    str, BeforeValidator(_names_in_one_text, json_schema_input_type=str | list[str]), Field(pattern=r"[^\s,]")
]


def _reference(text: str) -> str:
    """Take `package.module:function` apart only in so far as it must be of that form."""
    module, colon, function = text.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *function.split("."))):
        raise PydanticCustomError("not_a_reference", "not package.module:function")
    return text


Reference = Annotated[str, AfterValidator(_reference)]
"""A function of the user's own, `package.module:function`; it is imported in a rank, never by the driver."""
