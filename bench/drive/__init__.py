"""The sweep's driver: what is owed, launched, recorded, resumed.

In the user's process, without torch. Read `driver.py` first.
"""
