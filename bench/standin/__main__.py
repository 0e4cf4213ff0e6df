"""`python -m bench.standin`: run the self-test, and say how long it took."""

from __future__ import annotations

import sys

from bench.errors import BenchError
from bench.standin.build import find_torch, library_folder
from bench.standin.self_test import check


def main() -> int:
    """Run it; the exit code is the refusal's."""
    try:
        torch_build = find_torch()
        folder = library_folder()
        seconds = check(again=True)
    except BenchError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code
    print(f"the stand-in GPU carries torch {torch_build.version}: self-test passed in {seconds:.1f} s ({folder})")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
