"""For each fault of docs/reliability.md the guards behind its promise, one file per group.

Whoever changes a guard changes it here too; a rule in tests/rules says when one is not found.
"""

from __future__ import annotations

from tests.mutations.arithmetic import ARITHMETIC
from tests.mutations.launch_ends import LAUNCH_ENDS
from tests.mutations.machines import MACHINES
from tests.mutations.measures import MEASURES
from tests.mutations.mutation import Mutation
from tests.mutations.records import RECORDS
from tests.mutations.signals import SIGNALS

MUTATIONS: tuple[Mutation, ...] = (*LAUNCH_ENDS, *SIGNALS, *RECORDS, *MACHINES, *ARITHMETIC, *MEASURES)
"""Every guard that is known to be missed, by fault."""

WITHOUT_A_MUTATION: dict[str, str] = {}
"""Fault to the reason why none of its guards can be taken away in a test without a GPU; none at present."""
