"""What is observed on one device: clock, memory, ceilings, updates. In a rank's process. Read `profiler.py` first."""
