"""Every promise of docs/reliability.md has a guard that was taken away once to see that a test misses it.

`python -m tests.mutations` takes them away again; here only that its table still fits the source.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutations.__main__ import choose
from tests.mutations.mutation import Mutation, places_of
from tests.mutations.run import sources_of
from tests.mutations.table import MUTATIONS, WITHOUT_A_MUTATION
from tests.rules.test_reliability import ROWS

ROOT = Path(__file__).parents[2]
SOURCES = sources_of(ROOT)


@pytest.mark.parametrize("fault", ROWS)
def test_every_fault_has_a_guard_that_is_missed_or_a_reason_why_not(fault: str) -> None:
    """Never both, so that a reason goes when it no longer holds."""
    assert (fault in {mutation.fault for mutation in MUTATIONS}) != (fault in WITHOUT_A_MUTATION)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"{mutation.fault} {mutation.words}")
def test_guard_stands_once_and_its_tests_are_in_the_row(mutation: Mutation) -> None:
    """Once, so that what is taken away is what is meant; the page names each test that misses it."""
    for guard, without in mutation.edits():
        assert len(places_of(guard, SOURCES)) == 1, f"changed, gone or there twice: {guard!r}"
        assert without != guard
    for test in mutation.tests:
        file, name = re.fullmatch(r"([\w/]+\.py)::(\w+)(?:\[.*\])?", test).groups()  # type: ignore[union-attr]
        assert re.search(rf"^def {name}\b", (ROOT / "tests" / file).read_text(), flags=re.MULTILINE), test
        assert f"`{file}::{name}`" in ROWS[mutation.fault], f"the row of {mutation.fault} does not name {test}"


def test_tests_on_the_stand_in_are_run_where_torch_is_a_cuda_build_and_alone_when_asked_for() -> None:
    """A guard none of whose tests can run is left out; one fault can be asked for with them."""

    def is_on_standin(words: list[str], has_cuda: bool) -> set[bool]:
        return {test.startswith("cuda/") for mutation in choose(words, has_cuda) for test in mutation.tests}

    assert is_on_standin([], has_cuda=False) == {False}
    assert is_on_standin([], has_cuda=True) == {False, True}
    assert is_on_standin(["cuda"], has_cuda=True) == {True}
    assert choose(["cuda"], has_cuda=False) == []
    assert {mutation.fault for mutation in choose(["cuda", "F41"], has_cuda=True)} == {"F41"}
    assert len(choose([], has_cuda=True)) == len(MUTATIONS)
