"""Imported once by the fork server, so that every rank starts with torch loaded.

Nothing here may run a tensor operation or touch CUDA: a forked CUDA context does not work, and started threads do not
survive a fork.
"""

from __future__ import annotations

import os

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"

# Each OpenBLAS, numpy's and scipy's, starts a thread for every further core when it is loaded. Torch is not among them:
# where it brings one, the limit would hold in every rank.
_asked = os.environ.get(_BLAS_THREADS)
os.environ[_BLAS_THREADS] = "1"
import numpy  # noqa: E402, F401
import scipy.linalg  # noqa: E402, F401

if _asked is None:
    del os.environ[_BLAS_THREADS]
else:
    os.environ[_BLAS_THREADS] = _asked

import torch._dynamo  # noqa: E402, F401 - the optimizers import it on first use, which takes a second

# What a rank needs is loaded before it is forked, or every rank of every launch would load it anew.
import bench.launch.rank_process  # noqa: E402
import bench.rank.proof_rank  # noqa: E402
import bench.rank.worker  # noqa: E402, F401
