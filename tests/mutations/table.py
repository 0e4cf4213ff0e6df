"""For each fault of docs/reliability.md the guards behind its promise, and the tests that must miss each of them.

A mutation takes one guard away. `guard` stands exactly once in `file`, which a rule in tests/rules checks; whoever
changes the guard changes it here too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """Take one guard away."""

    fault: str
    """Row of docs/reliability.md that promises what the guard gives."""
    words: str
    """What is left when the guard is gone."""
    file: str
    """Where the guard is, below bench/."""
    guard: str
    without: str
    tests: tuple[str, ...]
    """What must then fail, below tests/."""
    also: tuple[tuple[str, str, str], ...] = ()
    """Second lines of defence, which would do alone: file, guard and what is left of each, taken away with it."""

    def edits(self) -> tuple[tuple[str, str, str], ...]:
        """List every file, guard and what is left of it."""
        return ((self.file, self.guard, self.without), *self.also)


OUTCOMES = "integration/test_outcomes.py::"
FAULT_ROW = OUTCOMES + "test_fault_becomes_a_row_with_outcome_and_phase_and_the_sweep_goes_on"
OUT_OF_MEMORY = (
    "unit/rank/test_out_of_memory.py::test_error_is_out_of_memory_by_class_first_and_then_by_a_short_list_of_messages"
)
HANGS = "integration/test_hangs.py::"
STORAGE = "integration/test_storage.py::"
DAMAGE = "integration/test_damage.py::"
LIMITS = "integration/test_limits.py::"
KILLS = "integration/test_kills.py::"
SYSCALLS = "integration/test_syscalls.py::"
NUISANCES = "integration/test_nuisances.py::"
RESUME = "integration/test_resume.py::"
GOLDEN = "integration/test_golden_folders.py::"

MUTATIONS = (
    # How a launch ends
    Mutation(
        "F1",
        "torch's own error of that name counts as any other",
        "rank/out_of_memory.py",
        "    if _OOM_CLASSES.intersection(class_names):\n        return",
        "    if False:\n        return",
        (OUT_OF_MEMORY,),
    ),
    Mutation(
        "F1",
        "what CUDA and its libraries say of memory is not read",
        "rank/out_of_memory.py",
        "    if any(pattern.search(text) for pattern in _DEVICE_OOM_TEXTS)",
        "    if False and any(pattern.search(text) for pattern in _DEVICE_OOM_TEXTS)",
        (OUT_OF_MEMORY,),
    ),
    Mutation(
        "F1",
        "what the kernel refuses is no lack of memory",
        "rank/out_of_memory.py",
        'return "oom" if device == "cpu" else "oom_host"',
        'return "failed"',
        (OUTCOMES + "test_memory_limit_of_the_process_is_oom_on_a_cpu",),
    ),
    Mutation(
        "F2",
        "a rank that a signal ended has merely left",
        "launch/outcome.py",
        "    if killed:\n",
        "    if False:\n",
        (OUTCOMES + "test_killed_launch_names_the_signal_and_the_micro_batch",),
    ),
    Mutation(
        "F2",
        "the kernel's killer is met as often as any failure",
        "drive/schedule.py",
        "_ATTEMPTS_AFTER_SIGKILL = 2",
        "_ATTEMPTS_AFTER_SIGKILL = 3",
        ("unit/drive/test_schedule.py::test_launch_that_was_killed_by_the_kernel_is_retried_once_at_most",),
    ),
    Mutation(
        "F3",
        "the rank whose connection broke is the cause",
        "launch/outcome.py",
        "    causes = [end for end in told if not _is_secondary(end)]",
        "    causes = sorted(told, key=lambda end: end.rank)[:1]",
        (OUTCOMES + "test_oom_on_one_rank_names_that_rank_and_ends_the_other",),
    ),
    Mutation(
        "F3",
        "peers of a rank that ended badly are waited for",
        "launch/under_way.py",
        "if now_s - bad_since > _PEER_GRACE_S:",
        "if now_s - bad_since > 600 * _PEER_GRACE_S:",
        (HANGS + "test_peer_of_a_failed_rank_is_not_waited_for",),
    ),
    Mutation(
        "F4",
        "the peer that complained is the cause",
        "launch/outcome.py",
        '_SECONDARY = re.compile(r"Connection',
        '_SECONDARY = re.compile(r"Xonnection',
        (OUTCOMES + "test_killed_rank_of_two_is_named_and_its_peer_ended",),
    ),
    Mutation(
        "F5",
        "nobody looks whether the server died",
        "launch/launcher.py",
        "if launch.stopped is None and _died(servers, launch.processes):",
        "if False and _died(servers, launch.processes):",
        (HANGS + "test_death_of_the_fork_server_is_a_killed_launch_and_the_next_trial_gets_a_new_server",),
    ),
    Mutation(
        "F6",
        "processes outlive their parent",
        "launch/process.py",
        "    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)\n",
        "",
        (
            HANGS + "test_nothing_is_left_2_s_after_the_driver_is_killed_with_all_ranks_inside_a_collective",
            RESUME + "test_no_process_is_left_after_the_driver_is_killed",
        ),
    ),
    Mutation(
        "F6",
        "a launch that a dead driver left is not settled",
        "drive/recording.py",
        "        for record in self.history.abandoned():\n",
        "        for record in ():\n",
        (KILLS + "test_sweep_killed_at_each_visit_of_a_point_ends_as_if_undisturbed",),
    ),
    Mutation(
        "F7",
        "no rank is ever called silent",
        "launch/watchdog.py",
        "        if not silent:\n",
        "        if True:\n",
        ("unit/launch/test_watchdog.py::test_silence_is_a_hang_of_the_rank_that_got_least_far",),
    ),
    Mutation(
        "F7",
        "a hanging rank is not asked where it is",
        "launch/under_way.py",
        "            dump_stacks(alive)\n",
        "",
        (HANGS + "test_rank_without_progress_is_a_hang_of_that_rank_and_its_stack_is_kept[sleep]",),
    ),
    Mutation(
        "F8",
        "what a rank prints is a sign of life",
        "launch/under_way.py",
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
        "launch/kill_ladder.py",
        "(signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))",
        "(signal.SIGTERM, 5.0))",
        ("unit/launch/test_kill_ladder.py::test_process_deaf_to_all_but_sigkill_is_ended_and_reaped",),
    ),
    Mutation(
        "F10",
        "a rank that left without a word is no cause",
        "launch/outcome.py",
        "    silent = [end for end in by_themselves if end.document is None]\n",
        "    silent: list[RankEnd] = []\n",
        (OUTCOMES + "test_rank_that_leaves_early_is_named_not_its_peer",),
    ),
    Mutation(
        "F11",
        "class and text of an error are not kept",
        "rank/worker.py",
        "        document |= _describe(error, device, heartbeat)\n",
        '        document |= {"outcome": "failed", "reason": "failed", "phase": heartbeat.phase}\n',
        (OUTCOMES + "test_error_is_kept_with_class_text_and_traceback_of_every_rank[forward:3]",),
    ),
    Mutation(
        "F11",
        "what a rank printed last is not read",
        "launch/outcome.py",
        'said = f"; it last said: {end.last_line}" if end.last_line else ""',
        'said = ""',
        (OUTCOMES + "test_error_at_import_is_failed_with_its_last_words",),
    ),
    Mutation(
        "F12",
        "exit 0 alone is ok",
        "launch/outcome.py",
        "unfinished = [end for end in ends if end.document is None or end.exit_code != 0]",
        "unfinished = [end for end in ends if end.exit_code != 0]",
        ("unit/launch/test_outcome.py::test_ok_needs_exit_zero_and_a_result_of_every_rank",),
    ),
    Mutation(
        "F12",
        "a result alone is ok",
        "launch/outcome.py",
        "unfinished = [end for end in ends if end.document is None or end.exit_code != 0]",
        "unfinished = [end for end in ends if end.document is None]",
        ("unit/launch/test_outcome.py::test_ok_needs_exit_zero_and_a_result_of_every_rank",),
    ),
    Mutation(
        "F12",
        "sys.exit of a trial is not an error",
        "rank/worker.py",
        "    except BaseException as error:  # user code",
        "    except Exception as error:  # user code",
        (OUTCOMES + "test_sys_exit_of_a_trial_is_its_error",),
    ),
    Mutation(
        "F13",
        "any loss will do",
        "rank/columns.py",
        "loss is not None and not math.isfinite(loss)",
        "loss is not None and False",
        ("unit/rank/test_protocol.py::test_loss_that_is_not_finite_makes_the_launch_invalid",),
    ),
    Mutation(
        "F14",
        "skipped updates count as applied",
        "rank/columns.py",
        '"updates_applied": sum(sample.result == "applied" for sample in samples)',
        '"updates_applied": len(samples)',
        ("unit/rank/test_protocol.py::test_skips_in_the_timed_part_are_counted_apart",),
    ),
    Mutation(
        "F14",
        "a timed part of nothing but skips is ok",
        "rank/columns.py",
        '    if samples and not any(sample.result == "applied" for sample in samples):\n',
        "    if False:\n",
        ("unit/rank/test_protocol.py::test_timed_part_without_an_applied_update_makes_the_launch_invalid",),
    ),
    # Signals to the driver
    Mutation(
        "F15",
        "Ctrl-C ends the driver where it stands",
        "launch/interrupts.py",
        "_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)",
        "_ENDING = (signal.SIGTERM, signal.SIGHUP)",
        (RESUME + "test_interrupted_sweep_keeps_what_is_finished_says_so_and_resumes",),
    ),
    Mutation(
        "F15",
        "a second Ctrl-C waits as the first",
        "launch/interrupts.py",
        "            self.hurry = True\n",
        "            pass\n",
        (HANGS + "test_second_ctrl_c_ends_at_once_with_a_deaf_rank",),
    ),
    Mutation(
        "F16",
        "SIGTERM ends the driver where it stands",
        "launch/interrupts.py",
        "_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)",
        "_ENDING = (signal.SIGINT, signal.SIGHUP)",
        (RESUME + "test_interrupted_sweep_keeps_what_is_finished_says_so_and_resumes",),
    ),
    Mutation(
        "F16",
        "SIGHUP ends a sweep under nohup",
        "launch/interrupts.py",
        "            if signal.getsignal(number) is not signal.SIG_IGN:\n",
        "            if True:\n",
        ("unit/launch/test_interrupts.py::test_signal_that_was_ignored_from_the_start_stays_ignored",),
    ),
    Mutation(
        "F17",
        "ranks go on while the driver is stopped",
        "launch/under_way.py",
        "            signal_group(process, signal.SIGSTOP)\n",
        "            pass\n",
        (HANGS + "test_ctrl_z_stops_the_ranks_too_and_the_row_says_so",),
    ),
    Mutation(
        "F17",
        "the pause counts for the limits",
        "launch/watchdog.py",
        "        self._excused_s += seconds\n",
        "",
        ("unit/launch/test_watchdog.py::test_time_in_which_everything_was_stopped_counts_for_no_limit",),
    ),
    # The record
    Mutation(
        "F18",
        "a line names parts that are not there",
        "drive/recording.py",
        "        part = write_part(self._paths.folder, row, updates)\n",
        "        part = write_part(self._paths.folder, row, updates)\n"
        "        for name in (part.part, part.updates_part):\n"
        "            (self._paths.folder / name).rename(self._paths.folder / f'{name}.late')\n",
        (KILLS + "test_sweep_killed_at_each_visit_of_a_point_ends_as_if_undisturbed[launch.recorded]",),
    ),
    Mutation(
        "F18",
        "a launch that ended is still said to run",
        "drive/history.py",
        "                self._running.pop(_attempt_of(record), None)\n",
        "",
        (KILLS + "test_sweep_killed_at_each_visit_of_a_point_ends_as_if_undisturbed[journal.fsync]",),
    ),
    Mutation(
        "F18",
        "a killed driver's lease without content refuses its successor",
        "drive/lock.py",
        "is None and _age_s(path) < _UNWRITTEN_S:\n            time.sleep(0.1)",
        "is None and _age_s(path) < _UNWRITTEN_S:\n            raise _locked(path, None)",
        (SYSCALLS + "test_driver_disturbed_at_each_call_ends_as_if_undisturbed[killed]",),
    ),
    Mutation(
        "F19",
        "a torn last line is followed by the next",
        "record/journal.py",
        "                os.ftruncate(self._descriptor, self._size)\n                os.fsync(self._descriptor)\n",
        "                pass\n",
        (DAMAGE + "test_journal_cut_at_any_byte_resumes_to_the_same_end",),
    ),
    Mutation(
        "F19",
        "the checksum of a line is not compared",
        "record/journal.py",
        'return record if isinstance(record, dict) and encode_line(record) == line + b"\\n" else None',
        "return record if isinstance(record, dict) else None",
        (DAMAGE + "test_damaged_line_stops_the_sweep_by_number_and_repair_keeps_all_others",),
    ),
    Mutation(
        "F20",
        "the hash of a part is not compared",
        "record/store.py",
        "    if hashlib.sha256(content).hexdigest() != sha256:\n",
        "    if False:\n",
        (
            DAMAGE + "test_truncated_part_is_named_and_its_launch_runs_again",
            DAMAGE + "test_thousand_bit_flips_of_parts_are_all_found_and_only_their_launches_run_again",
            DAMAGE + "test_every_truncation_of_a_part_is_found_where_it_is_read[part]",
        ),
    ),
    Mutation(
        "F20",
        "a resume does not look at the parts",
        "drive/recording.py",
        "                verify_part(self._paths.folder, PartInfo.from_journal(launch))\n",
        "                pass\n",
        (DAMAGE + "test_truncated_part_is_named_and_its_launch_runs_again",),
    ),
    Mutation(
        "F20",
        "the digest of a table is not compared",
        "record/parquet_file.py",
        '    if metadata.get(_DIGEST_KEY, b"").decode() != digest:\n',
        "    if False:\n",
        ("unit/record/test_store.py::test_values_changed_behind_a_valid_file_are_found",),
    ),
    Mutation(
        "F20",
        "neither the digest of a table nor the checksums of its pages are compared",
        "record/parquet_file.py",
        '    if metadata.get(_DIGEST_KEY, b"").decode() != digest:\n',
        "    if False:\n",
        (DAMAGE + "test_thousand_bit_flips_of_the_tables_give_no_other_value",),
        (("record/parquet_file.py", "page_checksum_verification=True", "page_checksum_verification=False"),),
    ),
    Mutation(
        "F24",
        "the lease grows old during a long launch",
        "drive/recorded_launches.py",
        "        self._record.renew_lock()\n",
        "",
        (STORAGE + "test_folder_is_kept_while_a_launch_is_waited_for",),
    ),
    Mutation(
        "F20",
        "what a retry had replaced comes back",
        "drive/history.py",
        "return launches[-1] if launches and key not in self._lost else None",
        "return launches[-1] if launches else None",
        ("unit/drive/test_history.py::test_damaged_part_takes_its_launch_out_and_its_number_stays_used",),
    ),
    Mutation(
        "F20",
        "kept proofs are not checked",
        "drive/proofs.py",
        'if not is_ours or document["sha256"] != _digest(known):',
        "if not is_ours:",
        ("unit/drive/test_proofs.py::test_no_flipped_bit_of_kept_proofs_becomes_a_column",),
    ),
    Mutation(
        "F21",
        "a refusal is a traceback",
        "record/atomic.py",
        "        raise refusal from error\n",
        "        raise\n",
        (STORAGE + "test_refused_write_ends_the_sweep_with_the_path_and_the_next_run_goes_on[file.write-28]",),
    ),
    Mutation(
        "F21",
        "a rank without room has failed",
        "drive/recording.py",
        "    _refuse_full_disk(end)\n",
        "",
        (STORAGE + "test_rank_that_could_not_write_says_nothing_about_its_trial",),
    ),
    Mutation(
        "F21",
        "what was written of a refused line stays",
        "record/journal.py",
        "            with contextlib.suppress(OSError):\n                os.ftruncate(self._descriptor, self._size)\n",
        "",
        ("unit/record/test_journal.py::test_a_refused_write_leaves_the_journal_as_it_was",),
    ),
    Mutation(
        "F22",
        "a file is not made durable",
        "record/atomic.py",
        "                os.fsync(stream.fileno())\n",
        "",
        (SYSCALLS + "test_driver_asks_the_kernel_to_make_everything_durable",),
    ),
    Mutation(
        "F22",
        "a folder is not made durable",
        "record/atomic.py",
        "        sync_folder(folder)\n",
        "",
        (SYSCALLS + "test_driver_asks_the_kernel_to_make_everything_durable",),
    ),
    Mutation(
        "F22",
        "a line of the journal is not made durable",
        "record/journal.py",
        '            reach("journal.fsync")\n            os.fsync(self._descriptor)\n',
        '            reach("journal.fsync")\n',
        (SYSCALLS + "test_driver_asks_the_kernel_to_make_everything_durable",),
    ),
    Mutation(
        "F22",
        "a refused fsync is overlooked",
        "record/atomic.py",
        "                os.fsync(stream.fileno())\n",
        "                with contextlib.suppress(OSError):\n                    os.fsync(stream.fileno())\n",
        (SYSCALLS + "test_driver_disturbed_at_each_call_ends_as_if_undisturbed[refused]",),
    ),
    Mutation(
        "F23",
        "the folder is made again where it was",
        "drive/lock.py",
        "        if not self._path.parent.is_dir():\n",
        "        if False:\n",
        (STORAGE + "test_folder_that_vanishes_ends_the_sweep_and_is_not_made_anew",),
    ),
    Mutation(
        "F23",
        "a folder that cannot be written is found out by a traceback",
        "drive/lock.py",
        "OSError as error:\n        raise _not_writable(path, error) from error\n    try:\n        _flock",
        "ZeroDivisionError as error:\n        raise _not_writable(path, error) from error\n    try:\n        _flock",
        (STORAGE + "test_folder_that_cannot_be_written_is_refused_before_the_first_launch",),
    ),
    Mutation(
        "F24",
        "nobody is refused",
        "drive/lock.py",
        "_flock(descriptor, path, lease_path)\n        lease = _new_lease()\n        _take(lease_path, lease)\n",
        "lease = _new_lease()\n        lease_path.write_text(json.dumps(asdict(lease)))\n",
        ("unit/drive/test_lock.py::test_second_holder_is_refused_by_name_and_the_first_is_not_harmed",),
    ),
    Mutation(
        "F24",
        "nobody is refused, and a folder that somebody else took over is written on",
        "drive/lock.py",
        "_flock(descriptor, path, lease_path)\n        lease = _new_lease()\n        _take(lease_path, lease)\n",
        "lease = _new_lease()\n        lease_path.write_text(json.dumps(asdict(lease)))\n",
        (STORAGE + "test_of_twenty_sweeps_at_once_exactly_one_runs",),
        (("drive/lock.py", "        if _read(self._path) != self._lease:\n", "        if False:\n"),),
    ),
    Mutation(
        "F24",
        "a folder that somebody else took over is written on",
        "drive/lock.py",
        "        if _read(self._path) != self._lease:\n",
        "        if False:\n",
        ("unit/drive/test_lock.py::test_holder_that_was_taken_over_writes_no_more",),
    ),
    Mutation(
        "F25",
        "a lease holds whoever made it",
        "drive/lock.py",
        "    return is_alive(ProcessId(lease.pid, lease.start_ticks, lease.boot_id))\n",
        "    return True\n",
        ("unit/drive/test_lock.py::test_lease_of_the_dead_is_taken_over",),
    ),
    Mutation(
        "F25",
        "a number that was given again is the same process",
        "launch/process_table.py",
        'return fields[0] != "Z" and process.start_ticks in (None, int(fields[19]))',
        'return fields[0] != "Z"',
        ("unit/drive/test_lock.py::test_lease_of_the_dead_is_taken_over",),
    ),
    Mutation(
        "F25",
        "a process of an earlier boot may live",
        "launch/process_table.py",
        "if process.boot_id != boot_id() or not fields:",
        "if not fields:",
        ("unit/drive/test_lock.py::test_lease_of_the_dead_is_taken_over",),
    ),
    # The machine
    Mutation(
        "F26",
        "missing bindings end the sweep",
        "telemetry/nvml.py",
        'except ImportError:\n        return NvmlReport(problem="the Python package nvidia-ml-py is not installed")\n',
        "except ZeroDivisionError:\n        raise\n",
        ("unit/telemetry/test_nvml.py::test_missing_bindings_are_said",),
    ),
    Mutation(
        "F26",
        "a library that hangs is waited for",
        "telemetry/time_limit.py",
        "self._answers.get(timeout=limit_s)",
        "self._answers.get()",
        ("unit/telemetry/test_nvml.py::test_library_that_hangs_is_given_up",),
    ),
    Mutation(
        "F27",
        "a GPU that is not there is looked for later",
        "machine/environment.py",
        "    if fault is not None:\n        raise EnvironmentFault(fault)\n",
        "",
        ("unit/machine/test_environment.py::test_cuda_without_a_gpu_says_why",),
    ),
    Mutation(
        "F28",
        "nobody compares the clocks",
        "drive/recorded_launches.py",
        "        if abs(_clocks() - clocks) > _CLOCK_STEP_S:\n",
        "        if False:\n",
        (NUISANCES + "test_clock_that_is_set_during_a_launch_is_flagged_and_moves_no_duration",),
    ),
    Mutation(
        "F28",
        "a duration comes from the wall clock",
        "launch/launcher.py",
        "        started_s = time.monotonic()\n",
        "        started_s = time.time() - time.time() + time.monotonic()\n",
        ("rules/test_reliability.py::test_no_duration_comes_from_the_wall_clock",),
    ),
    Mutation(
        "F29",
        "ranks meet where the environment says",
        "rank/ranks.py",
        "            store=dist.FileStore(str(rendezvous.absolute()), world_size),  # type: ignore[attr-defined]\n",
        "",
        (NUISANCES + "test_port_and_address_in_the_environment_are_not_inherited",),
    ),
    Mutation(
        "F29",
        "there is no start limit",
        "launch/watchdog.py",
        "            if elapsed_s > limits.start_s:\n",
        "            if False:\n",
        (
            NUISANCES + "test_rank_whose_peer_never_joins_times_out_at_the_start",
            "unit/launch/test_watchdog.py::test_start_limit_holds_until_every_rank_ended_an_update",
        ),
    ),
    Mutation(
        "F30",
        "rows of other conditions are mixed",
        "drive/folder.py",
        "    if differing:\n",
        "    if False:\n",
        (STORAGE + "test_changed_measure_is_refused_with_the_differing_key_and_changed_limits_are_not",),
    ),
    Mutation(
        "F30",
        "a running sweep loses its folder to --fresh",
        "drive/folder.py",
        "    with hold(SweepPaths(folder).lock):\n        stamp",
        "    if True:\n        stamp",
        (STORAGE + "test_fresh_does_not_take_a_folder_from_a_running_sweep",),
    ),
    Mutation(
        "F31",
        "a newer file is read as if it were ours",
        "record/parquet_file.py",
        "    if version > SCHEMA_VERSION:\n",
        "    if False:\n",
        (GOLDEN + "test_frozen_folder_is_refused_by_a_version_that_is_older_than_it",),
    ),
    Mutation(
        "F31",
        "a newer folder is written to",
        "drive/folder.py",
        '    if old["schema_version"] > SCHEMA_VERSION:\n',
        "    if False:\n",
        (
            STORAGE + "test_folder_of_a_newer_schema_is_refused_and_of_an_older_one_is_read",
            GOLDEN + "test_frozen_folder_is_refused_by_a_version_that_is_older_than_it",
        ),
    ),
    Mutation(
        "F31",
        "a column that an older version lacks is a fault",
        "record/parquet_file.py",
        "table.column(field.name).cast(field.type) if field.name in present else pa.nulls(len(table), field.type)",
        "table.column(field.name).cast(field.type)",
        (GOLDEN + "test_frozen_folder_is_shown_as_it_was_written", GOLDEN + "test_frozen_folder_is_gone_on_with"),
    ),
    Mutation(
        "F32",
        "a log grows without end",
        "launch/under_way.py",
        "                cap_log(self.paths.rank_log(rank))\n",
        "                pass\n",
        (NUISANCES + "test_log_without_end_is_cut_back_to_its_cap",),
    ),
    Mutation(
        "F32",
        "a reader that went away ends the sweep",
        "cli/progress.py",
        "    def on_broken_pipe(self) -> None:\n",
        "    def on_another_pipe(self) -> None:\n",
        (NUISANCES + "test_sweep_goes_on_when_nobody_reads_what_it_says",),
    ),
    Mutation(
        "F32",
        "a full disk behind the output ends the sweep",
        "cli/progress.py",
        "        except OSError:\n            self.quiet = True\n",
        "        except ZeroDivisionError:\n            self.quiet = True\n",
        (NUISANCES + "test_sweep_goes_on_when_what_it_says_cannot_be_written",),
    ),
    Mutation(
        "F33",
        "a lack of processes is a traceback",
        "launch/start_guards.py",
        "        elif number in (errno.EAGAIN, errno.ENOMEM):\n",
        "        elif number in (errno.ENOMEM,):\n",
        (LIMITS + "test_without_a_process_left_the_limit_is_named_whatever_could_not_start",),
    ),
    Mutation(
        "F33",
        "a lack of threads is a traceback",
        "telemetry/time_limit.py",
        "        except RuntimeError as error:\n",
        "        except ZeroDivisionError as error:\n",
        (LIMITS + "test_without_a_process_left_the_limit_is_named_whatever_could_not_start",),
    ),
    Mutation(
        "F33",
        "a lack of file descriptors is a traceback",
        "launch/start_guards.py",
        "        if number in (errno.EMFILE, errno.ENFILE):\n",
        "        if number in (errno.ENFILE,):\n",
        (LIMITS + "test_without_a_file_descriptor_left_the_limit_is_named",),
    ),
    Mutation(
        "F33",
        "a disk without inodes is called full",
        "record/atomic.py",
        "            if disk.f_files > 0 and disk.f_favail == 0:\n",
        "            if False:\n",
        (LIMITS + "test_without_an_inode_left_the_disk_is_not_called_full",),
    ),
    Mutation(
        "F34",
        "memory that is not back is not waited for",
        "launch/gpu_release.py",
        "        if not left:\n",
        "        if True:\n",
        ("unit/launch/test_gpu_release.py::test_memory_that_stays_stops_the_sweep_and_names_process_and_gpu",),
    ),
    Mutation(
        "F35",
        "what a rank left is not ended with its launch",
        "launch/launcher.py",
        "        kill_with_token(self.token, servers, among=descendants(os.getpid()))\n",
        "",
        (HANGS + "test_what_a_rank_left_in_a_session_of_its_own_is_ended_with_its_launch",),
    ),
    Mutation(
        "F35",
        "what a dead driver's rank left is not ended by the next sweep",
        "drive/recording.py",
        '            killed = kill_with_token(record["token"])\n',
        "            killed: list[int] = []\n",
        (HANGS + "test_stragglers_of_a_killed_driver_are_ended_by_the_next_sweep",),
    ),
    Mutation(
        "F36",
        "a disturbed launch is not run again",
        "drive/schedule.py",
        "_ATTEMPTS_WHEN_SHARED = 2",
        "_ATTEMPTS_WHEN_SHARED = 1",
        (NUISANCES + "test_launch_during_which_others_used_the_gpu_is_run_once_more",),
    ),
    Mutation(
        "F36",
        "an out-of-memory error beside somebody else is final",
        "drive/schedule.py",
        '_DISTURBED = frozenset({"ok", "oom"})',
        '_DISTURBED = frozenset({"ok"})',
        ("integration/test_search_by_rows.py::test_out_of_memory_beside_somebody_else_is_tried_once_more",),
    ),
    Mutation(
        "F36",
        "a disturbed launch teaches about memory",
        "drive/pruning.py",
        '        if "gpu_shared" in launch.get("flags", ()):\n            return\n',
        "",
        ("unit/drive/test_pruning.py::test_error_while_others_used_the_gpu_teaches_nothing",),
    ),
    Mutation(
        "F37",
        "ranks meet at an address made of the folder's name",
        "rank/ranks.py",
        "            store=dist.FileStore(str(rendezvous.absolute()), world_size),  # type: ignore[attr-defined]\n",
        '            init_method=f"file://{rendezvous}",\n',
        (OUTCOMES + "test_ranks_meet_in_a_folder_with_a_relative_and_odd_name",),
    ),
    Mutation(
        "F38",
        "what fails again is run again at once",
        "drive/driver.py",
        "            retry_failed = False  # what fails again is left to the next run: a sweep never loops\n",
        "",
        (STORAGE + "test_trial_that_fails_every_time_is_not_run_for_ever",),
    ),
    Mutation(
        "F38",
        "there is no last attempt",
        "drive/schedule.py",
        "ATTEMPTS_AT_MOST = 3\n",
        "ATTEMPTS_AT_MOST = 1000\n",
        (STORAGE + "test_trial_that_fails_every_time_is_not_run_for_ever",),
    ),
)
"""Every guard that is known to be missed, by fault."""

WITHOUT_A_MUTATION: dict[str, str] = {}
"""Fault to the reason why none of its guards can be taken away in a test without a GPU; none at present."""
