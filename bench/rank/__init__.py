"""All that runs inside one rank of a launch, each in a fresh process that has torch. Read `protocol.py` first."""
