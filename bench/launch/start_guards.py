"""What surrounds the start of a process: refusals of the system are named, and the caller's script stays out of it."""

from __future__ import annotations

import errno
import resource
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from bench.errors import EnvironmentFault
from bench.telemetry.time_limit import process_limit


@contextmanager
def limits_named() -> Iterator[None]:
    """Turn a refusal to start a process into a fault that names the limit."""
    try:
        yield
    except (OSError, EOFError) as error:
        number = error.errno if isinstance(error, OSError) else None
        files = f"{resource.getrlimit(resource.RLIMIT_NOFILE)[0]:,} open files (ulimit -n)"
        if number in (errno.EMFILE, errno.ENFILE):
            limit = f"this process may have {files}. Raise the limit."
        elif number in (errno.EAGAIN, errno.ENOMEM):
            limit = process_limit()
        elif "AF_UNIX path too long" in str(error):  # has no number; the fork server's socket lies there
            limit = f"the name of the folder for temporary files, {tempfile.gettempdir()}, is too long. Set TMPDIR to "
            limit += "a shorter one."
        elif isinstance(error, EOFError | ConnectionError):  # the fork server is gone and gives no reason
            limit = f"the fork server ran out of files ({files}) or processes: {process_limit()}"
        else:
            raise
        raise EnvironmentFault(f"No process can be started: {limit}") from error


@contextmanager
def without_main_module() -> Iterator[None]:
    """Keep multiprocessing from running the caller's script again in each rank: ours need nothing of it."""
    main = sys.modules["__main__"]
    hidden = {name: getattr(main, name) for name in ("__spec__", "__file__") if hasattr(main, name)}
    main.__spec__ = None
    if "__file__" in hidden:
        del main.__file__
    try:
        yield
    finally:
        for name, value in hidden.items():
            setattr(main, name, value)
