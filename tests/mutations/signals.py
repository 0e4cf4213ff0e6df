"""Signals to the driver: the guards of an orderly end."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

ENDS = "integration/test_interrupted_commands.py::"
HANGS = "integration/test_hangs.py::"
STARTS = "integration/test_start_signals.py::"
RESUME = "integration/test_resume.py::"

SIGNALS = (
    Mutation(
        "F15",
        "Ctrl-C ends the driver where it stands",
        "\nENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)",
        "\nENDING = (signal.SIGTERM, signal.SIGHUP)",
        (RESUME + "test_interrupted_sweep_keeps_what_is_finished_says_so_and_resumes",),
    ),
    Mutation(
        "F15",
        "a second Ctrl-C waits as the first",
        "            self.hurry = True\n",
        "            pass\n",
        (HANGS + "test_second_ctrl_c_ends_at_once_with_a_deaf_rank",),
    ),
    Mutation(
        "F15",
        "a rank that is ended just after its start writes to the terminal",
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})",
        "signal.pthread_sigmask(signal.SIG_BLOCK, ())",
        (STARTS + "test_rank_that_is_ended_before_it_has_a_log_says_nothing_on_the_terminal",),
    ),
    Mutation(
        "F15",
        "ranks are deaf to SIGINT",
        "    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})",
        "    signal.pthread_sigmask(signal.SIG_UNBLOCK, ())",
        (STARTS + "test_rank_that_is_ended_before_it_has_a_log_says_nothing_on_the_terminal",),
    ),
    Mutation(
        "F16",
        "SIGTERM ends the driver where it stands",
        "\nENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)",
        "\nENDING = (signal.SIGINT, signal.SIGHUP)",
        (RESUME + "test_interrupted_sweep_keeps_what_is_finished_says_so_and_resumes",),
    ),
    Mutation(
        "F16",
        "SIGHUP ends a sweep under nohup",
        "            if signal.getsignal(number) is not signal.SIG_IGN:\n",
        "            if True:\n",
        ("unit/launch/test_interrupts.py::test_signal_that_was_ignored_from_the_start_stays_ignored",),
    ),
    Mutation(
        "F15",
        "a command outside of its launches ends as the interpreter does",
        "            signal.signal(number, _end)\n",
        "            pass\n",
        (ENDS + "test_signal_during_a_calibration[SIGINT]",),
    ),
    Mutation(
        "F16",
        "a command outside of its launches ends as the interpreter does",
        "            signal.signal(number, _end)\n",
        "            pass\n",
        (ENDS + "test_signal_during_a_calibration[SIGTERM]",),
    ),
    Mutation(
        "F16",
        "a proof may take as long as it likes",
        "    total_s = within_s + _GRACE_S\n",
        "    total_s = within_s + 6000.0\n",
        (ENDS + "test_time_limit_of_a_check_holds_while_its_server_stalls",),
    ),
    Mutation(
        "F17",
        "ranks go on while the driver is stopped",
        "            signal_group(process, signal.SIGSTOP)\n",
        "            pass\n",
        (HANGS + "test_ctrl_z_stops_the_ranks_too_and_the_row_says_so",),
    ),
    Mutation(
        "F17",
        "the pause counts for the limits",
        "        self._excused_s += seconds\n",
        "",
        ("unit/launch/test_watchdog.py::test_time_in_which_everything_was_stopped_counts_for_no_limit",),
    ),
)
