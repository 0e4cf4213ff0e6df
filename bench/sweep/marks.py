"""What a field of a trial says of itself beside its type: whether it changes what is trained, or how."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mark:
    """Tell one setting's place in a row; see `What`, `How` and `Constant`."""

    unit: str | None = None
    """Of the values, in the singular; null where there is none."""
    column: str | None = None
    """Column of a row that holds it; null for the last part of its dotted name."""
    null_means: str | None = None
    """What null stands for where that is a choice like any other, as names and tables say it."""
    equals: str | None = None
    """The column says whether the setting is this word; null where it holds the setting itself."""
    sentence: str | None = None
    """What the column means; null for the sentence of the field."""
    flag: str | None = None
    """Option of `bench run`, which several settings may share; null makes it of the column or the name."""


class What(Mark):
    """Mark a setting of what is trained: trials that differ in it are no alternatives to choose between."""


class How(Mark):
    """Mark a setting of how it is trained: trials that differ in it make the same updates but for rounding."""


class Constant(Mark):
    """Mark a setting of one possible value: no row tells it, and no option sets it."""
