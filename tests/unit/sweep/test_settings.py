"""One declaration of a setting: the field; its column, its name, its option and its role follow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from pydantic import BaseModel

from bench.cli.run import run
from bench.record.columns import COLUMN_BY_NAME
from bench.record.config_columns import config_columns
from bench.sweep import describe
from bench.sweep.fields import TrialConfig
from bench.sweep.flags import OR_FACTORY
from bench.sweep.marks import Constant, What
from bench.sweep.settings import FLAG_OF, SETTINGS

FILE = Path(describe.__file__).with_name("settings.json")


def test_the_committed_settings_are_fresh() -> None:
    """Write them again with: make docs."""
    assert FILE.read_text(encoding="utf-8") == describe.settings_text()


def test_field_that_says_neither_what_nor_how_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a recommendation would choose between trainings that are no alternatives."""

    class Inner(BaseModel):
        marked: Annotated[int, What()] = 1
        fixed: Annotated[int, Constant()] = 1
        forgotten: int = 1

    class Config(BaseModel):
        inner: Inner = Inner()

    monkeypatch.setattr(describe, "TrialConfig", Config)
    with pytest.raises(TypeError, match=r"inner\.forgotten is marked neither What nor How"):
        describe.settings_of_fields()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.path)
def test_every_setting_has_a_column_of_its_kind_and_an_option(setting: describe.Setting) -> None:
    """From the one declaration."""
    column = COLUMN_BY_NAME[setting.column]
    assert (column.kind, column.unit, column.rule) == (setting.kind, setting.unit, "config")
    assert setting.column in config_columns(TrialConfig())
    flags = {flag for parameter in run.params for flag in parameter.opts}
    assert (setting.flag in flags) != setting.is_section


def test_settings_that_share_a_column_have_options_of_their_own() -> None:
    others = {*OR_FACTORY.values(), "model.hf"}  # which --model names too
    flags = [one.flag for one in SETTINGS if one.path not in others and one.equals is None]
    assert len(set(flags)) == len(flags)
    assert all(FLAG_OF[name] == FLAG_OF[factory] for name, factory in OR_FACTORY.items())
    assert {"--text", "--tokens", "--corpus"} <= set(flags)
