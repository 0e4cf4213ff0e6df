"""Run commands of `bench` one after the other in this process and write how each ended: FILE, then a JSON list.

One interpreter for all, with the standard streams that the test gave it: each is a program's run in all but its start.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from bench.cli import main

if __name__ == "__main__":
    answers = Path(sys.argv[1])
    told = os.open(answers.with_suffix(".err"), os.O_RDWR | os.O_CREAT)
    ends = []
    for arguments in json.loads(sys.argv[2]):
        stderr = os.dup(2)
        os.ftruncate(told, 0)
        os.lseek(told, 0, os.SEEK_SET)
        os.dup2(told, 2)
        try:
            main(arguments, prog_name="bench")
            code = None
        except SystemExit as end:
            code = end.code
        except BaseException as error:
            code = repr(error)
        os.dup2(stderr, 2)
        os.close(stderr)
        ends.append([code, answers.with_suffix(".err").read_text()])
    answers.write_text(json.dumps(ends))
