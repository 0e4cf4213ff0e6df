"""A global batch that was not measured gets predictions, marked as such."""

from bench.decide.predicted import predicted_lines
from bench.decide.question import Question
from bench.report.configurations import configurations_of
from tests.planted import config, launches
from tests.unit.decide.test_law import rows


def predict(measured, batch, **asked):
    return predicted_lines(measured, configurations_of(measured), Question(batch, **asked))


def trials(measured):
    """Give every accumulation count a trial id of its own, and tokens in proportion."""
    return [
        {
            **row,
            "trial_id": f"{row['accumulation_steps']:012x}",
            "valid_tokens_per_update": 1024.0 * row["global_batch_size"],
        }
        for row in measured
    ]


def line_of(*changes, batch=256, **asked):
    """Predict from two global batches, each configuration with the changes of one argument."""
    measured = launches(
        [config(1000, micro_batch_size=4, global_batch_size=size, **one) for one in changes for size in (64, 128)]
    )
    return predict(measured, batch, **asked)[1:]


def test_the_prediction_is_the_laws_arithmetic():
    """163,840 tokens in 20 updates of A = 1: 8192 per 8 sequences; at A = 3 an update takes 0.11 s."""
    head, line = predict(trials(rows([1, 2, 4])), 24)
    assert head.startswith("Predicted by the two-point law, not measured")
    assert line == "  fp32 8 x 3: 223k valid tokens/s (223k to 223k), peak 160 B"


def test_beyond_the_measured_counts_it_says_extrapolated():
    """A = 10 from 1 to 4: an update takes 0.25 s, if the line goes on."""
    line = predict(trials(rows([1, 2, 4])), 80)[1]
    assert line == (
        "  fp32 8 x 10: 328k valid tokens/s (328k to 328k), peak 160 B; extrapolated from 1 to 4 accumulation steps"
    )


def test_what_does_not_divide_or_breaks_the_law_is_not_hidden():
    """No prediction for an indivisible batch; a failing law says so beside its figure."""
    measured = trials(rows([1, 2, 4, 8], bend=0.002, sd=0.001))
    assert predict(measured, 81) == []
    assert "but the law fails here" in predict(measured, 160)[1]


def test_more_ranks_than_asked_are_not_predicted():
    """The question holds for what was not measured too."""
    (line,) = line_of({"world_size": 1}, {"world_size": 8}, gpus=2)
    assert line.startswith("  fp32 4 x 64, 1 rank: ")
    assert len(line_of({"world_size": 1}, {"world_size": 8}, gpus=8)) == 2


def test_what_could_not_be_chosen_is_not_predicted_from():
    """A failed proof, retried allocations and a throttled GPU hold at every global batch."""
    for bad in ({"proof": "FAIL"}, {"alloc_retries": 7}, {"flags": ["throttled_hw"]}, {"flags": ["no_gradient"]}):
        assert line_of(bad) == []
    (line,) = line_of({"proof": "PASS"}, {"lr": 3e-3})
    assert line.startswith("  fp32 4 x 64")


def test_predictions_of_two_learning_rates_have_two_names():
    """What tells them apart is said."""
    first, second = line_of({"lr": 1e-3}, {"lr": 3e-3})
    assert {line.split(":")[0] for line in (first, second)} == {"  fp32 4 x 64, lr 1e-3", "  fp32 4 x 64, lr 3e-3"}


def test_unlike_machines_are_not_ranked_together():
    """Nothing is predicted, and why is said."""
    measured = launches(
        [
            config(speed, micro_batch_size=4, global_batch_size=size, cpu_model=cpu)
            for speed, cpu in ((1000, "One"), (2000, "Two"))
            for size in (64, 128)
        ]
    )
    (line,) = predict(measured, 256)
    assert "different machines" in line


def test_an_interval_that_reaches_zero_seconds_has_no_upper_rate_and_says_so():
    """Launches that differ by half: the prediction must not stand there bare."""
    line = predict(trials(rows([1, 2, 4], sd=0.6, rounds=2, seed=3)), 80)[1]
    assert "(at least " in line
    assert "vary too much for an upper bound)" in line
