"""What is on disk: the guards of the journal, the parts and the lock."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

STREAMS = "integration/test_streams.py::"
STORAGE = "integration/test_storage.py::"
DAMAGE = "integration/test_damage.py::"
KILLS = "integration/test_kills.py::"
SYSCALLS = "integration/test_syscalls.py::"

RECORDS = (
    Mutation(
        "F18",
        "a line names parts that are not there",
        "        part = write_part(self._paths.folder, row, updates)\n",
        "        part = write_part(self._paths.folder, row, updates)\n"
        "        for name in (part.part, part.updates_part):\n"
        "            (self._paths.folder / name).rename(self._paths.folder / f'{name}.late')\n",
        (KILLS + "test_sweep_killed_at_each_visit_of_a_point_ends_as_if_undisturbed[launch.recorded]",),
    ),
    Mutation(
        "F18",
        "a launch that ended is still said to run",
        "                self._running.pop(_attempt_of(record), None)\n",
        "",
        (KILLS + "test_sweep_killed_at_each_visit_of_a_point_ends_as_if_undisturbed[journal.fsync]",),
    ),
    Mutation(
        "F18",
        "a killed driver's lease without content refuses its successor",
        "is None and _age_s(path) < _UNWRITTEN_S:\n            time.sleep(0.1)",
        "is None and _age_s(path) < _UNWRITTEN_S:\n            raise _locked(path, None)",
        (SYSCALLS + "test_driver_disturbed_at_each_call_ends_as_if_undisturbed[killed]",),
    ),
    Mutation(
        "F19",
        "a torn last line is followed by the next",
        "                os.ftruncate(self._descriptor, self._size)\n                os.fsync(self._descriptor)\n",
        "                pass\n",
        (DAMAGE + "test_journal_cut_at_any_byte_resumes_to_the_same_end",),
    ),
    Mutation(
        "F19",
        "the checksum of a line is not compared",
        'return record if isinstance(record, dict) and encode_line(record) == line + b"\\n" else None',
        "return record if isinstance(record, dict) else None",
        (DAMAGE + "test_damaged_line_stops_the_sweep_by_number_and_repair_keeps_all_others",),
    ),
    Mutation(
        "F20",
        "the hash of a part is not compared",
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
        "                verify_part(self._paths.folder, PartInfo.from_journal(launch))\n",
        "                pass\n",
        (DAMAGE + "test_truncated_part_is_named_and_its_launch_runs_again",),
    ),
    Mutation(
        "F20",
        "the digest of a table is not compared",
        '    if metadata.get(_DIGEST_KEY, b"").decode() != digest:\n',
        "    if False:\n",
        ("unit/record/test_store.py::test_values_changed_behind_a_valid_file_are_found",),
    ),
    Mutation(
        "F20",
        "neither the digest of a table nor the checksums of its pages are compared",
        '    if metadata.get(_DIGEST_KEY, b"").decode() != digest:\n',
        "    if False:\n",
        (DAMAGE + "test_thousand_bit_flips_of_the_tables_give_no_other_value",),
        (("page_checksum_verification=True", "page_checksum_verification=False"),),
    ),
    Mutation(
        "F24",
        "the lease grows old during a long launch",
        "        self._lock.renew()\n",
        "",
        (STORAGE + "test_folder_is_kept_while_a_launch_is_waited_for",),
    ),
    Mutation(
        "F20",
        "what a retry had replaced comes back",
        "return launches[-1] if launches and key not in self._lost else None",
        "return launches[-1] if launches else None",
        ("unit/drive/test_history.py::test_damaged_part_takes_its_launch_out_and_its_number_stays_used",),
    ),
    Mutation(
        "F20",
        "kept proofs are not checked",
        'if not is_ours or document["sha256"] != _digest(known):',
        "if not is_ours:",
        ("unit/drive/test_proofs.py::test_no_flipped_bit_of_kept_proofs_becomes_a_column",),
    ),
    Mutation(
        "F21",
        "a refusal is a traceback",
        "        raise refusal from error\n",
        "        raise\n",
        (STORAGE + "test_refused_write_ends_the_sweep_with_the_path_and_the_next_run_goes_on[file.write-28]",),
    ),
    Mutation(
        "F21",
        "a rank without room has failed",
        "    _refuse_full_disk(end)\n",
        "",
        (STORAGE + "test_rank_that_could_not_write_says_nothing_about_its_trial",),
    ),
    Mutation(
        "F21",
        "what was written of a refused line stays",
        "            with contextlib.suppress(OSError):\n                os.ftruncate(self._descriptor, self._size)\n",
        "",
        ("unit/record/test_journal.py::test_a_refused_write_leaves_the_journal_as_it_was",),
    ),
    Mutation(
        "F22",
        "a file is not made durable",
        "                os.fsync(stream.fileno())\n",
        "",
        (SYSCALLS + "test_driver_asks_the_kernel_to_make_everything_durable",),
    ),
    Mutation(
        "F22",
        "a folder is not made durable",
        "        sync_folder(folder)\n",
        "",
        (SYSCALLS + "test_driver_asks_the_kernel_to_make_everything_durable",),
    ),
    Mutation(
        "F22",
        "a line of the journal is not made durable",
        '            reach("journal.fsync")\n            os.fsync(self._descriptor)\n',
        '            reach("journal.fsync")\n',
        (SYSCALLS + "test_driver_asks_the_kernel_to_make_everything_durable",),
    ),
    Mutation(
        "F22",
        "a refused fsync is overlooked",
        "                os.fsync(stream.fileno())\n",
        "                with contextlib.suppress(OSError):\n                    os.fsync(stream.fileno())\n",
        (SYSCALLS + "test_driver_disturbed_at_each_call_ends_as_if_undisturbed[refused]",),
    ),
    Mutation(
        "F23",
        "the folder is made again where it was",
        "        if not self._path.parent.is_dir():\n",
        "        if False:\n",
        (STORAGE + "test_folder_that_vanishes_ends_the_sweep_and_is_not_made_anew",),
    ),
    Mutation(
        "F23",
        "results are strewn among the files of something else",
        "    require_no_strangers(folder)\n    make_folder(folder)\n",
        "    make_folder(folder)\n",
        (STREAMS + "test_folder_that_holds_something_else_is_refused",),
    ),
    Mutation(
        "F23",
        "an empty path is the current folder",
        '        if os.fspath(value) == "":\n',
        "        if False:\n",
        (STREAMS + "test_empty_path_is_refused",),
    ),
    Mutation(
        "F23",
        "nobody looks whether the current folder is there",
        '        Path.cwd()\n    except OSError as error:\n        raise BenchError(f"The current',
        '        pass\n    except OSError as error:\n        raise BenchError(f"The current',
        (STREAMS + "test_deleted_current_folder_is_named_before_anything_starts",),
    ),
    Mutation(
        "F23",
        "a refused figure or page does not say what helps",
        '        raise StorageError(f"{error} Choose another place with --out.") from error\n',
        "        raise\n",
        (STREAMS + "test_place_that_takes_no_figure_or_page_is_named_with_the_way_out",),
    ),
    Mutation(
        "F23",
        "a folder that cannot be written is found out by a traceback",
        "OSError as error:\n        raise _not_writable(path, error) from error\n    try:\n        _flock",
        "ZeroDivisionError as error:\n        raise _not_writable(path, error) from error\n    try:\n        _flock",
        (STORAGE + "test_folder_that_cannot_be_written_is_refused_before_the_first_launch",),
    ),
    Mutation(
        "F24",
        "nobody is refused",
        "_flock(descriptor, path, lease_path)\n        lease = _new_lease()\n        _take(lease_path, lease)\n",
        "lease = _new_lease()\n        lease_path.write_text(json.dumps(asdict(lease)))\n",
        ("unit/drive/test_lock.py::test_second_holder_is_refused_by_name_and_the_first_is_not_harmed",),
    ),
    Mutation(
        "F24",
        "nobody is refused, and a folder that somebody else took over is written on",
        "_flock(descriptor, path, lease_path)\n        lease = _new_lease()\n        _take(lease_path, lease)\n",
        "lease = _new_lease()\n        lease_path.write_text(json.dumps(asdict(lease)))\n",
        (STORAGE + "test_of_twenty_sweeps_at_once_exactly_one_runs",),
        (("        if _read(self._path) != self._lease:\n", "        if False:\n"),),
    ),
    Mutation(
        "F24",
        "a folder that somebody else took over is written on",
        "        if _read(self._path) != self._lease:\n",
        "        if False:\n",
        ("unit/drive/test_lock.py::test_holder_that_was_taken_over_writes_no_more",),
    ),
    Mutation(
        "F25",
        "a lease holds whoever made it",
        "    return is_alive(ProcessId(lease.pid, lease.start_ticks, lease.boot_id))\n",
        "    return True\n",
        ("unit/drive/test_lock.py::test_lease_of_the_dead_is_taken_over",),
    ),
    Mutation(
        "F25",
        "a number that was given again is the same process",
        'return fields[0] != "Z" and process.start_ticks in (None, int(fields[19]))',
        'return fields[0] != "Z"',
        ("unit/drive/test_lock.py::test_lease_of_the_dead_is_taken_over",),
    ),
    Mutation(
        "F25",
        "a process of an earlier boot may live",
        "if process.boot_id != boot_id() or not fields:",
        "if not fields:",
        ("unit/drive/test_lock.py::test_lease_of_the_dead_is_taken_over",),
    ),
)
