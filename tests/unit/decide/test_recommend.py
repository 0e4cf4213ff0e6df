"""Planted results give the recommendation they must."""

import json
import math
import shlex

import pytest

from bench.decide.compare import compare
from bench.decide.recommend import Question, recommend
from bench.decide.recommend_output import recommendation_json, recommendation_text
from bench.decide.recommend_summary import recommendation_lines
from bench.errors import BenchError
from bench.record.parquet_file import table_of_rows
from bench.record.schema import schema
from bench.report.where import parse_condition
from tests.planted import MIB, PROVEN, config, launches


def choose(rows, **asked):
    return recommend(rows, Question(**asked))


def standings(result):
    return {other.configuration.row["trial_id"][-1]: other.standing for other in result.others}


def why(result, trial):
    return next(o.why for o in result.others if o.configuration.row["trial_id"].endswith(trial))


def chosen(result):
    return int(result.choice.row["trial_id"], 16)


WINNER = [config(1000, micro_batch_size=4), config(1300, micro_batch_size=8), config(1100, micro_batch_size=16)]


def test_a_known_winner_wins_and_the_others_have_a_line_each():
    """Clearly fastest over three rounds; the runner-up is the second fastest."""
    result = choose(launches(WINNER))
    assert chosen(result) == 1
    assert standings(result) == {"0": "slower", "2": "slower"}
    assert result.runner_up.configuration.row["trial_id"].endswith("2")
    assert "-15." in why(result, "2")
    assert "round" not in " ".join(result.caveats)


def test_a_tie_is_called_a_tie_and_the_smaller_memory_is_preferred():
    """The same speed in twice the memory is no gain, even when it measured a little faster."""
    rows = launches(
        [
            config(1002, micro_batch_size=16, peak_allocated_bytes=400 * MIB),
            config(1000, micro_batch_size=8, peak_allocated_bytes=200 * MIB),
            config(700, micro_batch_size=4, peak_allocated_bytes=100 * MIB),
        ],
        rounds=6,
    )
    result = choose(rows)
    assert chosen(result) == 1
    assert standings(result) == {"0": "tie", "2": "slower"}
    assert "Ties: indistinguishable in 6 rounds; none uses less memory" in recommendation_text(result)
    assert "200 MiB more memory" in why(result, "0")


def test_a_tie_with_unknown_memory_never_wins_by_it():
    """Missing is not zero."""
    for fast, slow in ((None, 200), (200, None)):
        rows = launches([config(1004, peak_allocated_bytes=fast), config(1000, peak_allocated_bytes=slow)], rounds=6)
        assert chosen(choose(rows)) == 0


def test_noise_leaves_the_question_open_and_says_how_many_rounds_settle_it():
    """A bare difference is never a win."""
    result = choose(launches([config(1000), config(960, micro_batch_size=4)], rounds=3, sd=0.05, seed=3))
    assert set(standings(result).values()) <= {"open", "tie"}
    assert any("would settle" in caveat for caveat in result.caveats)


def test_a_single_round_gives_no_interval_and_says_so():
    """The choice stands, its uncertainty is not made up."""
    result = choose(launches(WINNER, rounds=1, drift=0))
    assert chosen(result) == 1
    assert result.projection.hours.low is None
    assert any("measured in one round" in caveat for caveat in result.caveats)
    close = choose(launches([config(1000), config(940, micro_batch_size=4)], rounds=1, drift=0))
    assert standings(close) == {"1": "open"}


BAD = {
    "out of memory": (config(None, outcome="oom", reason="out of memory in forward"), "oom: out of memory in forward"),
    "failed proof": (config(2000, proof="FAIL"), "its accumulation proof failed"),
    "another global batch": (config(2000, global_batch_size=128), "global batch 128, not 64"),
    "retried allocations": (config(2000, alloc_retries=2), "6 allocations had to be retried"),
    "throttled": (config(2000, flags=["throttled_hw"]), "flagged throttled_hw"),
    "parameters that are not trained": (config(2000, flags=["no_gradient"]), "got no gradient"),
    "more ranks than asked": (config(2000, world_size=4), "needs 4 ranks, more than --gpus 2"),
    "zero": (config(2000, valid_tokens=0), "no throughput was measured"),
    "null": (config(2000, valid_tokens=None), "no throughput was measured"),
    "stand-in": (
        config(2000, timed_s=None, memory_method="standin"),
        "measured on a stand-in GPU, which shows no speed",
    ),
    "nan": (config(2000, valid_tokens=163_840, timed_s=math.nan), "no throughput was measured"),
    "too full": (
        config(2000, device="cuda", gpu_name="G", peak_reserved_bytes=96, device_capacity_bytes=100),
        (
            "does not fit: 96 B of 100 B reserved, memory outside torch not measured: less than the 5 % headroom "
            "asked for is free"
        ),
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_must_not_be_run_is_out_with_its_reason(case):
    """However fast it looks, it is shown and never recommended."""
    bad, reason = BAD[case]
    good = config(1000, micro_batch_size=4)
    if bad.get("device") == "cuda":
        good |= {"device": "cuda", "gpu_name": "G", "peak_reserved_bytes": 50, "device_capacity_bytes": 100}
    result = choose(launches([bad, good]), global_batch_size=64, gpus=2)
    assert chosen(result) == 1
    assert standings(result) == {"0": "out"}
    assert reason in why(result, "0")


def test_one_launch_out_of_memory_in_three_is_not_a_fit():
    """A long run would meet it too."""
    rows = launches([config(2000), config(1000, micro_batch_size=4)])
    rows[1] |= {"outcome": "oom", "reason": "out of memory", "valid_tokens_per_s": None}
    result = choose(rows)
    assert chosen(result) == 1
    assert why(result, "0") == "oom in 1 of 3 launches: out of memory"


def test_a_proof_that_was_not_run_is_shown():
    """Neither hidden nor taken for a pass."""
    assert any("proof was not run" in caveat for caveat in choose(launches(WINNER)).caveats)
    unproven = choose(launches([config(1000, proof="NOT PROVEN")]))
    assert any("accumulation proof says NOT PROVEN, not PASS" in caveat for caveat in unproven.caveats)
    passed = choose(launches([config(1000, proof="PASS", proof_error=1e-12)]))
    assert not any("proof" in caveat for caveat in passed.caveats)
    assert "PASS, gradient error 1.0e-12" in recommendation_text(passed)


@pytest.mark.parametrize(
    ("doubt", "reason"),
    [
        ({"proof": None}, "not proven: no accumulation proof was run; others are proven"),
        ({"proof": "NOT PROVEN"}, "not proven: its accumulation proof says NOT PROVEN; others are proven"),
        ({"host_peak_rss_bytes": None}, "not known to fit: bytes in use or capacity unknown; others are known to fit"),
    ],
)
def test_what_is_in_doubt_is_out_where_something_is_not(doubt, reason):
    """However fast; where nothing else is left, or it is accepted, it is chosen and the first line says the doubt."""
    fast = config(2000, **(PROVEN | doubt))
    rows = launches([fast, config(1000, micro_batch_size=4, **PROVEN)])
    result = choose(rows)
    assert (chosen(result), standings(result), why(result, "0")) == (1, {"0": "out"}, reason)
    assert result.doubts == []
    for alone in (choose(rows, accept_unproven=True), choose(launches([fast]))):
        assert chosen(alone) == 0
        (said,) = alone.doubts
        assert reason.startswith(said)
        first = " ".join(recommendation_text(alone, 110).split("\n\n")[0].split())
        assert first.endswith(f", but it is {said}")


def test_the_end_of_a_sweep_hides_no_caveat():
    """Doubts stand beside the name, everything else in a line that begins with but."""
    bad = {"proof": "NOT PROVEN", "flags": ["throttled_thermal", "data_bound"], "updates_skipped": 1}
    lines = ending(launches([config(1000, **bad)]))
    assert lines[0].startswith(
        "run fp32 8 x 8 (not known to fit; not proven: its accumulation proof says NOT PROVEN): "
    )
    assert lines[-1] == "but flagged data_bound, throttled_thermal; 3 timed updates skipped by the gradient scaler"
    first, *_ = ending(launches([config(1000, **bad), config(1000, global_batch_size=128, **PROVEN)]))
    assert first.endswith(
        "valid tokens; but flagged data_bound, throttled_thermal; 3 timed updates skipped by the gradient scaler"
    )
    assert not any(line.startswith("but") for line in ending(launches([config(1000, **PROVEN)])))


def unequal_rounds():
    """Three configurations; round 0 is slow, the second misses two fast rounds, the third the slow one."""
    rows = launches([config(1000, micro_batch_size=2), config(980, micro_batch_size=4), config(960)], rounds=4, drift=0)
    for row in rows:
        if row["round"] == 0:
            row["valid_tokens_per_s"] *= 0.7
    missed = {(1, 2), (1, 3), (2, 0)}
    return [row for row in rows if (int(row["trial_id"], 16), row["round"]) not in missed]


def test_a_speed_of_shortened_windows_is_called_extrapolated():
    """By `recommend`, at the end of a sweep and by `compare`; where whole updates were timed, by none."""
    rows = launches([config(1100), config(1000, micro_batch_size=4)])
    assert not any("extrapolated" in caveat for caveat in choose(rows).caveats)
    for row in rows[:3]:
        row["time_method"] = "extrapolated"
        row["updates_attempted"], row["micro_batches"], row["world_size"] = 10, 80, 2
    unseen = "speed extrapolated from windows of 4 micro-steps; no whole window was seen"
    assert any(unseen in caveat for caveat in choose(rows).caveats)
    assert unseen in " ".join(ending(rows))
    assert any(unseen in warning for warning in compare(rows).warnings)
    for row in rows:
        row["whole_update_s"] = 0.1
    agreed = "speed extrapolated from windows of 4 micro-steps; a whole one agreed within 1 %"
    assert any(agreed in warning for warning in compare(rows).warnings)
    for row in rows:
        row["flags"] = ["law_not_met"]
    apart = "speed that of single whole windows, as windows of 4 micro-steps foretell another"
    assert any(apart in warning for warning in compare(rows).warnings)
    assert apart in " ".join(ending(rows))


def test_the_runner_up_is_the_first_of_the_list():
    """The third has the higher mean, for it missed the slow round; the second is faster."""
    result = choose(unequal_rounds())
    second, third = result.others
    assert third.configuration.speed > second.configuration.speed
    assert result.runner_up is second
    assert second.verdict.ratio > third.verdict.ratio
    assert any(line.startswith("runner-up fp32 4 x 16: -2.") for line in ending(unequal_rounds()))


def test_a_tie_is_the_runner_up_before_what_is_slower():
    """Even where the slower one has the larger ratio."""
    result = choose(launches([config(1000), config(995, micro_batch_size=4)], rounds=6, sd=0.004))
    assert [result.runner_up.standing] == [other.standing for other in result.others] == ["tie"]


def test_a_choice_that_missed_a_slow_round_is_projected_with_it():
    """1000 tokens/s in three of four rounds, and the others say that the fourth was 0.7 as fast."""
    rows = [row for row in unequal_rounds() if row["trial_id"].endswith(("0", "1"))]
    rows = [row for row in rows if (row["trial_id"][-1], row["round"]) != ("0", 0)]
    rows += [row | {"trial_id": "2".zfill(12), "micro_batch_size": 16} for row in unequal_rounds()[:4]]
    for row in rows[-4:]:
        row["valid_tokens_per_s"] *= 0.5
    result = choose(rows)
    projection = result.projection
    assert (chosen(result), projection.rounds, projection.rounds_missing) == (0, 3, 1)
    assert result.choice.speed == pytest.approx(1000, rel=0.01)
    true = 4 / (3 / 1000 + 1 / 700)
    assert projection.valid_tokens_per_s == pytest.approx(true, rel=0.01)
    assert projection.hours.amount == pytest.approx(1e9 / projection.valid_tokens_per_s / 3600)
    low, high = projection.valid_tokens_per_s_low, projection.valid_tokens_per_s_high
    assert low < true < 1000 < high
    assert any("not measured in 1 of 4 rounds" in caveat for caveat in result.caveats)
    assert "3 rounds, estimated for the 1 it missed" in " ".join(recommendation_text(result).split())
    assert ending(rows)[-1] == "but not measured in 1 of 4 rounds"


def test_an_unknown_number_of_ranks_has_no_gpu_hours():
    """Missing is null, not an error; and asked for so many GPUs it is out."""
    rows = launches([config(1000)])
    for row in rows:
        row["world_size"] = None
    result = choose(rows, price_per_gpu_hour=2.0)
    assert (result.projection.gpu_hours, result.projection.price) == (None, None)
    text = " ".join(recommendation_text(result).split()).replace("- ", "-")
    assert "rank-hours unknown" in text
    assert "None" not in text
    with pytest.raises(BenchError, match="its number of ranks was not recorded"):
        choose(rows, gpus=2)


def test_next_to_no_tokens_per_update_gives_no_number_of_updates():
    """The quotient would be infinite."""
    rows = launches([config(1000)])
    for row in rows:
        row["valid_tokens_per_update"] = 5e-324
    assert choose(rows).projection.updates is None


@pytest.mark.parametrize("text", [None, "", "{", "[]", "3", "{}", '{"micro_batch_size": 4}'])
def test_a_configuration_that_is_not_the_rows_gives_no_sweep_file(text):
    """It says so; a file of something else would be measured for nothing."""
    result = choose(launches([config(1000, config_json=text)]))
    assert "  not available: the row's config_json is missing or contradicts" in recommendation_text(result)
    assert json.loads(recommendation_json(result))["sweep_file"] is None


def test_the_first_line_names_the_threads_where_they_were_an_axis():
    """All that tells the choice apart stands in it; the ranks once."""
    rows = launches([config(1000 * threads, cpu_threads_per_rank=threads) for threads in (1, 2)])
    first = " ".join(recommendation_text(choose(rows), 110).split("\n\n")[0].split())
    assert "accumulation steps, 1 rank, 2 threads per rank, but" in first


def test_unlike_machines_are_refused():
    """Speeds of two machines do not compare."""
    rows = launches([config(1000), config(2000, micro_batch_size=4, cpu_model="Another CPU")])
    with pytest.raises(BenchError, match=r"different machines .*cpu_model.*--where"):
        choose(rows)


ANOTHER_PROBLEM = {
    "model": ("gpt2-mini", "gpt2-nano"),
    "tail": ("keep", "drop"),
    "lr": (3e-4, 2e-3),
    "param_dtype": ("fp32", "bf16"),
    "clip_norm": (None, 1.0),
    "seed": (1, 2),
}


@pytest.mark.parametrize("name", ANOTHER_PROBLEM)
def test_what_trains_something_else_is_no_alternative(name):
    """A smaller model, or an epoch without its tail, is not a faster configuration: choose one, how is said."""
    one, other = ({name: value} for value in ANOTHER_PROBLEM[name])
    rows = launches([config(1000, **one), config(900, micro_batch_size=4, **one), config(2000, **other)])
    with pytest.raises(BenchError, match=rf"2 training problems, which differ in {name}: ") as error:
        choose(rows)
    _, *options = str(error.value).splitlines()
    answers = []
    for option in options:
        condition = parse_condition(shlex.split(option)[1])
        answers.append(chosen(choose([row for row in rows if condition.mask([row.get(name)])[0]])))
    assert answers == [0, 2]


def test_what_failed_in_another_problem_does_not_stop_the_answer():
    """Only what is in the running must train the same."""
    assert chosen(choose(launches([config(1000), config(None, tail="drop")]))) == 0


def test_other_data_under_the_same_settings_is_refused():
    """A corpus that changed between two sweeps is other work."""
    with pytest.raises(BenchError, match=r"the same settings did different work .*corpus_hash"):
        choose(launches([config(1000, corpus_hash="a"), config(2000, micro_batch_size=4, corpus_hash="b")]))


def test_the_global_batch_is_exact_or_refused():
    """No nearest one is offered instead."""
    rows = launches([config(1000), config(2000, global_batch_size=128)])
    with pytest.raises(BenchError, match=r"2 global batches were measured \(64, 128\)"):
        choose(rows)
    with pytest.raises(BenchError, match="no row has a global batch of 100"):
        choose(rows, global_batch_size=100)
    assert chosen(choose(rows, global_batch_size=128)) == 1


def test_nothing_to_choose_lists_why():
    """All out of memory: no recommendation, with the reasons."""
    with pytest.raises(BenchError, match=r"nothing to recommend[\s\S]*oom: out of memory"):
        choose(launches([config(None), config(None, micro_batch_size=4)]))


def test_duplicate_configurations_are_one_with_more_rounds():
    """The same trial measured in a second sweep adds its launches, under one name."""
    one, other = launches(WINNER), launches(WINNER, seed=1)
    for row in other:
        row["sweep"] = "again"
    result = choose([*one, *other])
    assert len(result.choice.speeds) == 6
    assert len(result.others) == 2


def test_the_projection_is_arithmetic():
    """3600 tokens/s for 3.6e9 tokens on 2 ranks: 277.8 h, 555.6 GPU-hours; 8192 tokens per update."""
    rows = launches([config(3600, world_size=2, micro_batch_size=4, joules_per_valid_token=0.5)], sd=0, drift=0)
    for row in rows:
        row["joules_per_valid_token"] = 0.5
    projection = choose(rows, run_tokens=3_600_000_000, price_per_gpu_hour=2.0).projection
    assert projection.hours.amount == pytest.approx(1e6 / 3600)
    assert projection.gpu_hours.amount == pytest.approx(2e6 / 3600)
    assert projection.price.amount == pytest.approx(4e6 / 3600)
    assert projection.updates == math.ceil(3_600_000_000 / 8192)
    assert projection.joules.amount == pytest.approx(1.8e9)
    assert (projection.hours.low, projection.hours.high) == (pytest.approx(1e6 / 3600), pytest.approx(1e6 / 3600))


def test_fewer_ranks_than_gpus_are_said():
    """Nothing is extrapolated to more ranks."""
    result = choose(launches(WINNER), gpus=8)
    assert any("uses 1 of 8 GPUs" in caveat for caveat in result.caveats)


def test_the_end_of_a_sweep_is_two_to_four_lines():
    """What to run, how sure, what else; and one line where there is no answer."""
    for rows in (launches(WINNER), launches(WINNER, rounds=1), launches([config(1000), config(999, seed=2)])):
        lines = recommendation_lines(table_of_rows(rows, schema()))
        assert 1 <= len(lines) <= 4
        assert lines[0].startswith("run ")


def ending(rows):
    return recommendation_lines(table_of_rows(rows, schema()))


def test_a_sweep_over_what_is_trained_ends_with_a_line_for_each_problem():
    """Each names its own fastest; that they are no alternatives is said."""
    rows = launches(
        [
            config(speed, tail=tail, micro_batch_size=micro, **PROVEN)
            for speed, tail, micro in ((1000, "keep", 4), (1500, "keep", 8), (3000, "drop", 4), (2000, "drop", 8))
        ]
    )
    keep, drop, note = ending(rows)
    assert keep.startswith("tail keep: run fp32 8 x 8: 1.")
    assert drop.startswith("tail drop: run fp32 4 x 16: 2.9")
    assert note == "one line per training problem: another tail trains something else"


def test_global_batches_are_problems_too_and_a_failed_one_says_why():
    """Nothing is hidden behind the first answer."""
    small, large, failed, _ = ending(
        launches(
            [
                config(1000, **PROVEN),
                config(2000, global_batch_size=128, **PROVEN),
                config(None, global_batch_size=256),
            ]
        )
    )
    assert small.startswith("global batch 64: run fp32 8 x 8")
    assert large.startswith("global batch 128: run fp32 8 x 16")
    assert failed.startswith("global batch 256: no recommendation: nothing to recommend")


def test_many_problems_get_one_line():
    """Thirty seeds are no thirty lines."""
    (line,) = ending(launches([config(1000, seed=seed) for seed in range(30)], rounds=1))
    assert (
        line == "no recommendation: 30 training problems, which differ in seed; choose one, such as --where 'seed == 0'"
    )


def test_json_is_strict_whatever_the_values():
    """A diverged loss or an infinite ratio is null, never NaN."""
    rows = launches([config(1000, final_train_loss=math.nan, proof="PASS", proof_error=math.inf)])
    document = json.loads(recommendation_json(choose(rows)), parse_constant=pytest.fail)
    assert document["format"] == 1
    assert document["choice"]["proof_error"] is None
