"""What a device computes, and with which kernel: held against float64, against what was asked, and seen."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_COLUMNS = "unit/rank/test_columns.py::"
_COMPUTES_NOTHING = (
    "unit/rank/test_arithmetic.py::test_a_device_that_computes_nothing_is_invalid_before_any_update",
    "cuda/test_arithmetic.py::test_a_gpu_that_computes_nothing_is_invalid_before_its_first_update",
)
_GRADIENTS_OF_NOTHING = "unit/check/test_precision_line.py::test_gradients_of_nothing_fail_though_one_product_is_right"

ARITHMETIC = (
    Mutation(
        "F39",
        "a launch on a device that computes nothing goes on",
        "    if reason is not None:  # nothing that follows would be worth its time\n",
        "    if False:\n",
        _COMPUTES_NOTHING,
    ),
    Mutation(
        "F39",
        "any product will do",
        "    if error is None or error <= ERROR_LIMITS[precision]:\n",
        "    if True:\n",
        _COMPUTES_NOTHING,
    ),
    Mutation(
        "F39",
        "a product that is no number has no error",
        "    return math.inf if math.isnan(error) else error\n",
        "    return 0.0 if math.isnan(error) else error\n",
        ("unit/measure/test_arithmetic.py::test_a_device_that_computes_something_else_fails_in_every_mode",),
    ),
    Mutation(
        "F39",
        "rows are too small to show a float16 in place of a longer type",
        "_factors(0 if is_short else _ROW_EXPONENTS)",
        "_factors(0)",
        ("unit/measure/test_arithmetic.py::test_float16_does_not_pass_as_a_type_of_larger_range",),
    ),
    Mutation(
        "F39",
        "the proof passes a device whose errors are equal, 1.0 against 1.0",
        "    if largest > limit:\n",
        "    if False:\n",
        (_GRADIENTS_OF_NOTHING,),
    ),
    Mutation(
        "F39",
        "the proof passes over gradients that are no number",
        "    return math.inf if math.isnan(norm) else norm  # or max() would pass over it\n",
        "    return norm\n",
        (_GRADIENTS_OF_NOTHING,),
    ),
    Mutation(
        "F39",
        "what the proof finds of a device is said of its step alone",
        '        row |= {"outcome": "invalid", "reason": contradiction, "phase": "finish"}\n',
        "        pass\n",
        ("unit/drive/test_proofs.py::test_a_device_that_computes_wrongly_makes_its_launches_invalid",),
    ),
    Mutation(
        "F39",
        "a device that once computed wrongly is never asked again",
        "_arithmetic_fault(proof) is None\n        }",
        "True\n        }",
        ("unit/drive/test_proofs.py::test_a_device_that_computes_wrongly_makes_its_launches_invalid",),
    ),
    Mutation(
        "F39",
        "a model may change torch's precision while it trains",
        '    changed = [f"{name} {was} -> {now[name]}"',
        '    changed = [] and [f"{name} {was} -> {now[name]}"',
        (_COLUMNS + "test_a_model_that_changes_the_precision_while_it_trains_makes_the_launch_invalid",),
    ),
    Mutation(
        "F39",
        "the switch of another kind of device is read",
        '    precision = _matmul_precision("cuda")\n',
        '    precision = _matmul_precision("mkldnn")\n',
        (
            "unit/loop/test_switches.py::test_older_getters_say_the_same_and_do_not_raise",
            "cuda/test_arithmetic.py::test_switches_are_read_from_where_they_act_on_a_gpu",
        ),
    ),
    Mutation(
        "F40",
        "grouped heads are left to whatever torch has for them",
        "    if _needs_repeated(query, key, value):\n",
        "    if False:\n",
        (
            "unit/workload/test_attention.py::test_repeated_only_where_that_gives_a_fused_kernel",
            "cuda/test_attention.py::test_every_launch_runs_a_fused_kernel_and_says_which",
        ),
    ),
    Mutation(
        "F40",
        "the mathematical form of attention goes unseen",
        '            self._names.add("math")\n',
        "            pass\n",
        ("unit/measure/test_attention.py::test_the_mathematical_form_is_seen_by_the_call_that_reached_no_operator",),
    ),
)
