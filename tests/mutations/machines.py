"""What the machine lacks or does: the guards of its limits."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

OUTCOMES = "integration/test_outcomes.py::"
HANGS = "integration/test_hangs.py::"
STALLS = "integration/test_stalled_servers.py::"
STORAGE = "integration/test_storage.py::"
LIMITS = "integration/test_limits.py::"
STREAMS = "integration/test_streams.py::"
NUISANCES = "integration/test_nuisances.py::"
GOLDEN = "integration/test_golden_folders.py::"

MACHINES = (
    Mutation(
        "F26",
        "missing bindings end the sweep",
        'except ImportError:\n        return NvmlReport(problem="the Python package nvidia-ml-py is not installed")\n',
        "except ZeroDivisionError:\n        raise\n",
        ("unit/telemetry/test_nvml.py::test_missing_bindings_are_said",),
    ),
    Mutation(
        "F26",
        "a library that hangs is waited for",
        "self._answers.get(timeout=limit_s)",
        "self._answers.get()",
        ("unit/telemetry/test_nvml.py::test_library_that_hangs_is_given_up",),
    ),
    Mutation(
        "F27",
        "a GPU that is not there is looked for later",
        "    if fault is not None:\n        raise EnvironmentFault(fault)\n",
        "",
        ("unit/machine/test_environment.py::test_cuda_without_a_gpu_says_why",),
    ),
    Mutation(
        "F28",
        "nobody compares the clocks",
        "        if abs(_clocks() - clocks) > _CLOCK_STEP_S:\n",
        "        if False:\n",
        (NUISANCES + "test_clock_that_is_set_during_a_launch_is_flagged_and_moves_no_duration",),
    ),
    Mutation(
        "F28",
        "a duration comes from the wall clock",
        "        started_s = time.monotonic()\n",
        "        started_s = time.time() - time.time() + time.monotonic()\n",
        ("rules/test_reliability.py::test_no_duration_comes_from_the_wall_clock",),
    ),
    Mutation(
        "F29",
        "ranks meet where the environment says",
        "            store=dist.FileStore(str(rendezvous.absolute()), world_size),  # type: ignore[attr-defined]\n",
        "",
        (NUISANCES + "test_port_and_address_in_the_environment_are_not_inherited",),
    ),
    Mutation(
        "F29",
        "there is no start limit",
        "            if elapsed_s - self._start_from_s > limits.start_s:\n",
        "            if False:\n",
        (
            NUISANCES + "test_rank_whose_peer_never_joins_times_out_at_the_start",
            "unit/launch/test_watchdog.py::test_start_limit_holds_until_every_rank_ended_an_update",
        ),
    ),
    Mutation(
        "F30",
        "rows of other conditions are mixed",
        "    if differing:\n",
        "    if False:\n",
        (STORAGE + "test_changed_measure_is_refused_with_the_differing_key_and_changed_limits_are_not",),
    ),
    Mutation(
        "F30",
        "a running sweep loses its folder to --fresh",
        "    with hold(SweepPaths(folder).lock):\n        stamp",
        "    if True:\n        stamp",
        (STORAGE + "test_fresh_does_not_take_a_folder_from_a_running_sweep",),
    ),
    Mutation(
        "F31",
        "a newer file is read as if it were ours",
        "    if version > SCHEMA_VERSION:\n",
        "    if False:\n",
        (GOLDEN + "test_frozen_folder_is_refused_by_a_version_that_is_older_than_it",),
    ),
    Mutation(
        "F31",
        "a newer folder is written to",
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
        "table.column(field.name).cast(field.type) if field.name in present else pa.nulls(len(table), field.type)",
        "table.column(field.name).cast(field.type)",
        (GOLDEN + "test_frozen_folder_is_shown_as_it_was_written", GOLDEN + "test_frozen_folder_is_gone_on_with"),
    ),
    Mutation(
        "F32",
        "a log grows without end",
        "                cap_log(self.paths.rank_log(rank))\n",
        "                pass\n",
        (NUISANCES + "test_log_without_end_is_cut_back_to_its_cap",),
    ),
    Mutation(
        "F32",
        "a reader that went away ends the sweep",
        "            except BrokenPipeError:\n                self._is_refused = True\n",
        "",
        (NUISANCES + "test_sweep_goes_on_when_nobody_reads_what_it_says",),
    ),
    Mutation(
        "F32",
        "a full disk behind the output ends the sweep",
        "                if not self._is_for_people:\n",
        "                if True:\n",
        (NUISANCES + "test_sweep_goes_on_when_what_it_says_cannot_be_written",),
    ),
    Mutation(
        "F32",
        "what could not be printed was printed",
        "error is raw.refusal:\n            raise StorageError(",
        "error is raw.refusal:\n            return\n            raise StorageError(",
        (STREAMS + "test_data_that_stdout_cannot_take_is_an_error_of_storage",),
    ),
    Mutation(
        "F33",
        "a closed descriptor is given to the next pipe",
        "    open_closed_descriptors()\n    before",
        "    before",
        (STREAMS + "test_closed_streams_are_not_taken_for_files",),
    ),
    Mutation(
        "F33",
        "a lack of processes is a traceback",
        "        elif number in (errno.EAGAIN, errno.ENOMEM):\n",
        "        elif number in (errno.ENOMEM,):\n",
        (LIMITS + "test_without_a_process_left_the_limit_is_named_whatever_could_not_start",),
    ),
    Mutation(
        "F33",
        "a lack of threads is a traceback",
        "        except RuntimeError as error:\n            raise EnvironmentFault",
        "        except ZeroDivisionError as error:\n            raise EnvironmentFault",
        (LIMITS + "test_without_a_process_left_the_limit_is_named_whatever_could_not_start",),
    ),
    Mutation(
        "F33",
        "a lack of file descriptors is a traceback",
        "        if number in (errno.EMFILE, errno.ENFILE):\n",
        "        if number in (errno.ENFILE,):\n",
        (LIMITS + "test_without_a_file_descriptor_left_the_limit_is_named",),
    ),
    Mutation(
        "F33",
        "a disk without inodes is called full",
        "            if disk.f_files > 0 and disk.f_favail == 0:\n",
        "            if False:\n",
        (LIMITS + "test_without_an_inode_left_the_disk_is_not_called_full",),
    ),
    Mutation(
        "F34",
        "memory that is not back is not waited for",
        "        if not left or is_interrupted():\n",
        "        if True:\n",
        ("unit/launch/test_gpu_release.py::test_memory_that_stays_stops_the_sweep_and_names_process_and_gpu",),
    ),
    Mutation(
        "F34",
        "memory is waited for although the sweep ends",
        "        if not left or is_interrupted():\n",
        "        if not left:\n",
        ("unit/launch/test_gpu_release.py::test_signal_ends_the_wait_for_memory",),
    ),
    Mutation(
        "F35",
        "what a rank left is not ended with its launch",
        "        kill_descendants(servers)\n",
        "",
        (
            HANGS + "test_what_a_rank_left_in_a_session_of_its_own_is_ended_with_its_launch",
            STALLS + "test_orphan_without_our_environment_ends_with_its_launch[leave_orphan-forkserver]",
        ),
    ),
    Mutation(
        "F35",
        "what outlives its rank is nobody's child",
        "\nadopt_orphans()\n# The standard",
        "\n# The standard",
        (STALLS + "test_orphan_without_our_environment_ends_with_its_launch[leave_orphan-forkserver]",),
    ),
    Mutation(
        "F35",
        "a rank without a fork server ends nothing that it left",
        "        kill_descendants([os.getpid()])\n",
        "        pass\n",
        (STALLS + "test_orphan_without_our_environment_ends_with_its_launch[leave_orphan-spawn]",),
    ),
    Mutation(
        "F35",
        "what a rank without a fork server had begun is not ended with it",
        "        kill_processes(began)\n",
        "",
        (STALLS + "test_orphan_without_our_environment_ends_with_its_launch[leave_orphan_and_sleep-spawn]",),
    ),
    Mutation(
        "F35",
        "what a dead driver's rank left is not ended by the next sweep",
        '            killed = kill_with_token(record["token"])\n',
        "            killed: list[int] = []\n",
        (HANGS + "test_stragglers_of_a_killed_driver_are_ended_by_the_next_sweep",),
    ),
    Mutation(
        "F36",
        "a disturbed launch is not run again",
        "_ATTEMPTS_WHEN_SHARED = 2",
        "_ATTEMPTS_WHEN_SHARED = 1",
        (NUISANCES + "test_launch_during_which_others_used_the_gpu_is_run_once_more",),
    ),
    Mutation(
        "F36",
        "an out-of-memory error beside somebody else is final",
        '_DISTURBED = frozenset({"ok", "oom"})',
        '_DISTURBED = frozenset({"ok"})',
        ("integration/test_search_by_rows.py::test_out_of_memory_beside_somebody_else_is_tried_once_more",),
    ),
    Mutation(
        "F36",
        "a disturbed launch teaches about memory",
        '        if "gpu_shared" in launch.get("flags", ()):\n            return\n',
        "",
        ("unit/drive/test_pruning.py::test_error_while_others_used_the_gpu_teaches_nothing",),
    ),
    Mutation(
        "F37",
        "ranks meet at an address made of the folder's name",
        "            store=dist.FileStore(str(rendezvous.absolute()), world_size),  # type: ignore[attr-defined]\n",
        '            init_method=f"file://{rendezvous}",\n',
        (OUTCOMES + "test_ranks_meet_in_a_folder_with_a_relative_and_odd_name",),
    ),
    Mutation(
        "F38",
        "what fails again is run again at once",
        "            retry_failed = False  # what fails again is left to the next run: a sweep never loops\n",
        "",
        (STORAGE + "test_trial_that_fails_every_time_is_not_run_for_ever",),
    ),
    Mutation(
        "F38",
        "there is no last attempt",
        "ATTEMPTS_AT_MOST = 3\n",
        "ATTEMPTS_AT_MOST = 1000\n",
        (STORAGE + "test_trial_that_fails_every_time_is_not_run_for_ever",),
    ),
)
