"""What a figure must not hold: what we take or watch ourselves, and what ranks wait for."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_COLUMNS = "unit/rank/test_memory_columns.py::"
_DDP_WARMUP = "unit/rank/test_ddp_warmup.py::"
_PLANTED = "unit/rank/test_planted_truth.py::"
_LAUNCHES = "cuda/test_memory_of_launches.py::"

MEASURES = (
    Mutation(
        "F41",
        "allocated bytes are compared, which depend on what the allocator left unsplit",
        "    return _largest([part.peaks.requested_bytes for part in observed.part(name)])\n",
        "    return _largest([part.peaks.allocated_bytes for part in observed.part(name)])\n",
        (_PLANTED + "test_blocks_that_the_allocator_left_whole_are_not_the_launchs_doing",),
    ),
    Mutation(
        "F41",
        "allocated bytes are divided",
        '    peak = columns["peak_requested_bytes"] if has_counters else witnessed.live_peak_bytes\n',
        '    peak = columns["peak_allocated_bytes"] if has_counters else witnessed.live_peak_bytes\n',
        (
            _COLUMNS + "test_with_counters_what_the_witness_missed_is_temporary",
            _LAUNCHES + "test_parts_add_up_whatever_the_allocator_left_unsplit",
        ),
    ),
    Mutation(
        "F41",
        "a mode of ours is in the way of updates that decide",
        "    for _ in range(updates):\n        bench.loop.run_window(bench.feed.next_window())\n    return",
        "    from torch.utils._python_dispatch import TorchDispatchMode\n\n"
        "    class Watches(TorchDispatchMode):\n"
        "        def __torch_dispatch__(self, function, types, arguments=(), options=None):\n"
        "            return function(*arguments, **(options or {}))\n\n"
        "    with Watches():\n"
        "        for _ in range(updates):\n            bench.loop.run_window(bench.feed.next_window())\n    return",
        ("unit/rank/test_witnessed.py::test_nothing_of_ours_is_in_the_way_of_any_update_that_decides",),
    ),
    Mutation(
        "F41",
        "the witness's own peak is the row's",
        "    own: dict[str, Any] = {} if has_counters else {",
        "    own: dict[str, Any] = {",
        (
            _COLUMNS + "test_witness_decides_no_peak_of_a_device_with_counters",
            _LAUNCHES + "test_witness_moves_no_peak_of_the_row",
        ),
    ),
    Mutation(
        "F41",
        "the parameters' checksum copies them",
        "(bits[:whole].view(torch.int64) if whole else bits.new_zeros(1, dtype=torch.int64)).sum()",
        "bits[:whole].sum(dtype=torch.int64)",
        (_LAUNCHES + "test_checksum_of_parameters_makes_no_copy_of_them",),
    ),
    Mutation(
        "F41",
        "settings that torch does not follow are said to be in force",
        '    text = told.get("PYTORCH_CUDA_ALLOC_CONF") or DEFAULT\n',
        '    text = os.environ.get("PYTORCH_ALLOC_CONF") or told.get("PYTORCH_CUDA_ALLOC_CONF") or DEFAULT\n',
        (
            "unit/measure/test_allocator_settings.py::test_variable_that_torch_does_not_read_is_not_in_force",
            "cuda/test_allocator_settings.py::test_row_says_what_the_allocator_goes_by",
        ),
    ),
    Mutation(
        "F42",
        "whole updates of ranks are compared, which end together",
        "    inner = [sample for time in times for sample in time.inner]\n    known",
        "    inner = [time.seconds for time in times]\n    known",
        ("integration/test_rank_spread.py::test_rank_whose_micro_steps_take_over_two_percent_longer_is_a_straggler",),
    ),
    Mutation(
        "F42",
        "a preset times the exchanges in which the host waits",
        "        if waiting > 0 and pace.target_half_width is not None and not pace.by_micro_steps:\n",
        "        if False:\n",
        ("unit/rank/test_ddp_warmup.py::test_preset_begins_the_timed_part_after_the_updates_in_which_the_host_waits",),
    ),
    Mutation(
        "F42",
        "a fixed length that times them is not flagged",
        '        "ddp_warmup": _begins_early(bench, observed),\n',
        '        "ddp_warmup": False,\n',
        (
            _DDP_WARMUP + "test_fixed_length_is_run_as_asked_and_flagged",
            "cuda/test_product.py::test_fixed_length_on_two_gpus_is_flagged_where_ddp_still_times_itself",
        ),
    ),
)
