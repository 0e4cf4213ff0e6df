"""The tool measured against its promises; `python -m benchmarks` runs everything, see `__main__`."""
