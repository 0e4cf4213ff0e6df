"""Columns of what was asked for, and of the model, data and switches that came of it."""

from __future__ import annotations

from collections.abc import Iterator

from bench.record.column_types import Column, Kind
from bench.sweep.settings import SETTINGS, Setting

MODEL_SOURCE = "The model: its preset, or the function that builds it, package.module:function."
OPTIMIZER = "Optimizer: adamw, sgd, or the function that makes it, package.module:function."
DATA_SOURCE = "Where the data come from: corpus, text, jsonl, parquet, tokens, synthetic or factory, with its name."


_OF_SHARED = {"model": MODEL_SOURCE, "data_source": DATA_SOURCE, "optimizer": OPTIMIZER}
"""What is said of a column that several settings share."""


def _config(name: str, kind: Kind, sentence: str, unit: str | None = None) -> Column:
    return Column(name, kind, unit, "configuration", "config", sentence)


def _model(name: str, kind: Kind, sentence: str, unit: str | None = None) -> Column:
    return Column(name, kind, unit, "model and data", "same", sentence)


def _switch(name: str, kind: Kind, sentence: str) -> Column:
    return Column(name, kind, None, "switches read back", "same", sentence)


def _configuration() -> Iterator[Column]:
    """Give one column for each setting of a trial, where several share one the first time, and what follows of them."""
    told: set[str] = set()
    for setting in SETTINGS:
        if setting.column not in told:
            told.add(setting.column)
            sentence = _OF_SHARED.get(setting.column) or _sentence_of(setting)
            yield _config(setting.column, setting.kind, sentence, setting.unit)
        if setting.path == "model.preset":
            yield _config(
                "model_kind", "string", "Architecture of the model: gpt2 or llama; factory for one of your own."
            )
    yield _config("config_json", "string", "The whole resolved configuration as canonical JSON.")


def _sentence_of(setting: Setting) -> str:
    """Say what the setting means, and the words it takes where its sentence does not."""
    is_said = all(choice in setting.sentence for choice in setting.choices)
    return setting.sentence if is_said else f"{setting.sentence} One of {', '.join(setting.choices)}."


CONFIGURATION: tuple[Column, ...] = tuple(_configuration())
"""Configuration: every resolved field of the trial."""

MODEL: tuple[Column, ...] = (
    _model(
        "parameters_total",
        "int64",
        "Parameter elements of the model; shared ones count each time they appear.",
        "element",
    ),
    _model("parameters_trainable", "int64", "Unique parameter elements that receive a gradient.", "element"),
    _model("parameters_unique", "int64", "Parameter elements of the model; shared ones count once.", "element"),
    Column(
        "parameters_without_gradient",
        "list<string>",
        None,
        "model and data",
        "union",
        "Trainable parameters that received no gradient in the first updates and the memory pass, so that they are not "
        "trained (flag no_gradient); empty where all did. Null where the launch failed before, unless that was why.",
    ),
    _model("gradient_dtype", "string", "Type that gradients accumulate in."),
    _model(
        "user_code_hash",
        "string",
        "Hash of the files of the user's own functions: their modules and what these import from the same folder; null "
        "without.",
    ),
    _model(
        "corpus_hash",
        "string",
        "Hash of the tokens, the document borders and what of them are prompts; of a data factory, of the number of "
        "samples and of up to 256 of them.",
    ),
    _model("corpus_sequences", "int64", "Sequences in one epoch of the source.", "sequence"),
    _model(
        "sequence_tokens_p50",
        "int64",
        "Length that half of the sequences of one epoch do not exceed: tokens fed, seq_len at most, without padding.",
        "token",
    ),
    _model(
        "sequence_tokens_p95",
        "int64",
        "Length that 95 % of the sequences of one epoch do not exceed: tokens fed, seq_len at most, without padding.",
        "token",
    ),
    _model(
        "vocab_size", "int64", "Number of token ids the model accepts; null where only the model knows it.", "token"
    ),
)
"""Facts of the model and of the data, equal on every rank."""

SWITCHES: tuple[Column, ...] = (
    _switch("autocast_dtype", "string", "Type that autocast computes in; null when autocast is off."),
    _switch("tf32_matmul", "bool", "Whether TF32 was allowed in cuBLAS's matrix products; null on a CPU."),
    _switch("tf32_cudnn", "bool", "Whether TF32 was allowed in cuDNN; null on a CPU."),
    _switch(
        "float32_matmul_precision",
        "string",
        "Torch's precision of float32 matrix products on the launch's kind of device: highest (float32), high (TF32) "
        "or medium (on a CPU bf16).",
    ),
    _switch(
        "bf16_reduced_precision_reduction",
        "bool",
        "Whether cuBLAS may add partial sums of bf16 products in bf16; null on a CPU.",
    ),
    _switch(
        "fp16_reduced_precision_reduction",
        "bool",
        "Whether cuBLAS may add partial sums of fp16 products in fp16; null on a CPU.",
    ),
    _switch(
        "fp16_accumulation",
        "bool",
        "Whether cuBLAS may add up fp16 products in fp16; null on a CPU, and on torch without this switch.",
    ),
    Column(
        "matmul_error",
        "float64",
        "ratio",
        "switches read back",
        "max",
        "Largest relative error of an element of one small matrix product in the trial's precision, against float64, "
        "worst rank, before the first update; above the precision's limit the launch is invalid. Null on a stand-in "
        "GPU. See method.md.",
    ),
    Column(
        "attention_backends",
        "list<string>",
        None,
        "switches read back",
        "union",
        "Kernels that torch chose for scaled_dot_product_attention in the witnessed updates: flash, memory_efficient, "
        "cudnn, or math, which keeps a table of scores that grows with the square of seq_len. Null where none was "
        "seen: no attention, a package's own kernel, or a compiled model.",
    ),
    _switch("grad_scaler", "bool", "Whether losses were scaled and updates with inf or nan gradients skipped."),
)
"""Switches as read back from where they act after the model was built, not as asked for."""
