"""A global batch that was not measured gets predictions, marked as such."""

from bench.report.predicted import predicted_lines
from tests.unit.report.test_law import rows


def test_the_prediction_is_the_laws_arithmetic():
    """163,840 tokens in 20 updates of A = 1: 8192 per 8 sequences; at A = 10 an update takes 0.25 s."""
    measured = [{**row, "valid_tokens_per_update": 1024.0 * row["global_batch_size"]} for row in rows([1, 2, 4])]
    head, line = predicted_lines(measured, 80)
    assert head.startswith("Predicted by the two-point law, not measured")
    assert line == "  fp32 8 x 10: 328k valid tokens/s (328k to 328k), peak 160 B"


def test_what_does_not_divide_or_breaks_the_law_is_not_hidden():
    """No prediction for an indivisible batch; a failing law says so beside its figure."""
    measured = rows([1, 2, 4, 8], bend=0.002, sd=0.001)
    assert predicted_lines(measured, 81) == []
    assert "but the law fails here" in predicted_lines(measured, 160)[1]
