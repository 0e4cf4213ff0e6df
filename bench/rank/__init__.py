"""One rank of a launch: puts together its trial's model, optimizer, loop and device, and runs the measurement.

In a process of its own, which has torch; also the small programs that ask torch for the driver. Read `protocol.py`
first.
"""
