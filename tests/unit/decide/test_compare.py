"""Planted results give the verdicts they must."""

import json
import math

import pytest

from bench.decide.compare import compare
from bench.decide.compare_output import COMPARE_COLUMNS, render_comparison
from bench.decide.loss_curves import load_curves
from bench.errors import BenchError
from tests.planted import config, launches, losses, store


def words(rows, **options):
    return [one.verdict.word if one.verdict else one.reason for one in compare(rows, **options).candidates]


def test_faster_slower_and_same_are_told_apart():
    """Six rounds at 0.1 % spread settle 5 % and equality alike."""
    rows = launches([config(1000), config(1050), config(950), config(1000)], rounds=6)
    assert words(rows) == ["faster", "slower", "same"]


def test_other_allocator_settings_are_warned_of():
    """Case 46: they move what is reserved by orders of magnitude; set against unset is a difference too.

    https://github.com/pytorch/pytorch/issues/123548
    """
    settings = "expandable_segments:True"
    configs = [config(1000, allocator_settings="default"), config(1000, allocator_settings=settings), config(1000)]
    changed, unknown = compare(launches(configs, rounds=3)).candidates
    warning = f"allocator_settings default against {settings}: reserved bytes and fit are not comparable"
    assert warning in changed.warnings
    assert not any("allocator" in text for text in unknown.warnings)


def test_a_drift_that_all_share_drops_out():
    """Rounds that differ by 20 % change no verdict, since launches are paired by round."""
    assert words(launches([config(1000), config(1020)], rounds=6, drift=0.2)) == ["faster"]


def test_a_difference_within_the_noise_is_unclear_with_the_rounds_that_settle_it():
    """One slow launch of three is no verdict (case 66)."""
    rows = launches([config(1000), config(1000)], rounds=3)
    rows[4]["valid_tokens_per_s"] /= 3
    (one,) = compare(rows).candidates
    assert one.verdict.word == "unclear"
    assert one.verdict.rounds_needed > 3


def test_a_single_round_is_unclear_for_too_few_rounds():
    """Twice as fast, once: no verdict."""
    (one,) = compare(launches([config(1000), config(2000)], rounds=1)).candidates
    assert (one.verdict.word, one.verdict.note, one.verdict.rounds_needed) == ("unclear", "too few rounds", 3)
    assert one.verdict.ratio_low is None
    assert one.verdict.ratio == pytest.approx(2, rel=0.01)


def test_launches_of_other_sweeps_are_not_paired():
    """Round 0 of another sweep was measured at another time."""
    rows = launches([config(1000), config(2000, sweep="other")], rounds=3)
    (one,) = compare(rows).candidates
    assert (one.verdict.word, one.verdict.rounds) == ("unclear", 0)
    assert "not measured side by side" in one.verdict.note


UNLIKE = {
    "cpu": ({"cpu_model": "Another CPU"}, "different machines: cpu_model"),
    "torch": ({"torch_version": "2.6.0"}, "different machines: torch_version 2.13.0 against 2.6.0"),
    "variable": (
        {"environment_json": '{"ATEN_CPU_CAPABILITY": "default", "NCCL_DEBUG": "INFO"}'},
        "different machines: ATEN_CPU_CAPABILITY not set against default",
    ),
    "method": ({"measurement_version": 2}, "different machines: measurement_version 1 against 2"),
    "device": ({"device": "cuda", "gpu_name": "G"}, "different machines: device cpu against cuda"),
    "global batch": ({"global_batch_size": 128}, "different global batches: global_batch_size 64 against 128"),
    "model": ({"model": "gpt2-nano"}, "different work: model"),
    "length": ({"seq_len": 64}, "different work: seq_len 128 against 64"),
}


@pytest.mark.parametrize("case", UNLIKE)
def test_the_unlike_is_refused_with_reasons_unless_told_to(case):
    """Refused beside what can be compared; alone it is an error; --force compares with a banner."""
    changes, reason = UNLIKE[case]
    known = {"measurement_version": 1, "environment_json": "{}"}
    rows = launches([config(1000, **known), config(2000, **{**known, **changes})])
    with pytest.raises(BenchError, match="nothing is comparable") as error:
        compare(rows)
    assert reason in str(error.value)
    more = [*rows, *launches([config(1), config(1), config(1100, **known)])[6:]]
    refused, compared = compare(more).candidates
    assert (refused.is_refused, refused.verdict) == (True, None)
    assert reason in refused.reason
    assert compared.verdict is not None
    forced = compare(rows, force=True)
    assert forced.is_forced
    assert forced.candidates[0].verdict is not None
    assert f"FORCED: {reason}" in forced.candidates[0].warnings[0]
    assert "FORCED" in render_comparison(forced).splitlines()[1]


def test_a_candidate_without_a_speed_gives_its_reason_never_zero():
    """Out of memory, nan and zero have no ratio."""
    rows = launches(
        [config(1000), config(None), config(1000, timed_s=math.nan), config(1000, valid_tokens=0), config(1000)]
    )
    lost = ["does not fit (oom: out of memory)", "no throughput was measured", "no throughput was measured"]
    assert words(rows)[:3] == lost


def test_memory_is_compared_in_exact_bytes():
    """Not one byte passes through a float, above 2**53 either."""
    big = 9_007_199_254_740_993
    rows = launches([config(1000, peak_allocated_bytes=big - 2), config(1000, peak_allocated_bytes=big)])
    (one,) = compare(rows).candidates
    assert one.peak_change_bytes == 2
    assert f"{big - 2:,} B" in render_comparison(compare(rows))
    assert f",{big}," in render_comparison(compare(rows), "csv")


def test_the_baseline_is_the_first_or_the_one_that_meets_all_conditions():
    """None and several are refused with what there is."""
    rows = launches([config(1000), config(1100, amp_mode="bf16"), config(900, amp_mode="bf16", micro_batch_size=4)])
    assert compare(rows).baseline.row["trial_id"].endswith("0")
    chosen = compare(rows, baseline=["amp_mode == bf16", "micro_batch_size == 4"])
    assert chosen.baseline.row["trial_id"].endswith("2")
    with pytest.raises(BenchError, match="2 configurations match"):
        compare(rows, baseline=["amp_mode == bf16"])
    with pytest.raises(BenchError, match="no configuration matches"):
        compare(rows, baseline=["amp_mode == fp16"])
    with pytest.raises(BenchError, match="Did you mean amp_mode"):
        compare(rows, baseline=["amp_mod == fp16"])
    with pytest.raises(BenchError, match="has no speed"):
        compare(launches([config(None), config(1000)]))
    with pytest.raises(BenchError, match="only configuration"):
        compare(launches([config(1000)]))
    with pytest.raises(BenchError, match="no row matches"):
        compare([])


def test_a_baseline_that_does_not_fit_is_an_answer_where_that_was_asked():
    """Fresh launches were to find out; stored results want another baseline. A failure is no answer."""
    rows = launches([config(None), config(1000)])
    (one,) = (comparison := compare(rows, unfit_is_answer=True)).candidates
    assert (one.verdict, one.reason) == (None, "no ratio, as the baseline does not fit")
    assert "does not fit (oom: out of memory)" in render_comparison(comparison).splitlines()[1]
    assert '"does not fit (oom: out of memory)"' in render_comparison(comparison, "json")
    assert words(launches([config(1000), config(None)]), unfit_is_answer=True) == ["does not fit (oom: out of memory)"]
    for speeds in ([config(None, outcome="failed"), config(1000)], [config(1000), config(None, outcome="failed")]):
        with pytest.raises(BenchError):
            compare(launches(speeds), unfit_is_answer=True)


def test_six_rounds_tell_the_sign_flip_p_and_fewer_do_not():
    """With fewer its smallest value is above 5 %, which would read as a verdict."""
    six = compare(launches([config(1000), config(1050)], rounds=6))
    assert six.candidates[0].statistics.sign_flip_p == 2 / 2**6
    assert "sign-flip p" in render_comparison(six)
    five = compare(launches([config(1000), config(1050)], rounds=5))
    assert five.candidates[0].statistics.sign_flip_p == 2 / 2**5
    assert "sign-flip" not in render_comparison(five)
    assert '"sign_flip_p": 0.0625' in render_comparison(five, "json")


def test_what_the_rounds_could_find_is_said_for_people_and_programs():
    """The least change that would be called, and the rounds for an interval of 0.5, 1 and 2 %."""
    comparison = compare(launches([config(1000), config(1050)], rounds=6, sd=0.01))
    statistics = comparison.candidates[0].statistics
    row = json.loads(render_comparison(comparison, "json"))["rows"][1]
    assert row["detectable_change"] == statistics.detectable_change
    assert [row[f"rounds_for_{width}_percent"] for width in ("0_5", "1", "2")] == list(statistics.rounds_for.values())
    found = f"a true {100 * statistics.detectable_change:.1f} % speed-up is detected 80 % of the time"
    text = render_comparison(comparison)
    assert f"with 6 rounds, {found}; a +-1 % interval takes" in text
    single = compare(launches([config(1000), config(1050)], rounds=1))
    assert single.candidates[0].statistics is None
    assert "four times" not in render_comparison(single)


def test_rounds_that_were_not_made_side_by_side_are_said():
    """A configuration added to a finished sweep shares round numbers with launches of another day."""
    rows = launches([config(1000), config(1000)], rounds=3)
    for index, row in enumerate(rows):
        row["started_utc"] = f"2026-11-{1 + index // 3:02} 12:0{index % 3}"
    (one,) = compare(rows).candidates
    assert any(warning.startswith("3 of 3 rounds were not measured side by side") for warning in one.warnings)
    for row in rows:
        row["started_utc"] = f"2026-11-01 12:0{row['round']}:0{int(row['trial_id'])}"
    assert compare(rows).candidates[0].warnings == ()


def test_a_round_that_was_interrupted_between_its_launches_is_said():
    """A sweep gone on with the next day shares the round, not the machine's state; a busy round does not wait."""
    rows = launches([config(1000), config(1000), config(900)], rounds=3)
    for row in rows:
        row |= {"started_utc": f"2026-11-29T12:{5 * row['round'] + int(row['trial_id']):02}:00Z", "launch_s": 50.0}
    assert compare(rows).candidates[0].warnings == ()
    for row in rows:
        if row["round"] == 2 and row["trial_id"].endswith("1"):
            row["started_utc"] = "2026-11-29T13:00:00Z"
    one, other = compare(rows).candidates
    assert one.warnings[0].startswith("1 of 3 rounds were interrupted between the two launches, for up to ")
    assert other.warnings == ()
    for row in rows:
        row["launch_s"] = None
    assert "interrupted" in compare(rows).candidates[0].warnings[0]


def test_a_null_hostname_beside_a_known_one_ends_no_command():
    """Rows of a foreign tool may lack what places them; launches of one second are then ordered all the same."""
    rows = launches([config(1000), config(1000)], rounds=2)
    for row in rows:
        row["hostname"] = None if row["trial_id"].endswith("1") else "laptop"
    (one,) = compare(rows).candidates
    assert "not measured side by side" in one.verdict.note


@pytest.mark.parametrize("sides", [(True, False), (False, True)])
def test_what_a_gpu_slowed_down_to_protect_itself_is_refused_on_either_side(sides):
    """METHOD: hardware throttling is not comparable."""
    rows = launches([config(1000, flags=["throttled_hw"] * sides[0]), config(1100, flags=["throttled_hw"] * sides[1])])
    with pytest.raises(BenchError, match=f"flagged throttled_hw: the {'baseline' if sides[0] else 'candidate'}"):
        compare(rows)
    forced = compare(rows, force=True)
    assert forced.is_forced
    assert forced.candidates[0].verdict is not None


def test_what_is_wrong_with_the_baseline_is_said_too():
    """Flags, skipped updates, failures and a failed proof of either side."""
    rows = launches([config(1000, flags=["gpu_shared"], proof="FAIL", updates_skipped=5), config(1100, proof="PASS")])
    comparison = compare(rows)
    assert [warning.split(":")[0] for warning in comparison.warnings] == [
        "proof FAIL",
        "flags",
        "15 timed updates skipped by the gradient scaler",
    ]
    assert comparison.candidates[0].warnings == ()
    assert [one.row["trial_id"] for one in comparison.unproven] == ["000000000000"]
    assert "baseline fp32 8 x 8: flags: gpu_shared" in " ".join(render_comparison(comparison).split())
    assert "flags: gpu_shared" in json.loads(render_comparison(comparison, "json"))["rows"][0]["notes"]
    rows = launches([config(1000), config(1100, proof="FAIL")])
    assert compare(rows).candidates[0].warnings[0].startswith("proof FAIL")
    assert [one.row["trial_id"] for one in compare(rows).unproven] == ["000000000001"]


def test_an_unknown_version_of_the_method_is_not_the_known_one():
    """Rows of before versions were stored do not compare with those of today."""
    with pytest.raises(BenchError, match="measurement_version unknown against 2"):
        compare(launches([config(1000), config(1100, measurement_version=2)]))


def test_launches_of_one_trial_on_other_threads_are_told_apart_and_refused():
    """OMP_NUM_THREADS or a cgroup changes what a trial id does not hold."""
    rows = launches([config(1000, threads_per_rank=2)]) + launches([config(500, threads_per_rank=1)])
    with pytest.raises(BenchError, match="different machines: threads_per_rank 2 against 1"):
        compare(rows)
    (one,) = compare(rows, force=True).candidates
    assert one.candidate.name == "fp32 8 x 8, 1 thread per rank"
    asked = [config(1000, threads_per_rank=2, cpu_threads_per_rank=2), config(500, threads_per_rank=1)]
    ranks = [config(1000, threads_per_rank=2), config(1500, threads_per_rank=1, world_size=2)]
    for legal in (asked, ranks):
        (one,) = compare(
            launches([{**each, "cpu_threads_per_rank": each.get("cpu_threads_per_rank")} for each in legal])
        ).candidates
        assert not one.is_refused


def test_names_tell_versions_of_the_method_apart():
    """The same settings measured by two versions would be two lines of one name."""
    rows = launches([config(1000, measurement_version=1)]) + launches([config(900, measurement_version=2)])
    (one,) = compare(rows, force=True).candidates
    assert one.candidate.name == "fp32 8 x 8, measurement version 2"


def test_unequal_numbers_of_rounds_are_said_and_contradict_nothing():
    """A candidate measured only in the slow rounds is not called slower for that."""
    rows = launches([config(1000), config(1000)], rounds=6, sd=0.0001, drift=0)
    for row in rows:
        row["valid_tokens_per_s"] *= 0.7 if row["round"] < 3 else 1.0
    (one,) = compare([row for row in rows if row["trial_id"].endswith("0") or row["round"] < 3]).candidates
    assert abs(one.verdict.ratio - 1) < 0.001
    assert one.verdict.word == "same"
    assert "measured in 3 rounds, the baseline in 6; 3 in common" in one.warnings


CURVE = [5.5, 5.2, 5.0, 4.9]


@pytest.mark.parametrize(
    ("other", "changes", "word"),
    [
        (CURVE, {}, "agree"),
        ([value * (1 + 5e-5) for value in CURVE], {}, "agree"),
        ([*CURVE[:2], 5.01, 4.9], {}, "differ"),
        ([*CURVE[:2], 5.01, 4.9], {"amp_mode": "bf16"}, "agree"),
        ([*CURVE[:2], 5.1, 4.9], {"amp_mode": "bf16"}, "differ"),
        ([*CURVE[:2], math.nan], {}, "differ"),
        (CURVE[:2], {}, "agree"),
        ([], {}, "not compared"),
        (CURVE, {"lr": 1e-3}, "not compared"),
    ],
)
def test_loss_curves_agree_over_their_common_prefix_to_within_rounding(tmp_path, other, changes, word):
    """Equal global batches see the same sequences, so a wrong weight shows in the first digits."""
    rows = launches([config(1000), config(1000, micro_batch_size=4, **changes)], rounds=2)
    curves = {"000000000000": CURVE, "000000000001": other}
    store(tmp_path, rows, lambda row: losses(curves[row["trial_id"]]))
    rows = [{**row, "source": 0} for row in rows]
    (one,) = compare(rows, curves=load_curves([tmp_path])).candidates
    assert one.loss.word == word
    text = render_comparison(compare(rows, curves=load_curves([tmp_path])))
    assert ("loss curves differ first at update 2" in text) == (word == "differ")


@pytest.mark.parametrize("which", ["000000000000", "000000000001"])
def test_the_curve_of_every_launch_is_compared(tmp_path, which):
    """One launch of three that trains otherwise shows, on either side."""
    rows = launches([config(1000), config(1000, micro_batch_size=4)])
    wrong = [*CURVE[:2], 5.3, 4.9]
    is_wrong = {(which, 2): wrong}
    store(tmp_path, rows, lambda row: losses(is_wrong.get((row["trial_id"], row["round"]), CURVE)))
    rows = [{**row, "source": 0} for row in rows]
    (one,) = compare(rows, curves=load_curves([tmp_path])).candidates
    assert (one.loss.word, one.loss.note.split(":")[0]) == ("differ", "update 2")


def test_a_shortened_prefix_is_said(tmp_path):
    """Agreement over one update of four is little."""
    rows = launches([config(1000), config(1000, micro_batch_size=4)])
    store(tmp_path, rows, lambda row: losses([CURVE[0], None, None, None] if row["trial_id"][-1] == "1" else CURVE))
    rows = [{**row, "source": 0} for row in rows]
    comparison = compare(rows, curves=load_curves([tmp_path]))
    assert (comparison.candidates[0].loss.word, comparison.candidates[0].loss.updates) == ("agree", 1)
    assert "loss curve compared over only 1 of 4 updates" in " ".join(render_comparison(comparison).split())


def test_a_curve_ends_before_the_first_skipped_update(tmp_path):
    """A skipped update changes what follows rightly; it is no disagreement."""
    rows = launches([config(1000), config(1000, amp_mode="fp16")], rounds=1)
    skipped = losses([5.5, 5.4, 5.3], ["applied", "skipped", "applied"])
    store(tmp_path, rows, lambda row: skipped if row["trial_id"].endswith("1") else losses(CURVE))
    curves = load_curves([tmp_path])
    assert [len(curve) for curve in curves.values()] == [4, 1]


def test_skipped_updates_are_said_beside_a_speed():
    """Skipped optimizer steps cost nothing, so the row looks fast (case 67)."""
    rows = launches([config(1000), config(1200, amp_mode="fp16", updates_skipped=6, updates_applied=14)])
    assert "18 timed updates skipped" in " ".join(compare(rows).candidates[0].warnings)


@pytest.mark.parametrize(
    ("share", "base_share", "is_said"),
    [(0.31, 0.2, True), (0.2, 0.31, True), (0.3, 0.2, False), (None, 0.5, False), (0.5, None, False)],
)
def test_unlike_power_limits_are_said_beside_a_speed(share, base_share, is_said):
    """More than 10 points apart; a share that is not known is not 0."""
    rows = launches([config(1000, sw_power_cap_share=base_share), config(1000, sw_power_cap_share=share)])
    (one,) = compare(rows).candidates
    assert any("power limit" in warning for warning in one.warnings) is is_said


@pytest.mark.parametrize("form", ["table", "csv", "markdown", "latex", "json"])
def test_every_format_renders(form):
    """With a failure and a refusal among the candidates."""
    rows = launches([config(1000), config(1100), config(None), config(900, global_batch_size=128)])
    text = render_comparison(compare(rows), form)
    assert text.endswith("\n")
    if form == "json":
        document = json.loads(text, parse_constant=pytest.fail)
        assert [row["role"] for row in document["rows"]] == ["baseline", *["candidate"] * 3]
        assert set(document["rows"][1]) == set(COMPARE_COLUMNS)


@pytest.mark.slow
def test_equal_configurations_are_hardly_ever_called_different():
    """Goal M1 through our pairing: at most 1 % of A/A verdicts are faster or slower (launch sd 0.6 %, drift 1.5 %)."""
    wrong = sum(
        words(launches([config(1000), config(1000)], rounds=6, sd=0.006, drift=0.015, seed=seed))[0]
        in ("faster", "slower")
        for seed in range(400)
    )
    assert wrong <= 6


@pytest.mark.slow
@pytest.mark.parametrize(("gain", "least"), [(1.01, 0.5), (1.02, 0.85)])
def test_real_differences_are_found(gain, least):
    """Goal M2: with six rounds at a launch sd of 0.3 %."""
    found = [
        words(launches([config(1000), config(1000 * gain)], rounds=6, sd=0.003, drift=0.015, seed=seed))[0]
        for seed in range(100)
    ]
    assert found.count("faster") >= least * 100 - 8
