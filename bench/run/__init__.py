"""Who drives: driver, launch, outcome and the worker."""
