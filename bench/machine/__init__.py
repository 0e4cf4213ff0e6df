"""What this machine is and can do: `bench env`, visible GPUs, kept calibrations.

In the user's process; torch is asked in one of its own. Read `environment.py` first.
"""
