"""Which settings rule each other out.

Each rule looks at one trial's settings and yields contradictions. If every trial has one, it is a fault of the file;
if only some axis values lead to it, those trials are skipped with the same words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.sweep.fields import DATA_SOURCES, OptimizerSpec, SyntheticSpec, TrialConfig
from bench.sweep.hf.configuration import known_config, longest_sequence, vocabulary
from bench.sweep.models import model_sources, shape_of
from bench.sweep.paths import value_at
from bench.sweep.presets import PRESETS, ModelShape
from bench.sweep.trial import show_value

_COLUMNS = ("text_column", "token_column", "prompt_column", "completion_column")
"""Keys of `data` that say which columns are read."""


@dataclass(frozen=True)
class Contradiction:
    """Say what is wrong with one setting beside others."""

    keys: tuple[str, ...]
    """Dotted names of the settings that take part; the first is the one complained about."""
    value: Any
    """Value of the first."""
    problem: str
    """Clause that follows "key = value"."""
    way_out: str
    """What to do, as a sentence without its full stop."""

    def sentence(self) -> str:
        """Write the contradiction as text that stands alone."""
        return f"{self.keys[0]} = {show_value(self.value)} {self.problem}. {self.way_out}."


def contradictions(config: TrialConfig) -> Iterator[Contradiction]:
    """Yield every contradiction within one trial's settings, whether resolved or as given."""
    for rule in (_batch, _model, _own_functions, _precision, _optimizer, _schedule, _source, _columns, _ids, _epoch):
        yield from rule(config)


def _contradiction(config: TrialConfig, keys: tuple[str, ...], problem: str, way_out: str) -> Contradiction:
    return Contradiction(keys, value_at(config, keys[0]), problem, way_out)


def _batch(config: TrialConfig) -> Iterator[Contradiction]:
    """global_batch_size = micro_batch_size x world_size x accumulation_steps, all whole numbers."""
    micro, world, total = config.micro_batch_size, config.world_size, config.global_batch_size
    if total is None or total % (micro * world) == 0:
        return
    keys = ("global_batch_size", "micro_batch_size", "world_size")
    problem = f"is not a multiple of micro_batch_size x world_size = {micro} x {world}"
    yield _contradiction(config, keys, problem, f"Use {_batches_that_divide(micro, world, total)}")


def _batches_that_divide(micro: int, world: int, total: int) -> str:
    """Name the nearest sizes that do divide, on both sides."""
    per_micro_step = micro * world
    below = total // per_micro_step * per_micro_step
    totals = [size for size in (below, below + per_micro_step) if size > 0]
    advice = f"global_batch_size {_either(totals)}"
    if total % world == 0:
        advice = f"micro_batch_size {_either(_nearest_divisors(total // world, micro))}, or {advice}"
    return advice


def _nearest_divisors(total: int, wanted: int) -> list[int]:
    """Find the largest divisor of `total` below `wanted`, and the smallest above it where there is one."""
    small = [size for size in range(1, int(total**0.5) + 1) if total % size == 0]
    divisors = sorted({*small, *(total // size for size in small)})
    return [*[size for size in divisors if size < wanted][-1:], *[size for size in divisors if size > wanted][:1]]


def _either(sizes: list[int]) -> str:
    return " or ".join(str(size) for size in sizes)


def _model(config: TrialConfig) -> Iterator[Contradiction]:
    """There is one model; a preset has a longest sequence and a largest token id, and only a factory has arguments."""
    model = config.model
    given = model_sources(model)
    if not given:
        way_out = "Add preset: gpt2-mini, factory: package.module:function, or hf: path/to/config.json"
        yield _contradiction(config, ("model.preset", "model.factory"), "names no model", way_out)
    if len(given) > 1:
        keys = tuple(f"model.{name}" for name in reversed(given))
        problem = f"is a second model, beside {' and '.join(f'model.{name}' for name in given[:-1])}"
        yield _contradiction(config, keys, problem, f"Keep one of {', '.join(given)}")
    if model.attn_implementation is not None and model.hf is None:
        keys, problem = ("model.attn_implementation", "model.hf"), "has no effect without model.hf"
        yield _contradiction(config, keys, problem, "Remove it, or use model.hf")
    if model.hf is not None:
        yield from _hf(config, known_config(model.hf))
    shape = shape_of(model)
    if len(given) == 1 and shape is not None:
        yield from _preset(config, shape)
    elif config.activation_checkpointing and model.factory is not None:
        problem = "has no effect on model.factory: whether it keeps activations is its own doing"
        way_out = "Remove it, and let the factory take an argument for it (model.args)"
        yield _contradiction(config, ("activation_checkpointing", "model.factory"), problem, way_out)


def _hf(config: TrialConfig, settings: Mapping[str, Any]) -> Iterator[Contradiction]:
    """Yield what a Hugging Face configuration rules out, as far as it says itself."""
    longest, ids, synthetic = longest_sequence(settings), vocabulary(settings), config.data.synthetic
    if longest is not None and config.seq_len > longest:
        problem = f"exceeds the longest sequence of the configuration, {longest}"
        yield _contradiction(config, ("seq_len", "model.hf"), problem, f"Use {longest} or less")
    if ids is not None and synthetic is not None and synthetic.vocab_size > ids:
        problem = f"exceeds vocab_size = {ids} of the configuration"
        yield _contradiction(config, ("data.synthetic.vocab_size", "model.hf"), problem, f"Use {ids} or less")


_OF_FACTORIES = ("model.args", "data.args", "data.collate", "loss.args", "optimizer.args")
"""Settings that say something of a function of the user's own."""


def _own_functions(config: TrialConfig) -> Iterator[Contradiction]:
    """Arguments belong to a function, and a function's samples are laid out by itself."""
    for name in _OF_FACTORIES:
        factory = f"{name.split('.')[0]}.factory"
        if value_at(config, name) is not None and value_at(config, factory) is None:
            way_out = "Remove it, or name the function"
            yield _contradiction(config, (name, factory), f"has no effect without {factory}", way_out)
    if config.data.factory is not None and "rows" in config.data.model_fields_set and config.data.rows != "packed":
        problem, way_out = "has no effect on data.factory", "Remove it: data.collate lays samples into a batch"
        yield _contradiction(config, ("data.rows", "data.factory"), problem, way_out)


def _preset(config: TrialConfig, shape: ModelShape) -> Iterator[Contradiction]:
    """Yield what a preset's shape rules out."""
    name = config.model.preset
    if config.seq_len > shape.max_seq_len:
        problem = f"exceeds max_seq_len = {shape.max_seq_len} of {name}"
        longer = [other for other, its in PRESETS.items() if its.max_seq_len >= config.seq_len]
        way_out = f"Use seq_len {shape.max_seq_len} or less" + (f", or model {_either_name(longer)}" if longer else "")
        yield _contradiction(config, ("seq_len", "model.preset"), problem, way_out)
    synthetic = config.data.synthetic
    if synthetic is not None and synthetic.vocab_size > shape.vocab_size:
        problem = f"exceeds vocab_size = {shape.vocab_size} of {name}"
        way_out = f"Use {shape.vocab_size} or less, or a model with a larger vocabulary"
        yield _contradiction(config, ("data.synthetic.vocab_size", "model.preset"), problem, way_out)


def _either_name(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]


def _precision(config: TrialConfig) -> Iterator[Contradiction]:
    """The gradient scaler needs fp32 gradients; TF32 needs fp32 matrix products."""
    keys = ("amp_mode", "param_dtype")
    stored = config.param_dtype
    if config.amp_mode == "fp16" and stored != "fp32":
        problem = f"does not work with param_dtype {stored}: torch's gradient scaler refuses {stored} gradients"
        yield _contradiction(config, keys, problem, "Use param_dtype fp32, or amp_mode fp32 or bf16")
    if config.amp_mode == "tf32" and stored != "fp32":
        problem = f"has no effect with param_dtype {stored}: no matrix product runs in fp32"
        yield _contradiction(config, keys, problem, "Use amp_mode fp32, or param_dtype fp32")


def _optimizer(config: TrialConfig) -> Iterator[Contradiction]:
    """Each optimizer has its own numbers."""
    spec, usual = config.optimizer, OptimizerSpec()
    if spec.factory is not None:
        # Of a resolved trial too: a number at its default says nothing.
        for number in ("name", "implementation", "weight_decay", "momentum", "beta1", "beta2"):
            if getattr(spec, number) != getattr(usual, number):
                keys = (f"optimizer.{number}", "optimizer.factory")
                way_out = (
                    "Remove it" if number == "name" else "Remove it, or give the function an argument for it (args)"
                )
                yield _contradiction(config, keys, "has no effect on optimizer.factory", way_out)
        return
    for number, owner in (("momentum", "sgd"), ("beta1", "adamw"), ("beta2", "adamw")):
        if getattr(spec, number) is not None and spec.name != owner:
            keys = (f"optimizer.{number}", "optimizer.name")
            way_out = f"Remove it, or use optimizer.name {owner}"
            yield _contradiction(config, keys, f"has no effect with optimizer {spec.name}", way_out)


def _schedule(config: TrialConfig) -> Iterator[Contradiction]:
    """A decaying schedule needs an end; a constant one has none."""
    schedule = config.schedule
    total, warmup = schedule.total_updates, schedule.lr_warmup_updates
    if schedule.name == "constant":
        if total is not None:
            keys = ("schedule.total_updates", "schedule.name")
            way_out = "Remove it, or use schedule.name linear or cosine"
            yield _contradiction(config, keys, "has no effect with a constant schedule", way_out)
    elif total is None:
        keys = ("schedule.name", "schedule.total_updates")
        way_out = "Add schedule.total_updates, such as 10000, or use schedule.name constant"
        yield _contradiction(
            config, keys, "needs schedule.total_updates, the update at which the rate is zero", way_out
        )
    elif warmup >= total:
        keys = ("schedule.lr_warmup_updates", "schedule.total_updates")
        way_out = f"Use less than {total}, or a larger total_updates"
        yield _contradiction(config, keys, f"is not less than schedule.total_updates = {total}", way_out)


def _source(config: TrialConfig) -> Iterator[Contradiction]:
    """There is one data source, and its rows can be cut as asked."""
    data = config.data
    given = tuple(name for name in DATA_SOURCES if getattr(data, name) is not None)
    if len(given) > 1:
        keys = tuple(f"data.{name}" for name in reversed(given))
        problem = f"is a second data source, beside {' and '.join(f'data.{name}' for name in given[:-1])}"
        yield _contradiction(config, keys, problem, f"Keep one of {', '.join(given)}")
    if data.tokens is not None and data.rows != "packed" and data.end_of_text is None:
        keys = ("data.rows", "data.tokens", "data.end_of_text")
        problem = "needs document borders, but data.tokens is one stream of tokens"
        yield _contradiction(
            config, keys, problem, "Use rows packed, or add data.end_of_text, the id that ends a document"
        )
    if data.synthetic is not None:
        yield from _lengths(config, data.synthetic)


def _columns(config: TrialConfig) -> Iterator[Contradiction]:
    """Columns are those of rows, and of one kind: text, ids, or a prompt and its completion."""
    data = config.data
    given = tuple(name for name in _COLUMNS if getattr(data, name) is not None)
    if data.jsonl is None and data.parquet is None:
        for name in given:
            beside = (f"data.{name}", "data.jsonl", "data.parquet")
            problem = "has no effect without data.jsonl or data.parquet"
            yield _contradiction(config, beside, problem, "Remove it, or add one of the two")
    elif len(given) > 1 and set(given) != {"prompt_column", "completion_column"}:
        keys = tuple(f"data.{name}" for name in reversed(given))
        problem = f"is a second kind of column, beside {' and '.join(f'data.{name}' for name in given[:-1])}"
        way_out = "Keep text_column, or token_column, or prompt_column and completion_column"
        yield _contradiction(config, keys, problem, way_out)


def _ids(config: TrialConfig) -> Iterator[Contradiction]:
    """What says how ids are made or read belongs to text or to a token file."""
    data = config.data
    texts = ("text", "jsonl", "parquet")
    if data.tokenizer is not None and all(getattr(data, name) is None for name in texts):
        keys = ("data.tokenizer", *(f"data.{name}" for name in texts))
        problem = "has no effect without data.text, data.jsonl or data.parquet"
        yield _contradiction(config, keys, problem, "Remove it, or add one of the three")
    elif data.tokenizer is not None and data.token_column is not None:
        keys = ("data.tokenizer", "data.token_column")
        yield _contradiction(config, keys, "has no effect beside data.token_column", "Keep one of the two")
    if data.token_dtype is not None and data.tokens is None:
        keys = ("data.token_dtype", "data.tokens")
        yield _contradiction(config, keys, "has no effect without data.tokens", "Remove it, or add data.tokens")
    if data.end_of_text is not None and data.tokens is None and data.tokenizer is None:
        keys = ("data.end_of_text", "data.tokens", "data.tokenizer")
        problem = "has no effect without data.tokens or data.tokenizer"
        yield _contradiction(config, keys, problem, "Remove it, or add one of the two")


def _lengths(config: TrialConfig, synthetic: SyntheticSpec) -> Iterator[Contradiction]:
    """Shortest, mean and longest length of a synthetic document are in ascending order."""
    mean, longest = synthetic.mean_tokens, synthetic.max_tokens
    if synthetic.min_tokens > mean:
        keys = ("data.synthetic.min_tokens", "data.synthetic.mean_tokens")
        yield _contradiction(config, keys, f"is more than mean_tokens = {mean}", f"Use {mean} or less")
    if longest is not None and longest < mean:
        keys = ("data.synthetic.max_tokens", "data.synthetic.mean_tokens")
        yield _contradiction(config, keys, f"is less than mean_tokens = {mean}", f"Use {mean} or more")


def _epoch(config: TrialConfig) -> Iterator[Contradiction]:
    """A tail exists only where an epoch ends, and dropping it must leave something."""
    data = config.data
    if data.tail == "keep":
        return
    if data.sequences_per_epoch is None:
        problem = "has no effect without data.sequences_per_epoch: no epoch ever ends"
        way_out = "Add data.sequences_per_epoch, or remove tail"
        yield _contradiction(config, ("data.tail", "data.sequences_per_epoch"), problem, way_out)
    elif config.global_batch_size is not None and data.sequences_per_epoch < config.global_batch_size:
        all_keys = ("data.tail", "data.sequences_per_epoch", "global_batch_size")
        problem = (
            f"leaves no update: an epoch of {data.sequences_per_epoch} sequences never fills "
            f"a global batch of {config.global_batch_size}"
        )
        yield _contradiction(
            config, all_keys, problem, "Use tail keep, a larger sequences_per_epoch or a smaller batch"
        )
