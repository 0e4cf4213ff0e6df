"""The page says the finding first, holds everything it needs, and is the same every time."""

import json
import re

import pyarrow as pa
import pytest

from bench.decide.recommend import Question
from bench.page import chart
from bench.page.build import build_page
from bench.page.data import details
from bench.record.parquet_file import table_of_rows
from bench.record.schema import schema
from tests.planted import PROVEN, config, launches
from tests.strategies import numbered, ok_row, quickstart_rows

ROWS = launches(
    [
        config(1000, micro_batch_size=4),
        config(1300, micro_batch_size=8, amp_mode="bf16"),
        config(None, micro_batch_size=64),
    ]
)


def build(rows, **options):
    return build_page(table_of_rows(rows, schema()), **options)


def data_of(text):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text)[1])


@pytest.fixture(scope="module")
def plain():
    return build(ROWS, interactive=False)


def test_the_finding_comes_first(plain):
    """What to run is the first heading; what did not run is listed with its reason."""
    assert re.search(r"<h1>(.*?)</h1>", plain.text)[1] == (
        "Run bf16 with micro-batch 8 \u00d7 8 accumulation steps on 1 rank"
    )
    assert "<b>fp32 64 x 1</b>: oom: out of memory" in plain.text
    assert "its accumulation proof was not run" in plain.text


def test_without_the_extra_the_chart_is_a_picture(plain):
    """Nothing is lost but the clicks."""
    assert not plain.is_interactive
    assert "data:image/svg+xml;base64," in plain.text
    assert "vegaEmbed(" not in plain.text.split('<script id="data"')[0]


def test_nothing_is_fetched(plain):
    """No address of the network is in an attribute, and the page's own policy forbids it."""
    for text in (plain.text, build(ROWS).text):
        head = text.split('<script id="data"')[0]
        assert not re.search(r'(?:src|href)="(?!data:)', head)
        assert "default-src 'none'" in head


def test_every_configuration_is_in_the_table(plain):
    """With raw values to sort by and words to read; missing is null."""
    entries = data_of(plain.text)["configurations"]
    assert [(one["name"], one["standing"]) for one in entries] == [
        ("bf16 8 x 8", "choice"),
        ("fp32 4 x 16", "slower"),
        ("fp32 64 x 1", "out"),
    ]
    assert (entries[2]["speed"], entries[2]["peak"], entries[2]["speed_words"]) == (None, None, "-")


def test_text_from_outside_cannot_become_markup():
    """A model name is text, also inside the script element."""
    evil = "</script><script>alert(1)</script><b>"
    page = build(numbered([ok_row(model=evil), ok_row(model=evil, micro_batch_size=4, error_text=evil)]))
    assert "<script>alert" not in page.text
    assert "<b>&" not in page.text
    assert evil in str(data_of(page.text)["configurations"][0]["details"])


def test_several_problems_get_an_answer_each_and_the_table_is_still_there():
    """Two global batches: a line for each; with --global-batch-size the usual page."""
    rows = launches([config(1000, **PROVEN), config(1000, global_batch_size=128, **PROVEN)])
    page = build(rows, interactive=False)
    assert "<h1>Several training problems</h1>" in page.text
    assert "<li>global batch 64: run fp32 8 x 8:" in page.text
    assert "<li>global batch 128: run fp32 8 x 16:" in page.text
    assert len(data_of(page.text)["configurations"]) == 2
    asked = build(rows, question=Question(global_batch_size=128), interactive=False)
    assert "<h1>Run fp32" in asked.text


def test_no_answer_is_said_and_the_table_is_still_there():
    """Unlike machines: the page says why there is no answer."""
    page = build(launches([config(1000), config(1000, cpu_model="Other")]), interactive=False)
    assert "<h1>No recommendation</h1>" in page.text
    assert "different machines" in page.text
    assert len(data_of(page.text)["configurations"]) == 2


def test_all_failed_says_so():
    """Nothing to draw is no empty chart."""
    page = build(launches([config(None), config(None, micro_batch_size=4)]))
    assert "Nothing to draw" in page.text
    assert "nothing to recommend" in page.text


def test_the_same_rows_give_the_same_page(plain):
    """Byte for byte, plain and interactive, whatever was drawn before (goal M10)."""
    assert build(ROWS, interactive=False).text == plain.text
    assert build(ROWS).text == build(ROWS).text


def many_launches(count):
    """Repeat the rows of 40 configurations, a tenth of them failed, each under trial ids and reasons of its own."""
    modes = ("fp32", "bf16", "fp16")
    configs = [config(1000 + n, micro_batch_size=2 ** (n % 7), amp_mode=modes[n % 3]) for n in range(36)]
    base = table_of_rows(launches([*configs, *[config(None, micro_batch_size=64)] * 4]), schema())
    copies = -(-count // len(base))
    table = pa.concat_tables([base] * copies).slice(0, count)
    trials = [f"{place // 3:012x}" for place in range(count)]
    failed = table.column("outcome").to_pylist()
    reasons = [None if word == "ok" else f"reason {place}: {'x' * 500}" for place, word in enumerate(failed)]
    for name, values in (("trial_id", trials), ("reason", reasons)):
        table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.string()))
    return table


@pytest.mark.slow
@pytest.mark.parametrize("interactive", [True, False])
def test_many_rows_are_summarised_and_the_page_says_so(interactive):
    """100,000 launches: under 3 MB, an answer, and what was left out, of configurations and of reasons, is said."""
    page = build_page(many_launches(100_000), interactive=interactive)
    assert len(page.text.encode()) < 3_000_000
    assert (page.total, page.shown <= 450) == (33_334, True)
    assert f"Summarised: {page.shown} of 33,334 configurations" in page.text
    assert "<h1>Run fp16 with micro-batch" in page.text
    assert "No further figures: 100,000 launches" in page.text
    assert re.search(r"<li>and [0-9,]+ further reasons</li>", page.text)


@pytest.mark.slow
def test_a_summary_keeps_one_of_each_reason_for_failing():
    """The only failure of its kind among a thousand configurations is not lost."""
    table = many_launches(3000)
    reasons = table.column("reason").to_pylist()
    reasons = [None if reason is None else "as usual" for reason in reasons[:-3]] + ["the only one of its kind"] * 3
    outcomes = [*table.column("outcome").to_pylist()[:-3], *["oom"] * 3]
    for name, values in (("reason", reasons), ("outcome", outcomes)):
        table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.string()))
    page = build_page(table, interactive=False)
    assert page.shown < page.total
    assert "the only one of its kind" in page.text


def test_the_chart_holds_the_points_and_their_frontier():
    """The plotted data, not the pixels; a failure is no point at zero."""
    spec = data_of(build(numbered(quickstart_rows())).text)["chart"]
    values = spec["datasets"]["configurations"] if "datasets" in spec else spec["data"]["values"]
    assert len(values) == 7
    assert all(value["speed"] > 0 and value["memory"] > 0 for value in values)
    assert {value["name"] for value in values if value["frontier"].startswith("on")} >= {"bf16 64 x 1"}


def test_a_missing_extra_is_no_error(monkeypatch):
    """Without vl-convert there is no script, and the picture takes its place."""
    import sys

    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert chart.chart_script() is None
    assert not build(ROWS).is_interactive


def test_the_law_is_marked_as_predicted():
    """Three accumulation counts of one micro-batch: what it says of others is no measurement; failures are said."""
    configs = [
        config(1000, accumulation_steps=steps, global_batch_size=8 * steps, peak_allocated_bytes=100 * steps)
        for steps in (1, 2, 4)
    ]
    text = build(launches(configs), interactive=False).text
    section = text.split("predicted, not measured</h2>")[1].split("<h2>")[0]
    assert "fp32 8 x A, measured at A = 1, 2, 4: update = " in section
    assert "<b>Does not hold:</b>" in section


def test_details_show_every_value_and_where_launches_differ():
    """Exact bytes beside readable ones; a column without a value is left out."""
    rows = launches([config(1000, peak_allocated_bytes=9_007_199_254_740_993)], rounds=2)
    shown = dict(entry for _, entries in details(rows) for entry in entries)
    assert shown["peak_allocated_bytes"].startswith("9,007,199,254,740,993 (")
    assert shown["round"] == "0 / 1"
    assert "phase" not in shown


def test_details_explain_the_flags():
    """A name alone tells nobody what is in doubt; one of a newer version stands as it is."""
    identity = dict(dict(details([ok_row(flags=["drift", "of_a_newer_version"])]))["identity"])
    assert identity["flags"] == (
        "drift (the last third of the timed part is slower or faster than the first third), of_a_newer_version"
    )
    assert "flags" not in dict(dict(details([ok_row(flags=[])]))["identity"])
