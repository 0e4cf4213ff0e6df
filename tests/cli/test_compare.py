"""`bench compare` prints verdicts and has documented exit codes."""

import json

import pytest
from click.testing import CliRunner

from bench.cli import main
from tests.planted import config, launches, losses, store


def run(*words, width=120):
    return CliRunner().invoke(main, ["compare", *map(str, words)], env={"COLUMNS": str(width)})


@pytest.fixture
def folder(tmp_path):
    rows = launches([config(1000), config(1100, micro_batch_size=16), config(900, micro_batch_size=4)])
    return store(tmp_path / "r", rows, lambda row: losses([5.5, 5.4]))


def test_verdicts_go_to_stdout_and_slower_rows_are_no_failure(folder):
    """Exit 0 unless a gate was asked for."""
    result = run(folder)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "baseline: fp32 8 x 8" in result.stdout
    lines = {line.split("  ")[0]: line for line in result.stdout.splitlines()}
    assert "faster" in lines["fp32 16 x 4"]
    assert "slower" in lines["fp32 4 x 16"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--fail-on", "slower"], 1, "--fail-on slower: fp32 4 x 16"),
        (["--fail-on", "slower", "--where", "micro_batch_size >= 8"], 0, ""),
        (["--fail-on", "unclear"], 0, ""),
        (["--fail-on", "loss"], 0, ""),
        (["--baseline", "micro_batch_size == 4", "--fail-on", "slower"], 0, ""),
        (["--baseline", "micro_batch_size == 5"], 2, "no configuration matches"),
        (["--fail-on", "wrong"], 2, "'wrong' is not one of"),
    ],
)
def test_exit_codes(folder, words, code, said):
    """A gate exits 1 and names what failed it; usage exits 2."""
    result = run(folder, *words)
    assert (result.exit_code, said in result.stderr) == (code, True)


def test_a_candidate_that_lost_its_speed_fails_the_gate(tmp_path):
    """It ran out of memory where the baseline ran: CI must not pass."""
    folder = store(tmp_path / "r", launches([config(1000), config(None), config(1000, micro_batch_size=4)]))
    assert run(folder).exit_code == 0
    assert run(folder, "--fail-on", "slower").exit_code == 1


def test_a_refused_candidate_decides_nothing(tmp_path):
    """A gate that cannot decide does not pass."""
    rows = launches([config(1000), config(1000, global_batch_size=128), config(1000, micro_batch_size=4)])
    folder = store(tmp_path / "r", rows)
    assert run(folder).exit_code == 0
    result = run(folder, "--fail-on", "slower")
    assert result.exit_code == 2
    assert "1 candidates were refused" in result.stderr


def test_force_shows_a_banner(tmp_path):
    """On stderr, so that data on stdout stay data, and in the table."""
    rows = launches([config(1000), config(1000, global_batch_size=128)])
    folder = store(tmp_path / "r", rows)
    assert run(folder).exit_code == 2
    result = run(folder, "--force", "--format", "json")
    assert result.exit_code == 0
    assert result.stderr.startswith("FORCED")
    assert json.loads(result.stdout)["forced"] is True


def test_loss_curves_that_differ_fail_their_gate(tmp_path):
    """The gate for whoever changes the loop."""
    rows = launches([config(1000), config(1000, micro_batch_size=4)])
    folder = store(tmp_path / "r", rows, lambda row: losses([5.5 if row["trial_id"].endswith("0") else 5.0]))
    result = run(folder, "--fail-on", "loss")
    assert result.exit_code == 1
    assert "loss curves differ first at update 0: 5.5 against 5" in result.stdout


def test_help_is_complete():
    """Imperative line, example, units, exit behaviour."""
    text = run("--help").stdout
    assert "Compare candidates with a baseline." in text
    assert "Example:\n    bench compare results/quickstart" in text
    assert "exit 1" in text.lower()


def test_a_loss_that_was_not_compared_decides_nothing(tmp_path):
    """Where no losses are stored, or of other training, a gate on them must not pass."""
    folder = store(tmp_path / "r", launches([config(1000), config(1000, micro_batch_size=4)]))
    assert run(folder).exit_code == 0
    result = run(folder, "--fail-on", "loss")
    assert result.exit_code == 2
    assert "was not compared (losses were not stored for both), so this is undecided" in result.stderr


@pytest.mark.parametrize("side", [0, 1])
def test_a_failed_proof_on_either_side_decides_nothing(tmp_path, side):
    """What does other work than was asked is no ground for a gate."""
    proofs = ["PASS", "PASS"]
    proofs[side] = "FAIL"
    rows = launches([config(1000, proof=proofs[0]), config(1100, micro_batch_size=4, proof=proofs[1])])
    folder = store(tmp_path / "r", rows)
    assert run(folder).exit_code == 0
    result = run(folder, "--fail-on", "slower")
    assert result.exit_code == 2
    assert "the accumulation proof of" in result.stderr


@pytest.fixture
def pair(tmp_path):
    """Two results of one sweep: one configuration became slower, one is gone, one fails now."""
    quiet = {"sd": 0.001, "drift": 0.001}
    before = [config(1000), config(1100, micro_batch_size=16), config(900, micro_batch_size=4)]
    after = [config(950), config(1100, micro_batch_size=16, outcome="failed", reason="RuntimeError: no")]
    after[1]["speed"] = None
    later = [row | {"started_utc": "2026-11-29T14:00:00Z"} for row in launches(after, seed=7, **quiet)]
    return [
        store(tmp_path / name, rows, lambda row: losses([5.5, 5.4]))
        for name, rows in (("before", launches(before, **quiet)), ("after", later))
    ]


def test_two_results_are_before_and_after(pair):
    """Each configuration against itself; what changed is above the table, and what has no ratio in it."""
    result = run(*pair)
    assert (result.exit_code, result.stderr) == (0, "")
    title, facts, *lines = result.stdout.splitlines()
    assert title == "after against before: 1 slower, 1 without a ratio, 1 only in before"
    assert facts.startswith("after was measured 2.00 h later than before. Changed between them: nothing")
    rows = {line.split("  ")[0]: line for line in lines}
    assert "slower" in rows["fp32 8 x 8"]
    assert "in after: failed: RuntimeError: no" in rows["fp32 16 x 4"]
    assert "only in before: 900 valid tokens/s" in rows["fp32 4 x 16"]


@pytest.mark.parametrize(
    ("fail_on", "code", "said"),
    [
        (["missing"], 1, ["missing: fp32 16 x 4", "missing: fp32 4 x 16 is only in before"]),
        (["slower"], 1, ["slower: fp32 8 x 8", "slower: fp32 16 x 4"]),
        (["slower", "missing"], 1, ["slower: fp32 8 x 8", "missing: fp32 4 x 16 is only in before"]),
        (["unclear"], 0, []),
    ],
)
def test_gates_between_two_results(pair, fail_on, code, said):
    """What is not there any more fails a gate of its own."""
    result = run(*pair, *(word for name in fail_on for word in ("--fail-on", name)))
    assert result.exit_code == code
    for words in said:
        assert f"--fail-on {words}\n" in result.stderr


def test_missing_fails_within_one_result_too(tmp_path):
    """A candidate without a speed is no agreement; one that has one is."""
    rows = launches([config(1000), config(None, micro_batch_size=64), config(1100, micro_batch_size=4)])
    folder = store(tmp_path / "r", rows)
    result = run(folder, "--fail-on", "missing")
    assert (result.exit_code, result.stderr) == (1, "--fail-on missing: fp32 64 x 1\n")
    assert run(folder, "--fail-on", "missing", "--where", "micro_batch_size < 64").exit_code == 0


def test_pooled_they_are_one_set_of_rounds(pair):
    """As it was before two results were two sides."""
    result = run(*pair, "--pool", "--format", "json", "--force")
    assert result.exit_code == 0
    base, *_ = json.loads(result.stdout)["rows"]
    assert (base["role"], base["folder"], base["rounds"]) == ("baseline", "before + after", 6)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{before}", "{after}", "{third}"], "3 RESULTS: one holds a baseline and its candidates, two are before and"),
        (["{before}", "{after}", "--baseline", "micro_batch_size == 8"], "make one set with --pool"),
        (["{before}", "{after}", "--where", "micro_batch_size == 4"], "no row of after matches the conditions"),
        (["{before}", "--run", "--pool"], "--pool does not go with --run"),
        (["{before}", "--pool", "--reference"], "--pool does not go with --reference"),
        (["{before}", "--fail-on", "missing", "--reference"], "--fail-on missing does not go with --reference"),
    ],
)
def test_questions_without_a_meaning_exit_2_with_the_way_out(pair, tmp_path, words, said):
    """And leave stdout empty."""
    third = store(tmp_path / "third", launches([config(1000)], seed=3))
    places = {"before": pair[0], "after": pair[1], "third": third}
    result = run(*(word.format(**places) for word in words))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.split())


@pytest.mark.parametrize("command", ["compare", "show", "plot", "report", "recommend"])
@pytest.mark.parametrize("pool", [[], ["--pool"]])
@pytest.mark.parametrize("spelt", ["{0}", "{0}/", "{0}/results.parquet", "{1}"])
def test_a_result_beside_itself_is_refused_by_every_command(folder, tmp_path, command, pool, spelt):
    """Its rounds would count twice, however it is spelt."""
    link = tmp_path / "link"
    link.symlink_to(folder)
    out = ["--out", str(tmp_path / "out")] if command in ("plot", "report") else []
    result = CliRunner().invoke(main, [command, str(folder), spelt.format(folder, link), *pool, *out])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "its launches would count twice" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["plot", "report"])
def test_versions_of_the_method_share_no_picture(tmp_path, command):
    """One frontier through both would recommend whatever the newer version measures better."""
    changes = [{"measurement_version": number, "started_utc": f"2026-11-29T12:0{number}:00Z"} for number in (1, 2)]
    rows = [row | change for change in changes for row in launches([config(1000)], rounds=1)]
    one, other = (store(tmp_path / str(number), [row]) for number, row in enumerate(rows))
    result = CliRunner().invoke(main, [command, str(one), str(other), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "different measurement versions (1, 2)" in result.stderr


def test_a_name_as_tables_print_it_is_chosen_though_rows_were_skipped(tmp_path):
    """A skipped axis value is in the names of tables; the short name is understood as well."""
    from bench.cli.choose import choices_of, choose
    from bench.record.config_columns import config_columns
    from bench.sweep.fields import TrialConfig
    from bench.sweep.trial import trial_id

    base = {"device": "cpu", "model": {"preset": "gpt2-nano"}, "seq_len": 32, "global_batch_size": 8}
    configs = [
        TrialConfig.model_validate(base | {"micro_batch_size": micro, "world_size": ranks, "accumulation_steps": None})
        for micro, ranks in ((2, 1), (4, 1), (2, 2))
    ]
    rows = []
    for one in configs:
        outcome = {} if one.world_size == 1 else {"outcome": "skipped", "round": None, "attempt": None}
        steps = 8 // (one.micro_batch_size * one.world_size)
        columns = config_columns(one) | {"accumulation_steps": steps}
        rows.append({**launches([config(1000)], rounds=1)[0], **columns, "trial_id": trial_id(one), **outcome})
    folder = store(tmp_path / "r", rows)
    choices = choices_of(folder, None)
    for names in (["fp32 2 x 4, 1 rank", "fp32 4 x 2, 1 rank"], ["fp32 2 x 4", "fp32 4 x 2"]):
        assert [one.config.micro_batch_size for one in choose(choices, names, folder)] == [2, 4]
