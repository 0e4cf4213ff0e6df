"""Imported once by the fork server of a sweep with Hugging Face models or LoRA, which takes seconds in every rank else.

As in `bench.rank.preload` nothing here may run a tensor operation, touch CUDA or start a thread. A package that is
missing is named by the rank that needs it.
"""

from __future__ import annotations

import contextlib
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
with contextlib.suppress(ImportError):
    import transformers.models.auto.modeling_auto
    import transformers.models.gpt2.modeling_gpt2
    import transformers.models.llama.modeling_llama  # noqa: F401 - it loads what all of its kin use
with contextlib.suppress(ImportError):
    import peft  # noqa: F401
