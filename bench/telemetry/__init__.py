"""What NVML tells of a GPU during a launch: samples, and what they say of its health.

In the driver's process, without torch. Read `watch.py` first.
"""
