"""What is trained: models, micro-batches, loss. In a rank's process. Read `build.py` first."""
