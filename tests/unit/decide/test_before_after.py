"""Two results of one sweep: each configuration is held against itself, and nothing is passed over in silence."""

import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bench.decide.before_after import compare_results
from bench.decide.before_after_output import render_before_after
from bench.decide.verdicts import judge_unpaired
from bench.errors import BenchError
from tests.planted import MIB, config, launches

NAMES = ["old", "new"]
LATER = {"started_utc": "2026-11-29T14:30:00Z"}


def results(before, after, changes=LATER, **how):
    """Give the rows of two results as `load_launches` does."""
    sides = [launches(before, **how), [row | changes for row in launches(after, **{**how, "seed": 9})]]
    return [row | {"source": at, "folder": NAMES[at]} for at, rows in enumerate(sides) for row in rows]


def held(rows, **options):
    return compare_results(rows, NAMES, **options)


def text(comparison, paths=(), width=120):
    return render_before_after(comparison, paths or [*map(Path, NAMES)], width=width)


THREE = [config(1000), config(1100, micro_batch_size=16), config(900, micro_batch_size=4)]
QUIET = {"sd": 0.001, "drift": 0.001}


def test_each_configuration_is_compared_with_itself():
    """Planted: one loses 5 %, one gains 5 %, one stays."""
    after = [config(950), config(1155, micro_batch_size=16), config(900, micro_batch_size=4)]
    comparison = held(results(THREE, after, rounds=4, **QUIET))
    assert [one.verdict.word for one in comparison.candidates] == ["slower", "faster", "same"]
    for one, true in zip(comparison.candidates, (0.95, 1.05, 1.0), strict=True):
        assert one.verdict.ratio == pytest.approx(true, rel=0.003)
        assert one.verdict.ratio_low < one.verdict.ratio < one.verdict.ratio_high
        assert one.baseline.row["trial_id"] == one.candidate.row["trial_id"]
        assert (one.baseline.row["folder"], one.candidate.row["folder"]) == ("old", "new")
    assert text(comparison).startswith("new against old: 1 slower, 1 faster, 1 same\n")


def test_the_interval_is_that_of_rounds_that_are_no_pairs():
    """Welch's, however much the rounds of each result share."""
    rows = results(THREE[:1], THREE[:1], rounds=5, sd=0.01, drift=0.05)
    (one,) = held(rows).candidates
    sides = [[math.log(speed) for speed in side.speeds.values()] for side in (one.candidate, one.baseline)]
    expected = stats.ttest_ind(*sides, equal_var=False).confidence_interval(0.95)
    assert (one.verdict.ratio_low, one.verdict.ratio_high) == pytest.approx(
        (math.exp(expected.low), math.exp(expected.high))
    )
    assert one.verdict.rounds == 5


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(500, 2000), st.integers(500, 2000)), min_size=1, max_size=4),
    st.integers(2, 5),
    st.integers(0, 99),
)
def test_exchanging_the_two_turns_every_ratio_round(speeds, rounds, seed):
    """Faster becomes slower by the same factor, and intervals change ends."""
    before = [config(old, micro_batch_size=2**at) for at, (old, _) in enumerate(speeds)]
    after = [config(new, micro_batch_size=2**at) for at, (_, new) in enumerate(speeds)]
    rows = results(before, after, rounds=rounds, sd=0.01, seed=seed)
    back = [row | {"source": 1 - row["source"]} for row in rows]
    turned = {"faster": "slower", "slower": "faster"}
    for one, other in zip(held(rows).candidates, compare_results(back, NAMES[::-1]).candidates, strict=True):
        assert other.verdict.ratio == pytest.approx(1 / one.verdict.ratio)
        assert other.verdict.ratio_low == pytest.approx(1 / one.verdict.ratio_high)
        assert other.verdict.word == turned.get(one.verdict.word, one.verdict.word)


def test_what_only_one_side_has_is_named_with_what_it_is():
    """A configuration that vanished is the worst change of all."""
    after = [config(1000), config(1100, micro_batch_size=16), config(500, micro_batch_size=32, trial_id="a" * 12)]
    comparison = held(results(THREE, after, **QUIET))
    assert [one.name for one in comparison.only_before] == ["fp32 4 x 16"]
    assert [one.name for one in comparison.only_after] == ["fp32 32 x 2"]
    said = text(comparison)
    assert "1 only in old, 1 only in new" in said
    assert "only in old: 900 valid tokens/s over 3 rounds" in said


NO_SPEED = {
    "oom": config(None),
    "failed": config(None, outcome="failed", reason="RuntimeError: no"),
    "zero": config(1000, valid_tokens=0),
    "skipped": config(None, outcome="skipped", reason="not here"),
}


@pytest.mark.parametrize(
    ("before", "after", "is_missing", "said"),
    [
        ("zero", "zero", True, "in both: no throughput was measured"),
        ("failed", "failed", True, "in both: failed: RuntimeError: no"),
        ("oom", "oom", False, "in both: does not fit (oom: out of memory)"),
        ("skipped", "skipped", False, "in both: skipped: not here"),
        ("oom", "zero", True, "in old: does not fit (oom: out of memory); in new: no throughput was measured"),
        (None, "failed", True, "in old: 1.50k valid tokens/s; in new: failed: RuntimeError: no"),
        ("oom", None, True, "in old: does not fit (oom: out of memory); in new: 1.50k valid tokens/s"),
        (None, None, False, "same"),
    ],
)
def test_what_gave_no_speed_is_named_and_counts_as_missing_unless_both_had_to_end_so(before, after, is_missing, said):
    """Nothing against nothing is no agreement."""
    sides = [NO_SPEED.get(side, config(1500)) for side in (before, after)]
    rows = results([sides[0], *THREE[1:]], [sides[1], *THREE[1:]], rounds=4, **QUIET)
    comparison = held(rows)
    assert comparison.candidates[0].is_missing is is_missing
    assert said in text(comparison, width=200)


def test_memory_and_loss_stand_beside_the_speed():
    """Exact bytes, and whether the two trained alike."""
    rows = results(THREE[:1], [config(1000, peak_allocated_bytes=301 * MIB)])
    curve = {0: 5.5, 1: 5.4}
    keys = {(row["source"], row["trial_id"], row["round"], row["attempt"]): curve for row in rows}
    (one,) = held(rows, curves=keys).candidates
    assert (one.peak_change_bytes, one.loss.word) == (MIB, "agree")
    keys |= {key: {0: 5.5, 1: 5.0} for key in keys if key[0] == 1}
    assert held(rows, curves=keys).candidates[0].loss.word == "differ"


CHANGES = {
    "torch": ({"torch_version": "2.14.0"}, "torch 2.13.0 -> 2.14.0"),
    "host": ({"hostname": "node7"}, "host laptop -> node7"),
    "variable": ({"environment_json": '{"NCCL_ALGO": "Ring"}'}, "NCCL_ALGO unset -> Ring"),
    "default": ({"config_json": '{"optimizer": {"beta2": 0.9}, "new": 1}'}, "setting optimizer.beta2 0.95 -> 0.9"),
    "GPU": ({"gpu_uuid_per_rank": ["GPU-b"]}, "GPU UUIDs GPU-a -> GPU-b"),
    "nothing": ({}, "nothing that is recorded (machine, versions, environment variables, settings)"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_changed_between_the_two_is_told_in_one_line(case):
    """Of whatever a row records: versions, host, environment, settings that a version made another default."""
    changes, said = CHANGES[case]
    common = {"gpu_uuid_per_rank": ["GPU-a"], "environment_json": "{}", "config_json": '{"optimizer": {"beta2": 0.95}}'}
    rows = [row | common | (changes if row["source"] else {}) for row in results(THREE, THREE)]
    comparison = held(rows, force=True)
    _, facts, *_ = text(comparison, width=300).splitlines()
    assert facts.startswith("new was measured 2.50 h later than old. Changed between them: ")
    assert facts.endswith(said)


def test_a_change_of_some_configurations_says_of_how_many():
    """Threads follow ranks, so only some may differ."""
    rows = results(THREE, THREE)
    rows[-1] |= {"environment_json": '{"A": "1"}'}
    rows[-3] |= {"environment_json": '{"A": "1"}'}
    (change,) = held(rows).changed
    assert change.words == "A unset -> 1 (in 1 of 3 configurations)"


def test_results_that_were_measured_in_turns_are_said_to_be():
    """The fairest there is."""
    rows = results(THREE, THREE, {})
    for row in rows:
        row["started_utc"] = f"2026-11-29T1{2 * row['round'] + row['source']}:00:00Z"
    assert "Launches of old and new took turns." in text(held(rows))


def test_results_in_the_wrong_order_are_said_to_be():
    """The first is the baseline, whenever it was measured."""
    rows = results(THREE, THREE, {"started_utc": "2026-11-29T10:00:00Z"})
    assert "new was measured 2.00 h EARLIER than old" in text(held(rows))


@pytest.mark.parametrize("changes", [{"torch_version": "2.14.0"}, {"measurement_version": 2}, {"cpu_count": 4}])
def test_unlike_machines_and_methods_are_refused_unless_forced(changes):
    """The same rule as within one result."""
    rows = results(THREE, THREE)
    rows = [row | {"measurement_version": 1} | (changes if row["source"] else {}) for row in rows]
    with pytest.raises(BenchError, match=r"nothing in new is comparable with old:\n.*different machines(.|\n)*--force"):
        held(rows)
    forced = held(rows, force=True)
    assert forced.is_forced
    assert "FORCED: different machines" in text(forced)


def test_a_single_round_gives_no_interval_and_the_command_that_adds_some(tmp_path):
    """Of the result that has too few."""
    rows = results(THREE, THREE)
    rows = [row for row in rows if row["source"] == 0 or row["round"] == 0]
    paths = [tmp_path / "old", tmp_path / "new"]
    paths[1].mkdir()
    (paths[1] / "sweep.yaml").write_text("name: x\n")
    comparison = held(rows)
    assert {one.verdict.word for one in comparison.candidates} == {"unclear"}
    said = " ".join(text(comparison, paths).split())
    assert "no interval: new has one round of 3 configurations, so any difference may be noise" in said
    assert f"bench sweep {paths[1]}/sweep.yaml --out {paths[1]} --rounds 3" in said
    assert "old has one round" not in said


def test_results_without_a_common_configuration_say_what_differs():
    """Instead of an empty table."""
    rows = results(THREE[:1], [config(1000, micro_batch_size=16, trial_id="b" * 12)])
    with pytest.raises(BenchError, match="micro_batch_size is 8 in old, 16 in new"):
        held(rows)


def test_rows_for_programs_hold_both_sides():
    """One row for each configuration, whoever has it, and what changed before them."""
    after = [config(950), config(1100, micro_batch_size=16), config(500, micro_batch_size=32, trial_id="a" * 12)]
    rows = results(THREE, after, LATER | {"hostname": "node7"}, rounds=4, **QUIET)
    document = json.loads(render_before_after(held(rows), [], "json"))
    assert document["changed"][0] == {
        "name": "hostname",
        "values": [{"before": "laptop", "after": "node7"}],
        "configurations": 2,
    }
    first, _, lost, new = document["rows"]
    assert (first["role"], first["folder"], first["baseline_folder"], first["verdict"]) == (
        "candidate",
        "new",
        "old",
        "slower",
    )
    assert first["baseline_valid_tokens_per_s"] == pytest.approx(1000, rel=0.01)
    assert first["valid_tokens_per_s"] == pytest.approx(950, rel=0.01)
    assert (first["baseline_rounds"], first["rounds"]) == (4, 4)
    assert [(row["role"], row["folder"]) for row in (lost, new)] == [
        ("baseline only", "old"),
        ("candidate only", "new"),
    ]


def test_flags_are_counted_for_each_result():
    """In one line each for people, beside each configuration for programs."""
    rows = results(THREE, THREE)
    for row in rows[:4]:
        row["flags"] = ["spiky", "drift"][: 1 + row["round"]]
    comparison = held(rows)
    assert "flags in old, and in how many of 3 configurations: spiky (2), drift (1)" in text(comparison, width=200)
    assert "flags in new" not in text(comparison)
    first, *_ = json.loads(render_before_after(comparison, [], "json"))["rows"]
    assert first["notes"][-1] == "flags in old: drift, spiky"


def planted_side(noise, configurations, rounds, drift):
    """Speeds of equal configurations whose rounds drift together; launches differ by 0.6 %."""
    shared = [noise.gauss(0, drift) for _ in range(rounds)]
    return [
        {number: math.exp(each + noise.gauss(0, 0.006)) for number, each in enumerate(shared)}
        for _ in range(configurations)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("configurations", "rounds", "drift"), [(6, 3, 0.015), (1, 3, 0.015), (6, 3, 0.0), (1, 2, 0.0)]
)
def test_two_results_of_equal_speed_are_seldom_called_different(configurations, rounds, drift):
    """Of a thousand tables twenty at most hold a verdict that is false, whether rounds drift together or not."""
    noise, wrong = random.Random(5), 0
    for _ in range(1000):
        sides = [planted_side(noise, configurations, rounds, drift) for _ in range(2)]
        wrong += any(one.word in ("faster", "slower") for one in judge_unpaired(list(zip(*sides, strict=True))))
    assert wrong <= 20
