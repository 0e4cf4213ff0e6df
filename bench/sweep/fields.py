"""Every field of a sweep file: its type, its default, its range, and a sentence on what it means.

Only single fields are checked here. What settings rule out together is in `rules`; messages are put in `words`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from bench.sweep.hf.values import ALL_LINEAR, REENTRANT, Checkpointing, HfConfig, Names, Reference
from bench.sweep.marks import Constant, How, What
from bench.sweep.presets import PRESETS

FORMAT = 1
"""Version of the sweep file that this code reads."""

LARGEST = 1_000_000_000
"""Largest count any field takes: far beyond use, and small enough for every product to stay exact."""


FIXED_LENGTH = {"warmup_updates": 3, "updates": 20}
"""Settings that fix the length of a launch, and what the one left out is."""

_EITHER = ("preset", *FIXED_LENGTH)


class _Spec(BaseModel):
    """Refuse unknown keys, guessed types and non-finite numbers."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def _known_preset(name: str) -> str:
    if name not in PRESETS:
        raise PydanticCustomError("unknown_choice", "unknown preset", {"choices": list(PRESETS)})
    return name


def _plain_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Take only what a file can say again: text, numbers, booleans, null, lists and sections of these."""
    try:
        json.dumps(given, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise PydanticCustomError("not_plain", "not plain values") from None
    if not all(name.isidentifier() for name in given):
        raise PydanticCustomError("not_arguments", "not names of arguments")
    return given


Count = Annotated[int, Field(ge=1, le=LARGEST)]
CountFromZero = Annotated[int, Field(ge=0, le=LARGEST)]
Preset = Annotated[str, AfterValidator(_known_preset), Field(json_schema_extra={"enum": list(PRESETS)})]
FilePath = Annotated[str, Field(min_length=1)]
Arguments = Annotated[dict[str, Any], AfterValidator(_plain_arguments)]
"""What such a function is called with, by name."""


MODEL_SOURCES = ("preset", "factory", "hf")
"""Keys of `model` that say where it comes from; exactly one of them is given."""


class ModelSpec(_Spec):
    """Name the model to train.

    Give exactly one source: preset, factory or hf.
    """

    preset: Annotated[Preset | None, What(column="model", flag="--model")] = None
    """Name of the model's preset; --model of a command takes a function of your own too."""
    factory: Annotated[Reference | None, What(column="model", flag="--model")] = None
    """Function of your own that builds the model, package.module:function; see own-model.md."""
    args: Annotated[Arguments | None, What(column="model_args", flag="--model-args")] = None
    """Arguments of the model's factory by name, such as {width: 64}."""
    hf: Annotated[HfConfig | None, What(column="model", flag="--model")] = None
    """Hugging Face configuration: path of a config.json, or its settings, such as {model_type: llama}; no download."""
    attn_implementation: Annotated[
        Literal["eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"] | None, How()
    ] = None
    """Attention of a Hugging Face model, in transformers' words; null lets transformers choose."""


class LoraSpec(_Spec):
    """Train adapters of low rank beside frozen layers, by peft."""

    r: Annotated[Count, What(column="lora_r", null_means="no LoRA")] = 8
    """Rank of the adapters."""
    alpha: Annotated[float, Field(gt=0), What(column="lora_alpha")] = 16.0
    """Scale: the product of the two factors counts alpha / r."""
    target_modules: Annotated[Names, What(column="lora_target_modules")] = ALL_LINEAR
    """Names of the layers that get adapters, such as "q_proj, v_proj"; all-linear: all but what makes logits."""
    dropout: Annotated[float, Field(ge=0, lt=1), What(column="lora_dropout")] = 0.0
    """Share of the adapters' inputs that is dropped at random."""


class SyntheticSpec(_Spec):
    """Describe a synthetic corpus of random tokens in documents of unequal length."""

    documents: Count = 20_000
    """Documents in the corpus."""
    mean_tokens: Count = 256
    """Mean length of a document [tokens]."""
    min_tokens: Count = 2
    """Length of the shortest document [tokens]."""
    max_tokens: Count | None = None
    """Longer documents are truncated to this length [tokens]; null truncates none."""
    distribution: Literal["geometric", "lognormal"] = "geometric"
    """Distribution of the lengths: geometric above min_tokens, or lognormal with sigma 1, whose tail is longer."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of lengths and ids; it is separate from the trial's seed."""
    vocab_size: Annotated[int, Field(ge=2, le=LARGEST)] = 257
    """Token ids are below this number; at most the model's vocabulary."""


DATA_SOURCES = ("corpus", "text", "jsonl", "parquet", "tokens", "synthetic", "factory")
"""Keys of `data` that name what is read; at most one of them is given."""
FILE_SOURCES = ("text", "jsonl", "parquet", "tokens")
"""Those whose value names files."""


class DataSpec(_Spec):
    """Say what is read and how it becomes sequences.

    Give at most one source: corpus, text, jsonl, parquet, tokens, synthetic or factory.
    """

    corpus: Annotated[Literal["stdlib"] | None, What(column="data_source")] = None
    """A corpus that every machine has: Python's standard library, as bytes. The default source."""
    text: Annotated[FilePath | None, What(column="data_source")] = None
    """Glob of text files, relative to the current directory; a name that exists is taken as it is."""
    jsonl: Annotated[FilePath | None, What(column="data_source")] = None
    """Glob of JSON Lines files, one object a line; each row is a document."""
    parquet: Annotated[FilePath | None, What(column="data_source")] = None
    """Glob of parquet files; each row is a document."""
    tokens: Annotated[FilePath | None, What(column="data_source")] = None
    """Token file, mapped where it lies: .bin, flat or with the header of llm.c, or .npy of one dimension."""
    synthetic: Annotated[SyntheticSpec | None, What(column="data_source")] = None
    """A synthetic corpus of random tokens."""
    factory: Annotated[Reference | None, What(column="data_source", flag="--data-factory")] = None
    """Function of your own that makes the samples, package.module:function; see own-model.md."""
    args: Annotated[Arguments | None, What(column="data_args", flag="--data-args")] = None
    """Arguments of the data's factory by name, beside seq_len and seed."""
    collate: Annotated[Reference | None, What(null_means="stacked samples")] = None
    """Function of your own that makes one batch of a list of samples; null stacks their tensors."""
    text_column: Annotated[FilePath | None, What()] = None
    """Column of jsonl or parquet that holds text; without any column named: text, or prompt and completion."""
    token_column: Annotated[FilePath | None, What()] = None
    """Column of jsonl or parquet that holds lists of token ids, instead of text."""
    prompt_column: Annotated[FilePath | None, What()] = None
    """Column of jsonl or parquet that holds prompts, whose tokens are no targets; prompt beside completion_column."""
    completion_column: Annotated[FilePath | None, What()] = None
    """Column of jsonl or parquet that holds what follows the prompt; completion beside prompt_column."""
    tokenizer: Annotated[FilePath | None, What(null_means="bytes")] = None
    """File tokenizer.json that makes ids of text, jsonl or parquet; null takes the bytes of the text as ids."""
    token_dtype: Annotated[Literal["uint16", "uint32", "int64"] | None, What()] = None
    """Type of the ids of a flat token file; null means uint16, unless it looks like another."""
    end_of_text: Annotated[CountFromZero | None, What(null_means="one stream")] = None
    """Id that ends each document: null means one stream in a token file, and for a tokenizer the id it has for that."""
    rows: Annotated[Literal["ragged", "padded", "packed"], What()] = "packed"
    """ragged: one document a row, padded to the longest of its micro-batch; padded: to seq_len; packed: no padding."""
    sequences_per_epoch: Annotated[Count | None, What("sequence", null_means="endless data")] = None
    """Sequences after which an epoch ends, so that its last window may be partial; null never ends."""
    tail: Annotated[Literal["keep", "drop"], What()] = "keep"
    """What becomes of an epoch's partial last window: keep makes it an update like any other, drop leaves it out."""


class LossSpec(_Spec):
    """Choose the loss, and the unit it is a mean over."""

    factory: Annotated[Reference | None, What(column="loss", flag="--loss", null_means="cross-entropy")] = None
    """Function or class of your own that makes the loss, package.module:function; null is cross-entropy."""
    args: Annotated[Arguments | None, What(column="loss_args", flag="--loss-args")] = None
    """Arguments of the loss's factory by name."""


class OptimizerSpec(_Spec):
    """Choose the optimizer and its settings."""

    name: Annotated[Literal["adamw", "sgd"], What(column="optimizer", flag="--optimizer")] = "adamw"
    """Optimizer; without effect beside a factory."""
    factory: Annotated[Reference | None, What(column="optimizer", flag="--optimizer")] = None
    """Function or class of your own that makes the optimizer of (parameters, lr), package.module:function."""
    args: Annotated[Arguments | None, What(column="optimizer_args", flag="--optimizer-args")] = None
    """Arguments of the optimizer's factory by name, beside lr."""
    implementation: Annotated[
        Literal["default", "for_loop", "foreach", "fused"], How(column="optimizer_implementation")
    ] = "default"
    """Torch's implementation of the update; default lets torch choose."""
    lr: Annotated[float, Field(gt=0), What()] = 3e-4
    """Learning rate at the peak of the schedule."""
    weight_decay: Annotated[float, Field(ge=0), What()] = 0.1
    """Weight decay per update; adamw multiplies it by the learning rate."""
    momentum: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, What()] = None
    """Momentum of sgd; null means 0.0 for sgd and is the only value for adamw."""
    beta1: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, What()] = None
    """First decay rate of adamw; null means 0.9 for adamw and is the only value for sgd."""
    beta2: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, What()] = None
    """Second decay rate of adamw; null means 0.95 for adamw and is the only value for sgd."""


class ScheduleSpec(_Spec):
    """Choose how the learning rate follows the updates."""

    name: Annotated[Literal["constant", "linear", "cosine"], What(column="schedule")] = "constant"
    """Shape of the learning-rate schedule after its warm-up."""
    lr_warmup_updates: Annotated[CountFromZero, What("update")] = 0
    """Updates over which the learning rate rises to its peak [updates]."""
    total_updates: Annotated[Count | None, What("update", column="schedule_total_updates")] = None
    """Updates after which linear and cosine reach zero [updates]; null is for constant only."""
    unit: Annotated[Literal["update"], Constant()] = "update"
    """What advances the schedule: an applied update, never a micro-batch."""


class TrialConfig(_Spec):
    """Hold every setting of one trial that changes what is computed or measured.

    A row has them as columns, in this order.
    """

    device: Annotated[Literal["auto", "cpu", "cuda"], How()] = "auto"
    """Where to run; auto becomes cpu or cuda before the trial id is computed."""
    model: ModelSpec = ModelSpec(preset="gpt2-mini")
    """The model."""
    lora: LoraSpec | None = None
    """LoRA: freeze the model and train adapters; null trains the model itself."""
    param_dtype: Annotated[Literal["fp32", "bf16", "fp16"], What()] = "fp32"
    """Type in which weights are stored, and so gradients and optimizer state."""
    amp_mode: Annotated[Literal["fp32", "tf32", "bf16", "fp16"], How()] = "fp32"
    """fp32: no autocast, TF32 off; tf32: no autocast, TF32 on; bf16: autocast; fp16: autocast and gradient scaler."""
    world_size: Annotated[int, Field(ge=1, le=65_536), How("rank")] = 1
    """Ranks: processes that train together, one device each."""
    micro_batch_size: Annotated[Count, How("sequence")] = 1
    """Sequences in one forward and backward on one rank [sequences]."""
    accumulation_steps: Annotated[Count | None, How("micro-batch")] = None
    """Micro-batches per update on each rank; give this or global_batch_size."""
    global_batch_size: Annotated[Count | None, What("sequence")] = None
    """Sequences per update, over all ranks [sequences]; give this or accumulation_steps."""
    seq_len: Annotated[Count, What("token")] = 128
    """Maximum length of a sequence [tokens]."""
    data: DataSpec = DataSpec()
    """The data."""
    loss: LossSpec = LossSpec()
    """The loss."""
    optimizer: OptimizerSpec = OptimizerSpec()
    """The optimizer."""
    schedule: ScheduleSpec = ScheduleSpec()
    """The learning-rate schedule."""
    clip_norm: Annotated[Annotated[float, Field(gt=0)] | None, What(null_means="no clipping")] = 1.0
    """Maximum norm of the accumulated gradient, over all ranks; null does not clip."""
    seed: Annotated[int, Field(ge=0, lt=2**63), What()] = 1337
    """Seed of the initial weights and of the order of the sequences."""
    activation_checkpointing: Annotated[Checkpointing, How(), How(**REENTRANT)] = False
    """Whether blocks recompute activations in the backward instead of keeping them; reentrant: torch's older way."""
    compile: Annotated[bool, How()] = False
    """Whether the model runs through torch.compile, in its default mode."""
    gradient_sync: Annotated[Literal["last", "every"], How()] = "last"
    """When ranks average their gradients: at the last micro-step of a window only, or at every one."""
    window_mode: Annotated[Literal["buffered", "streamed"], How()] = "buffered"
    """buffered: a window waits on the host until its tokens are counted; streamed: it runs as it is read."""
    cpu_threads_per_rank: Annotated[
        Annotated[int, Field(ge=1, le=65_536)] | None, How("thread", null_means="default threads")
    ] = None
    """CPU threads torch may use in each rank; null means the machine's cores divided by world_size, at least 1."""


class MeasureSpec(_Spec):
    """Say how long to measure (a preset or a fixed number of updates), how often, and when to give up."""

    preset: Literal["quick", "normal", "strict"] | None = None
    """Measure until the mean is known to 2 % (quick), 0.5 % (normal) or 0.25 % (strict); default normal."""
    warmup_updates: CountFromZero | None = None
    """Fixed number of updates between the memory pass and the timed part [updates]; 3 when only updates is given."""
    updates: Count | None = None
    """Fixed number of updates of the timed part [updates]; 20 when only warmup_updates is given."""
    rounds: Annotated[int, Field(ge=1, le=1000)] = 3
    """Passes over all trials, each in its own order, with one launch per trial. Default 1 with a fixed length."""
    order: Literal["shuffled", "alternating"] = "shuffled"
    """Order in a round: shuffled; or alternating, as in the file and then reversed (ABBA), to compare a few trials."""
    quality_updates: CountFromZero = 20
    """Number of the update whose training loss is compared; 0 compares none."""
    timeout_s: Annotated[float, Field(gt=0)] = 1800.0
    """Time limit of a launch [seconds]."""
    start_timeout_s: Annotated[float, Field(gt=0)] = 120.0
    """Time limit until the end of a launch's first micro-step; 900 with compile, where none is given [seconds]."""
    stall_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    """Time limit without progress of a started rank, or 20 times its median micro-step; 900 with compile [seconds]."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        """Choose a preset, or complete a fixed length: one of the two always holds."""
        if not isinstance(given, dict):
            return given
        is_fixed = any(given.get(key) is not None for key in FIXED_LENGTH)
        default = {**FIXED_LENGTH, "rounds": 1} if is_fixed else {"preset": "normal", "rounds": 3}
        return default | {key: value for key, value in given.items() if value is not None or key not in _EITHER}


class SkipRule(_Spec):
    """Skip the trials that a condition selects, for a reason that is kept."""

    when: Annotated[dict[str, Any], Field(min_length=1)]
    """Settings, each with a value or a list of values; all must match."""
    reason: Annotated[str, Field(pattern=r"\S")]
    """Why these trials are skipped; commands show it, and it is stored."""


SEARCHED_AXIS = "micro_batch_size"
"""The axis whose values may be searched: {max: N} finds the largest of them that fits."""

LARGEST_SEARCHED = 1024
"""Largest N of {max: N}."""


def _searched_as_list(axes: Any) -> Any:
    """Read {max: N} as the only value of its axis: what it stands for depends on the other settings."""
    if isinstance(axes, dict) and isinstance(axes.get(SEARCHED_AXIS), dict) and set(axes[SEARCHED_AXIS]) == {"max"}:
        return {**axes, SEARCHED_AXIS: [axes[SEARCHED_AXIS]]}
    return axes


class SweepSpec(_Spec):
    """Hold a whole sweep file."""

    format: Literal[1]
    """Version of the file format."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    """Name of the sweep and of its folder in results/."""
    base: TrialConfig = TrialConfig()
    """Settings that every trial starts from."""
    axes: Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], BeforeValidator(_searched_as_list)] = {}
    """Settings to vary, such as micro_batch_size or data.rows, and their values; full product, last varies fastest."""
    trials: list[Annotated[dict[str, Any], Field(min_length=1)]] = []
    """Instead of axes: the trials one by one, each as its changes to base, such as data.rows."""
    skip: list[SkipRule] = []
    """Trials to skip."""
    measure: MeasureSpec = MeasureSpec()
    """How to measure."""

    def varied(self) -> tuple[str, ...]:
        """List the dotted names of the axes in file order; of listed trials, every setting that any of them names."""
        return tuple(self.axes) or tuple(dict.fromkeys(name for settings in self.trials for name in settings))
