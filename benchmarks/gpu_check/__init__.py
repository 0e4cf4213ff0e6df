"""Check on a real GPU what the tests can only check on a CPU; see `__main__`."""
