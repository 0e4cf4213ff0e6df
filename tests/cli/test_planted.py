"""Planted results whose right answer is known: what `recommend` and `compare` say, and with which exit code."""

import json
import math

import pytest
from click.testing import CliRunner

from bench.cli import main
from tests.planted import MIB, config, launches, store

GOOD = config(1000, micro_batch_size=4)


def run(*words):
    return CliRunner().invoke(main, list(map(str, words)), env={"COLUMNS": "120"})


def again(rows, sweep="again"):
    return [{**row, "sweep": sweep, "started_utc": "2026-11-30T00:00:00Z"} for row in rows]


def oom_in_one(rows):
    rows[1] |= {"outcome": "oom", "reason": "out of memory in forward", "valid_tokens_per_s": None}
    return rows


# Rows, options of recommend, its exit code, the place of its choice or words of its message, and what compare says of
# the last configuration against the first: a verdict, words of its reason, or words on stderr.
PLANTED = {
    "known winner": (launches([config(1000), config(1300, micro_batch_size=16)]), [], 0, 1, "faster"),
    "tie": (
        launches(
            [config(1003, peak_allocated_bytes=400 * MIB), config(1000, micro_batch_size=4, peak_allocated_bytes=MIB)],
            rounds=6,
        ),
        [],
        0,
        1,
        "same",
    ),
    "out of memory": (launches([GOOD, config(None, micro_batch_size=64)]), [], 0, 0, "out of memory"),
    "out of memory once": (oom_in_one(launches([config(2000), GOOD])), [], 0, 1, "slower"),
    "failed proof": (launches([config(2000, proof="FAIL"), GOOD]), [], 0, 1, "slower"),
    "unequal global batches": (launches([GOOD, config(2000, global_batch_size=128)]), [], 2, "2 global batches", "128"),
    "asked global batch": (
        launches([GOOD, config(2000, global_batch_size=128)]),
        ["--global-batch-size", "128"],
        0,
        1,
        "different global batches",
    ),
    "unlike machines": (
        launches([GOOD, config(2000, cpu_model="Other")]),
        [],
        2,
        "different machines",
        "different machines",
    ),
    "other training": (
        launches([config(1000, tail="keep"), config(2000, tail="drop")]),
        [],
        2,
        "--where 'tail == drop'",
        "faster",
    ),
    "null": (launches([GOOD, config(2000, valid_tokens=None)]), [], 0, 0, "no throughput"),
    "zero": (launches([GOOD, config(2000, valid_tokens=0)]), [], 0, 0, "no throughput"),
    "nan": (launches([GOOD, config(2000, valid_tokens=163_840, timed_s=math.nan)]), [], 0, 0, "no throughput"),
    "nan loss": (launches([GOOD, config(2000, final_train_loss=math.nan)]), [], 0, 1, "faster"),
    "single round": (launches([config(1300, micro_batch_size=8), GOOD], rounds=1), [], 0, 0, "unclear"),
    "duplicates": (
        [*launches([GOOD, config(1300)]), *again(launches([GOOD, config(1300)], seed=1))],
        [],
        0,
        1,
        "faster",
    ),
    "unequal rounds": (launches([config(1000), config(900, micro_batch_size=4)])[:-1], [], 0, 0, "slower"),
    "nothing ran": (launches([config(None), config(None, micro_batch_size=4)]), [], 2, "nothing to recommend", ""),
    "one configuration": (launches([GOOD]), [], 0, 0, "only configuration"),
}


@pytest.fixture(params=PLANTED, ids=lambda name: name.replace(" ", "-"))
def case(request, tmp_path):
    """The stored rows of one case, and what is right."""
    rows, *right = PLANTED[request.param]
    sweeps = list(dict.fromkeys(row["sweep"] for row in rows))
    folders = [store(tmp_path / name, [row for row in rows if row["sweep"] == name]) for name in sweeps]
    return folders, right


def test_recommend_answers_with_its_exit_code(case):
    """The choice as JSON and exit 0, or the reason on stderr, nothing on stdout and exit 2."""
    folders, (options, code, answer, _) = case
    result = run("recommend", *folders, *options, "--format", "json")
    assert result.exit_code == code
    if isinstance(answer, str):
        assert (result.stdout, answer in result.stderr) == ("", True)
    else:
        document = json.loads(result.stdout, parse_constant=pytest.fail)
        assert int(document["choice"]["config"]["trial_id"], 16) == answer
        assert not any((other["valid_tokens_per_s_ratio_low"] or 0) > 1.005 for other in document["ties"])


def test_compare_answers_with_its_exit_code(case):
    """A verdict or a reason and exit 0, or the reason on stderr and exit 2."""
    folders, (*_, said) = case
    result = run("compare", *folders, *["--pool"][: len(folders) - 1], "--format", "json")
    if not result.stdout:
        assert (result.exit_code, said in result.stderr) == (2, True)
        return
    assert result.exit_code == 0
    last = json.loads(result.stdout, parse_constant=pytest.fail)["rows"][-1]
    assert said == last.get("verdict") or said in (last["reason"] or "")


def test_the_report_of_every_case_is_a_page(case, tmp_path):
    """Whether there is an answer or none, the page says so and exit is 0."""
    folders, (options, _, answer, _) = case
    result = run("report", *folders, "--out", tmp_path / "page.html", *options)
    assert result.exit_code == 0
    page = (tmp_path / "page.html").read_text()
    assert ("<h1>Run " in page) == isinstance(answer, int)
