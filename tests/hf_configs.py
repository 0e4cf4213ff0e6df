"""Small Hugging Face configurations of four architectures, without dropout, so that cuts of the same data compare."""

from __future__ import annotations

from typing import Any

_IDS = {"vocab_size": 257, "bos_token_id": 0, "eos_token_id": 1}
_SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
LLAMA = {"model_type": "llama", **_IDS, **_SIZES, "num_key_value_heads": 2, "max_position_embeddings": 64}
MISTRAL = {**LLAMA, "model_type": "mistral", "sliding_window": 16}
GPT2 = {
    "model_type": "gpt2",
    **_IDS,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
}
BERT = {
    "model_type": "bert",
    **_IDS,
    **_SIZES,
    "max_position_embeddings": 64,
    "is_decoder": True,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
CONFIGS: dict[str, dict[str, Any]] = {"llama": LLAMA, "gpt2": GPT2, "mistral": MISTRAL, "bert": BERT}
