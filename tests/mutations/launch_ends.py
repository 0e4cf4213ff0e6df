"""How a launch ends: the guards of its outcome."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

OUTCOMES = "integration/test_outcomes.py::"
OUT_OF_MEMORY = (
    "unit/rank/test_out_of_memory.py::test_error_is_out_of_memory_by_class_first_and_then_by_a_short_list_of_messages"
)
OUT_OF_MEMORY_ON_A_FULL_GPU = (
    "unit/rank/test_out_of_memory.py::test_library_that_does_not_say_why_is_out_of_memory_on_a_full_gpu_alone"
)
PRODUCT = "cuda/test_product.py::"
PROOF_ERRORS = "cuda/test_proof_errors.py::"
HANGS = "integration/test_hangs.py::"
STALLS = "integration/test_stalled_servers.py::"
WITNESS_FAILS = "integration/test_witness_fails.py::"
KILLS = "integration/test_kills.py::"
RESUME = "integration/test_resume.py::"

LAUNCH_ENDS = (
    Mutation(
        "F1",
        "torch's own error of that name counts as any other",
        "    if _OOM_CLASSES.intersection(class_names):\n        return",
        "    if False:\n        return",
        (OUT_OF_MEMORY,),
    ),
    Mutation(
        "F1",
        "what CUDA and its libraries say of memory is not read",
        "    if any(pattern.search(text) for pattern in _DEVICE_OOM_TEXTS)",
        "    if False and any(pattern.search(text) for pattern in _DEVICE_OOM_TEXTS)",
        (OUT_OF_MEMORY,),
    ),
    Mutation(
        "F1",
        "a library that could not start is broken, however full the GPU is",
        "    if free_bytes is not None and free_bytes < LITTLE_BYTES and hides_its_cause(text):\n        return",
        "    if False:\n        return",
        (
            OUT_OF_MEMORY_ON_A_FULL_GPU,
            PRODUCT + "test_cublas_that_does_not_start_on_a_full_gpu_is_an_oom_row_and_the_search_goes_on",
        ),
    ),
    Mutation(
        "F1",
        "a library that could not start lacked memory, however much is free",
        "if free_bytes is not None and free_bytes < LITTLE_BYTES and hides_its_cause(text):",
        "if hides_its_cause(text):",
        (OUT_OF_MEMORY_ON_A_FULL_GPU, PRODUCT + "test_cublas_that_does_not_start_is_a_failed_row"),
    ),
    Mutation(
        "F1",
        "a proof that had no memory is a failure, which is kept",
        "    if where is not None:\n        return unproven(",
        "    if False:\n        return unproven(",
        (PROOF_ERRORS + "test_lack_of_memory_on_the_gpu_proves_nothing",),
    ),
    Mutation(
        "F1",
        "what the kernel refuses is no lack of memory",
        'return "oom" if device == "cpu" else "oom_host"',
        'return "failed"',
        (OUTCOMES + "test_memory_limit_of_the_process_is_oom_on_a_cpu",),
    ),
    Mutation(
        "F1",
        "an error in the witnessed updates is the trial's",
        "    except BaseException:\n        traceback.print_exc()\n        return False\n",
        "    except ZeroDivisionError:\n        traceback.print_exc()\n        return False\n",
        (WITNESS_FAILS + "test_whatever_happens_to_the_witness_changes_no_outcome[oom]",),
    ),
    Mutation(
        "F1",
        "a result that was whole before the witnessed updates does not stand",
        ' or end.document.get("is_witnessed") is False\n',
        "\n",
        (
            "unit/launch/test_outcome.py::test_whole_result_stands_whatever_the_witnessed_updates_came_to",
            WITNESS_FAILS + "test_whatever_happens_to_the_witness_changes_no_outcome[kill]",
        ),
    ),
    Mutation(
        "F3",
        "a rank that failed under its witness ends as if nothing had been, and its peer waits",
        "            return NOT_WITNESSED\n",
        '            return "ok"\n',
        (WITNESS_FAILS + "test_rank_that_fails_under_its_witness_is_not_waited_for",),
    ),
    Mutation(
        "F2",
        "a rank that a signal ended has merely left",
        "    if killed:\n",
        "    if False:\n",
        (OUTCOMES + "test_killed_launch_names_the_signal_and_the_micro_batch",),
    ),
    Mutation(
        "F2",
        "the kernel's killer is met as often as any failure",
        "_ATTEMPTS_AFTER_SIGKILL = 2",
        "_ATTEMPTS_AFTER_SIGKILL = 3",
        ("unit/drive/test_schedule.py::test_launch_that_was_killed_by_the_kernel_is_retried_once_at_most",),
    ),
    Mutation(
        "F3",
        "the rank whose connection broke is the cause",
        "    causes = [end for end in told if not _is_secondary(end)]",
        "    causes = sorted(told, key=lambda end: end.rank)[:1]",
        (OUTCOMES + "test_oom_on_one_rank_names_that_rank_and_ends_the_other",),
    ),
    Mutation(
        "F3",
        "peers of a rank that ended badly are waited for",
        "if now_s - bad_since > _PEER_GRACE_S:",
        "if now_s - bad_since > 600 * _PEER_GRACE_S:",
        (HANGS + "test_peer_of_a_failed_rank_is_not_waited_for",),
    ),
    Mutation(
        "F4",
        "the peer that complained is the cause",
        '_SECONDARY = re.compile(r"Connection',
        '_SECONDARY = re.compile(r"Xonnection',
        (OUTCOMES + "test_killed_rank_of_two_is_named_and_its_peer_ended",),
    ),
    Mutation(
        "F5",
        "nobody looks whether the server died",
        "if launch.stopped is None and _died(servers, launch.processes):",
        "if False and _died(servers, launch.processes):",
        (HANGS + "test_death_of_the_fork_server_is_a_killed_launch_and_the_next_trial_gets_a_new_server",),
    ),
    Mutation(
        "F5",
        "a rank does not ask whether its parent had touched CUDA",
        "torch.cuda._is_in_bad_fork() or ",
        "",
        (
            HANGS + "test_server_is_fit_only_without_threads_and_without_a_gpu",
            "cuda/test_fork.py::test_child_of_a_process_that_touched_cuda_is_unfit",
        ),
    ),
    Mutation(
        "F5",
        "a library that is loaded later starts its threads in the server",
        "import scipy.linalg  # noqa: E402, F401\n",
        "",
        ("integration/test_preload.py::test_nothing_that_is_loaded_runs_a_thread_and_ranks_may_have_theirs",),
    ),
    Mutation(
        "F5",
        "a server that does not answer is waited for",
        "            if is_enough():\n                is_killed.set()\n",
        "            if False:\n                is_killed.set()\n",
        (STALLS + "test_signal_ends_the_wait_for_a_stalled_server",),
    ),
    Mutation(
        "F5",
        "what a stalled server had just forked is left",
        "        kill_descendants([pid])\n        os.kill(pid, signal.SIGKILL)\n",
        "        os.kill(pid, signal.SIGKILL)\n",
        ("unit/launch/test_process_table.py::test_process_is_killed_with_all_below_it_although_they_are_stopped",),
    ),
    Mutation(
        "F5",
        "a launch whose server stalled is not started again",
        '    if self._start(work, launch, ranks, self._start_method, environment) == "stalled" and',
        '    if self._start(work, launch, ranks, self._start_method, environment) == "never" and',
        (STALLS + "test_stalled_server_is_replaced_and_the_launch_starts_again",),
    ),
    Mutation(
        "F5",
        "a server that never answered is tried again",
        "            stalled = self._servers.has_answered(environment)\n",
        "            stalled = True\n",
        (STALLS + "test_server_that_never_answered_is_a_timeout_of_the_start_and_is_gone",),
    ),
    Mutation(
        "F5",
        "only a fork server tells that a rank has ended",
        "    return process.is_alive() and (process.pid is None or not is_dead(process.pid))\n",
        "    return process.is_alive()\n",
        (
            STALLS + "test_rank_that_ended_well_is_ok_although_its_server_does_not_report_it",
            STALLS + "test_ranks_of_a_stalled_server_are_ended_without_its_help",
        ),
    ),
    Mutation(
        "F5",
        "a server that reports nothing is asked again",
        "            if launch.is_server_stalled:\n                self._servers.kill(environment)\n",
        "",
        (STALLS + "test_rank_that_ended_well_is_ok_although_its_server_does_not_report_it",),
    ),
    Mutation(
        "F6",
        "a server that has not asked for it does not end with its driver",
        "        weakref.finalize(self, _end_all, self._servers, os.getpid())\n",
        "",
        (STALLS + "test_server_ends_with_the_launcher_that_started_it",),
    ),
    Mutation(
        "F6",
        "processes outlive their parent",
        "    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)\n",
        "",
        (
            HANGS + "test_nothing_is_left_after_the_driver_is_killed_with_all_ranks_inside_a_collective",
            RESUME + "test_no_process_is_left_after_the_driver_is_killed",
        ),
    ),
    Mutation(
        "F6",
        "where the ranks of a dead driver met is left for ever",
        "        remove_leftovers()\n",
        "",
        (HANGS + "test_nothing_is_left_after_the_driver_is_killed_with_all_ranks_inside_a_collective",),
    ),
    Mutation(
        "F6",
        "a launch that a dead driver left is not settled",
        "        for record in self.history.abandoned():\n",
        "        for record in ():\n",
        (KILLS + "test_sweep_killed_at_each_visit_of_a_point_ends_as_if_undisturbed",),
    ),
    Mutation(
        "F7",
        "no rank is ever called silent",
        "        if not silent:\n",
        "        if True:\n",
        ("unit/launch/test_watchdog.py::test_silence_is_a_hang_of_the_rank_that_got_least_far",),
    ),
    Mutation(
        "F7",
        "a hanging rank is not asked where it is",
        "            dump_stacks(alive)\n",
        "",
        (HANGS + "test_rank_without_progress_is_a_hang_of_that_rank_and_its_stack_is_kept[sleep]",),
    ),
    Mutation(
        "F8",
        "what a rank prints is a sign of life",
        "return {rank: read_beat(self.paths.heartbeat(rank)) for rank in ranks}",
        "return {\n"
        "            rank: beat and type(beat)(**{**vars(beat), 'monotonic_s': printed_s})\n"
        "            for rank in ranks for beat in [read_beat(self.paths.heartbeat(rank))]\n"
        "            for printed_s in [time.monotonic() - time.time() + self.paths.rank_log(rank).stat().st_mtime]\n"
        "        }",
        (HANGS + "test_rank_without_progress_is_a_hang_of_that_rank_and_its_stack_is_kept[chatter]",),
    ),
    Mutation(
        "F9",
        "the ladder has no SIGKILL",
        "(signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))",
        "(signal.SIGTERM, 5.0))",
        ("unit/launch/test_kill_ladder.py::test_process_deaf_to_all_but_sigkill_is_ended_and_reaped",),
    ),
    Mutation(
        "F10",
        "a rank that left without a word is no cause",
        "    silent = [end for end in by_themselves if end.document is None]\n",
        "    silent: list[RankEnd] = []\n",
        (OUTCOMES + "test_rank_that_leaves_early_is_named_not_its_peer",),
    ),
    Mutation(
        "F11",
        "class and text of an error are not kept",
        "        document |= _describe(error, device, heartbeat)\n",
        '        document |= {"outcome": "failed", "reason": "failed", "phase": heartbeat.phase}\n',
        (OUTCOMES + "test_error_is_kept_with_class_text_and_traceback_of_every_rank[forward:3]",),
    ),
    Mutation(
        "F11",
        "a proof is written when its error has gone, and what frees page-locked memory has ended the process",
        "        _finish(paths, rank, _lines_of(error))\n    else:\n        _finish(paths, rank, lines)\n",
        "        lines = _lines_of(error)\n    _finish(paths, rank, lines)\n",
        (PROOF_ERRORS + "test_error_that_stays_is_told_though_page_locked_memory_ends_the_process",),
    ),
    Mutation(
        "F11",
        "what a rank printed last is not read",
        'said = f"; its last output: {end.last_line}" if end.last_line else ""',
        'said = ""',
        (OUTCOMES + "test_error_at_import_is_failed_with_its_last_words",),
    ),
    Mutation(
        "F12",
        "exit 0 alone is ok",
        "unfinished = [end for end in ends if end.document is None or end.exit_code != 0]",
        "unfinished = [end for end in ends if end.exit_code != 0]",
        ("unit/launch/test_outcome.py::test_ok_needs_exit_zero_and_a_result_of_every_rank",),
    ),
    Mutation(
        "F12",
        "a result alone is ok",
        "unfinished = [end for end in ends if end.document is None or end.exit_code != 0]",
        "unfinished = [end for end in ends if end.document is None]",
        ("unit/launch/test_outcome.py::test_ok_needs_exit_zero_and_a_result_of_every_rank",),
    ),
    Mutation(
        "F12",
        "sys.exit of a trial is not an error",
        "except BaseException as error:  # user code may raise SystemExit, and that is a failed trial too",
        "except Exception as error:",
        (OUTCOMES + "test_sys_exit_of_a_trial_is_its_error",),
    ),
    Mutation(
        "F13",
        "any loss will do",
        "loss is not None and not math.isfinite(loss)",
        "loss is not None and False",
        ("unit/rank/test_protocol.py::test_loss_that_is_not_finite_makes_the_launch_invalid",),
    ),
    Mutation(
        "F14",
        "skipped updates count as applied",
        '"updates_applied": sum(sample.result == "applied" for sample in samples)',
        '"updates_applied": len(samples)',
        ("unit/rank/test_protocol.py::test_skips_in_the_timed_part_are_counted_apart",),
    ),
    Mutation(
        "F14",
        "a timed part of nothing but skips is ok",
        '    if samples and not any(sample.result == "applied" for sample in samples):\n',
        "    if False:\n",
        ("unit/rank/test_protocol.py::test_timed_part_without_an_applied_update_makes_the_launch_invalid",),
    ),
)
