"""This machine against a reference whose true speed is planted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.decide.reference import compare_with_reference
from bench.decide.reference_output import REFERENCE_COLUMNS, render_reference
from bench.decide.references import find_reference, reference_folders
from bench.errors import BenchError
from bench.report.launches import load_launches
from tests.planted import config, launches, store

SPEEDS = (1000, 1800, 2500)


def settings(number: int, **changes: Any) -> dict[str, Any]:
    """Settings of one configuration; what its trial id is made of."""
    micro = 2**number
    given = {"micro_batch_size": micro, "global_batch_size": 64, "device": "cpu", "seq_len": 128, **changes}
    return {**changes, "micro_batch_size": micro, "config_json": json.dumps(given)}


def rows_of(
    factor: float, seed: int, rounds: int = 3, sd: float = 0.002, speeds: Sequence[float] = SPEEDS, **changes: Any
) -> list[dict[str, Any]]:
    """Build one machine's rows."""
    configs = [config(speed * factor, **settings(number, **changes)) for number, speed in enumerate(speeds)]
    rows = launches(configs, rounds=rounds, sd=sd, drift=0.003, seed=seed)
    return [{"measurement_version": 1, "source": 0, **row} for row in rows]


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work where a reference `lab` lies, measured by another machine."""
    monkeypatch.chdir(tmp_path)
    return stored(tmp_path / "results" / "reference" / "lab", rows_of(1.0, seed=1, hostname="lab"))


def stored(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    return store(folder, [{name: value for name, value in row.items() if name != "source"} for row in rows])


@pytest.mark.parametrize(
    ("factor", "word"), [(1.0, "normal"), (0.985, "normal"), (0.8, "slow"), (1.2, "fast"), (0.95, "unclear")]
)
def test_a_machine_of_the_same_model_is_judged(known: Path, factor: float, word: str) -> None:
    """Slow only where the whole interval lies below 95 %."""
    made = compare_with_reference(rows_of(factor, seed=2), "lab")
    assert made.word == word
    assert made.ratio == pytest.approx(factor, rel=0.01)
    assert made.ratio_low is not None
    assert made.ratio_high is not None
    assert made.ratio_low < factor < made.ratio_high
    assert (len(made.shared), made.rounds_here, made.rounds_there) == (3, 3, 3)


@pytest.mark.parametrize(
    "changes", [{"cpu_model": "Another CPU"}, {"cpu_count": 64}, {"device": "cuda", "gpu_name": "G"}]
)
def test_other_hardware_gets_a_ratio_and_no_verdict(known: Path, changes: dict[str, Any]) -> None:
    """Half as fast is no fault of a machine that is another one; on another device settings still match."""
    made = compare_with_reference(rows_of(0.5, seed=2, **changes), "lab")
    assert (made.word, made.is_like_hardware) == ("other hardware", False)
    assert made.ratio == pytest.approx(0.5, rel=0.01)
    text = render_reference(made)
    assert text.splitlines()[0].endswith(": other hardware, so no verdict")
    assert any(name in text for name in ("CPU Another CPU here", "CPU cores 64 here", "device cuda here"))


def test_other_software_or_threads_are_named_and_the_machine_is_not_judged(tmp_path: Path) -> None:
    """They may be why it is slow; threads that were not asked for follow OMP_NUM_THREADS or a cgroup."""
    known = stored(tmp_path / "lab", rows_of(1.0, seed=1, threads_per_rank=2))
    made = compare_with_reference(rows_of(0.8, seed=2, torch_version="2.12.0", threads_per_rank=2), str(known))
    assert made.word == "other software"
    assert made.differing == ("torch 2.12.0 here, 2.13.0 there",)
    assert render_reference(made).splitlines()[0].endswith(": unclear: other software")
    made = compare_with_reference(rows_of(0.8, seed=2, threads_per_rank=1), str(known))
    assert (made.word, made.differing) == ("other threads", ("threads per rank 1 here, 2 there",))
    assert compare_with_reference(rows_of(0.8, seed=2, threads_per_rank=2), str(known)).word == "slow"


def test_threads_that_were_asked_for_match_on_the_same_kind_of_device_only(tmp_path: Path) -> None:
    """One thread here and two there are two configurations of a CPU; on a GPU they are a detail."""
    known = stored(tmp_path / "lab", rows_of(1.0, seed=1, cpu_threads_per_rank=2))
    other = [{**row, "trial_id": "f" + row["trial_id"][1:]} for row in rows_of(0.5, seed=2, cpu_threads_per_rank=1)]
    with pytest.raises(BenchError, match="cpu_threads_per_rank is 1 here, 2 there"):
        compare_with_reference(other, str(known))
    gpu = rows_of(0.5, seed=2, cpu_threads_per_rank=1, device="cuda")
    gpu = [{**row, "trial_id": "f" + row["trial_id"][1:], "gpu_name": "G"} for row in gpu]
    made = compare_with_reference(gpu, str(known))
    assert (made.word, len(made.shared)) == ("other hardware", 3)


def test_flags_and_failed_proofs_are_said_beside_the_verdict(known: Path) -> None:
    """A host that was busy is no slow machine."""
    made = compare_with_reference(rows_of(0.8, seed=2, flags=["host_busy"], proof="FAIL"), "lab")
    assert "flags here: host_busy" in made.notes
    assert any(note.startswith("a proof failed here") for note in made.notes)


@pytest.mark.parametrize("text", ["{", "[1]", "7"])
def test_settings_of_a_foreign_tool_match_by_trial_id_only(known: Path, text: str) -> None:
    """What is no JSON object cannot be compared setting by setting, and ends no command."""
    rows = [{**row, "config_json": text} for row in rows_of(1.0, seed=2)]
    assert len(compare_with_reference(rows, "lab").shared) == 3
    with pytest.raises(BenchError, match="no configuration in common"):
        compare_with_reference([{**row, "trial_id": "f" + row["trial_id"][1:]} for row in rows], "lab")


def test_single_rounds_have_a_ratio_and_no_interval(known: Path) -> None:
    """On this side or the other; three launches of three configurations are one round."""
    made = compare_with_reference(rows_of(0.5, seed=2, rounds=1), "lab")
    assert (made.word, made.ratio_low, made.shared[0].ratio_low) == ("unclear", None, None)
    assert made.ratio == pytest.approx(0.5, rel=0.01)
    assert "no interval: it takes 2 complete rounds" in render_reference(made)


def test_only_rounds_in_which_all_were_measured_count(known: Path) -> None:
    """A configuration that lacks a round makes that round a mean over something else."""
    rows = [row for row in rows_of(0.8, seed=2, rounds=4) if (row["trial_id"][-1], row["round"]) != ("2", 3)]
    made = compare_with_reference(rows, "lab")
    assert (made.rounds_here, len(made.shared[0].here.speeds)) == (3, 4)


def test_the_newest_launches_of_the_newest_machine_count(known: Path) -> None:
    """An older sweep of a healthy day does not hide that the machine is slow now."""
    old = rows_of(1.0, seed=2, started_utc="2026-01-01T00:00:00Z", hostname="h", sweep="old")
    new = rows_of(0.7, seed=3, started_utc="2026-02-01T00:00:00Z", hostname="h", sweep="new")
    other = rows_of(1.0, seed=4, started_utc="2026-01-15T00:00:00Z", hostname="other")
    made = compare_with_reference([*new, *old, *other], "lab")
    assert made.ratio == pytest.approx(0.7, rel=0.01)
    assert made.word == "slow"


def test_what_runs_there_and_not_here_is_said(known: Path) -> None:
    """Too little memory shows as a missing speed."""
    rows = rows_of(1.0, seed=2)
    for row in rows:
        if row["trial_id"].endswith("2"):
            row |= {"outcome": "oom", "reason": "no room", "valid_tokens_per_s": None}
    made = compare_with_reference(rows, "lab")
    assert [one.row["micro_batch_size"] for one in made.lost] == [4]
    assert "does not fit here (oom: no room)" in render_reference(made)
    assert json.loads(render_reference(made, "json"))["rows"][-1]["reason"] == "does not fit here (oom: no room)"


REFUSED = [
    ({"measurement_version": 2}, "measurement_version is 2 here, 1 there"),
    ({"seq_len": 256}, "seq_len is 256 here, 128 there"),
    ({"parameters_unique": 5}, "has 5 parameters here and 7 there"),
]


@pytest.mark.parametrize(("changes", "reason"), REFUSED)
def test_other_work_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], reason: str
) -> None:
    """A ratio of unlike things would read as a fault of the machine."""
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "results/reference/lab", rows_of(1.0, seed=1, parameters_unique=7))
    rows = [{**row, **changes} for row in rows_of(1.0, seed=2, parameters_unique=7)]
    for row in rows:
        row["trial_id"] = row["trial_id"] if "seq_len" not in changes else "f" + row["trial_id"][1:]
        row["config_json"] = json.dumps(json.loads(row["config_json"]) | changes)
    with pytest.raises(BenchError) as error:
        compare_with_reference(rows, "lab")
    assert reason in str(error.value)
    if "measurement_version" in changes:
        made = compare_with_reference(rows, "lab", force=True)
        assert (made.word, made.is_forced) == ("other method", True)
        assert "FORCED: different measurement versions" in made.notes
        assert json.loads(render_reference(made, "json"))["forced"] is True


def test_another_text_matters_only_where_rows_follow_it(known: Path, tmp_path: Path) -> None:
    """Another Python has another standard library; packed rows hold as many tokens of it."""
    stored(known, rows_of(1.0, seed=1, corpus_hash="a"))
    made = compare_with_reference(rows_of(1.0, seed=2, corpus_hash="b"), "lab")
    assert (made.word, made.differing) == ("normal", ("corpus text",))
    stored(tmp_path / "results/reference/ragged", rows_of(1.0, seed=1, corpus_hash="a", rows="ragged"))
    with pytest.raises(BenchError, match="ragged rows of a different text"):
        compare_with_reference(rows_of(1.0, seed=2, corpus_hash="b", rows="ragged"), "ragged")


def test_without_a_name_the_reference_that_shares_most_is_taken(known: Path, tmp_path: Path) -> None:
    """Of the same hardware first."""
    stored(tmp_path / "results/reference/small", rows_of(1.0, seed=1, speeds=SPEEDS[:1]))
    stored(tmp_path / "results/reference/alien", rows_of(1.0, seed=1, cpu_model="Another CPU"))
    assert compare_with_reference(rows_of(1.0, seed=2), None).name == "lab"
    assert compare_with_reference(rows_of(1.0, seed=2, cpu_model="Another CPU"), None).name == "alien"
    with pytest.raises(BenchError, match="no reference is comparable"):
        compare_with_reference(rows_of(1.0, seed=2, measurement_version=99), None)


def test_the_launches_of_the_reference_itself_say_nothing(known: Path) -> None:
    """A folder that was copied is no second machine; nor does it help to add some launches of one."""
    with pytest.raises(BenchError, match="the results of lab itself"):
        compare_with_reference(load_launches([known]), "lab")
    made = compare_with_reference([*load_launches([known]), *rows_of(1.0, seed=2)], "lab")
    assert any("the ratio means nothing" in note for note in made.notes)
    assert compare_with_reference(rows_of(1.0, seed=2), "lab").notes == ()


def test_references_are_found_by_name_and_path(known: Path) -> None:
    """Those beside one's results first, then those that come with the tool; an unknown name lists them."""
    assert {"lab", "cpu-quickstart"} <= set(reference_folders())
    assert find_reference("lab").resolve() == known.resolve()
    assert find_reference(str(known / "results.parquet")).name == "results.parquet"
    with pytest.raises(BenchError, match=r"Did you mean cpu-quickstart\? There are: lab \(.*cpu-quickstart"):
        find_reference("cpu-quickstrat")


@pytest.mark.parametrize("form", ["table", "csv", "markdown", "latex", "json"])
def test_every_format_renders(known: Path, form: Any) -> None:
    """With what is said of the machine before the rows of JSON."""
    text = render_reference(compare_with_reference(rows_of(0.8, seed=2), "lab"), form)
    assert text.endswith("\n")
    if form == "json":
        document = json.loads(text, parse_constant=pytest.fail)
        assert (document["verdict"], document["reference"], document["same_hardware"]) == ("slow", "lab", True)
        assert set(document["rows"][0]) == set(REFERENCE_COLUMNS)
    if form == "table":
        first = text.splitlines()[0]
        assert first.startswith("laptop runs at 0.80 times the speed of lab (0.")
        assert first.endswith("): SLOW for this hardware")
        assert "over 3 shared configurations; slow: wholly below 0.95" in text


@pytest.mark.slow
def test_a_healthy_machine_is_hardly_ever_called_slow(known: Path) -> None:
    """4.5 percent below the reference, at a spread of 1 % between rounds: slow in 5 % of simulations at most."""
    wrong = 0
    for seed in range(200):
        rows = launches(
            [config(speed * 0.955, **settings(number)) for number, speed in enumerate(SPEEDS)],
            sd=0.01,
            drift=0.01,
            seed=seed,
        )
        rows = [{"measurement_version": 1, **row} for row in rows]
        wrong += compare_with_reference(rows, "lab").word == "slow"
    assert wrong <= 10
