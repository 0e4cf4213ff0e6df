"""Hugging Face models and LoRA through the sweep itself: cuts of one global batch have one loss curve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from bench.cli import main
from tests.hf_configs import CONFIGS, LLAMA
from tests.integration.test_loss_equality import largest_spread
from tests.integration.trivial import PATIENT

pytest.importorskip("transformers")
pytest.importorskip("peft")
pytestmark = [pytest.mark.hf, pytest.mark.slow]

SGD = {"name": "sgd", "lr": 0.2, "momentum": 0.9, "weight_decay": 0.0}


def run(lab: Any, axes: dict[str, list[Any]], **base: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run a small sweep and give its rows and updates."""

    def change(document: dict[str, Any]) -> None:
        document["axes"] = axes
        if "model" in axes:
            del document["base"]["model"]
        document["measure"] = {"warmup_updates": 0, "updates": 1, "quality_updates": 4, **PATIENT}

    given = {"global_batch_size": 4, "seq_len": 16, "data": {"corpus": "stdlib"}, "optimizer": SGD, **base}
    lab.run(lab.sweep(change, **given))
    folder = lab.folder / "results"
    rows, updates = (pd.read_parquet(folder / f"{name}.parquet") for name in ("results", "updates"))
    keys = ["trial_id", "model_kind", "lora_r", "amp_mode", "micro_batch_size"]
    return rows, updates[updates["phase"] != "witness"].merge(rows[keys], on="trial_id")


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_cut_of_every_model_has_the_same_loss(lab: Any, kind: str) -> None:
    """With and without LoRA, in fp32 and bf16; what is trained is counted."""
    axes = {"lora": [None, {"r": 2}], "amp_mode": ["fp32", "bf16"], "micro_batch_size": [1, 4]}
    rows, updates = run(lab, axes, model={"hf": CONFIGS[kind]})
    assert rows["outcome"].tolist() == ["ok"] * 8, rows["reason"].tolist()
    assert set(rows["model_kind"]) == {kind}
    for (rank, mode), group in updates.groupby(["lora_r", "amp_mode"], dropna=False):
        assert len(group) == 2 * 5
        assert largest_spread(group, "train_loss") <= {"fp32": 1e-5, "bf16": 2e-2}[mode], (rank, mode)
        losses = group[group["micro_batch_size"] == 4].sort_values("update")["train_loss"].tolist()
        assert pd.isna(rank) == (losses[-1] < losses[0] - 0.05) or losses[-1] < losses[0], "it learns"
    trained = rows.groupby("lora_r", dropna=False)["parameters_trainable"].first()
    whole = rows["parameters_unique"].min()
    assert trained[trained.index.isna()].item() == whole
    assert 0 < trained[2] == rows["parameters_unique"].max() - whole


def test_reentrant_checkpoints_that_cut_adapters_off_are_a_row_that_names_them(lab: Any) -> None:
    """It is never recommended, and the sweep goes on; https://github.com/huggingface/transformers/pull/24247 ."""
    axes = {"activation_checkpointing": ["reentrant", True], "micro_batch_size": [4]}
    rows, _ = run(lab, axes, model={"preset": "llama-nano"}, lora={"r": 2})
    by_kind = rows.set_index("reentrant_checkpointing")
    cut, whole = by_kind.loc[True], by_kind.loc[False]
    assert (cut["outcome"], whole["outcome"]) == ("failed", "ok")
    assert "no trainable parameter received a gradient" in cut["reason"]
    assert "blocks.0.attention.query.lora_A" in cut["reason"]
    names = list(cut["parameters_without_gradient"])
    assert len(names) == 2 * 7, "two factors beside each of seven layers"
    assert all(".lora_" in name for name in names)
    assert "no_gradient" in cut["flags"]
    assert (list(whole["parameters_without_gradient"]), "no_gradient" in whole["flags"]) == ([], False)
    told = CliRunner().invoke(main, ["recommend", str(lab.folder / "results")])
    assert told.exit_code == 0, told.output
    chosen, _, others = told.stdout.partition("Why not the others")
    assert "reentrant" not in chosen.splitlines()[0]
    assert "reentrant" in others
    assert "no trainable parameter received a gradient" in " ".join(others.split())


def test_hf_model_by_file_is_that_of_its_settings_and_may_not_change_under_a_folder(lab: Any, tmp_path: Path) -> None:
    """A folder of results remembers what the file said."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    axes = {"model": [{"hf": str(file)}, {"hf": LLAMA}], "micro_batch_size": [4]}
    rows, _ = run(lab, axes)
    assert rows["outcome"].tolist() == ["ok"] * 2, rows["reason"].tolist()
    assert rows["parameters_checksum"].nunique() == 1
    assert rows["model"].tolist()[0] == str(file)
