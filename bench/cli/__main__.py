"""Run the command line as `python -m bench.cli`."""

from bench.cli import main

main(prog_name="bench")
