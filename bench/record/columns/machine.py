"""Columns of the machine and the software."""

from __future__ import annotations

from bench.record.column_types import Column, Kind, Rule


def _machine(name: str, kind: Kind, rule: Rule, sentence: str, source: str | None = None) -> Column:
    return Column(name, kind, None, "machine and software", rule, sentence, source)


MACHINE: tuple[Column, ...] = (
    _machine("hostname", "string", "rank0", "Name of the host of rank 0."),
    _machine("cpu_model", "string", "rank0", "Model name of the host's CPU."),
    _machine("cpu_count", "int64", "rank0", "Logical CPUs that the process may use."),
    _machine(
        "cpu_16bit_dtypes",
        "list<string>",
        "rank0",
        "Which of bf16 and fp16 the host's CPU has units for; the others are emulated on it, slower than fp32. Null "
        "where the system does not tell.",
    ),
    _machine("gpu_name", "string", "same", "Name of the GPU; null on a CPU."),
    _machine("gpu_uuid_per_rank", "list<string>", "per_rank", "UUID of every rank's GPU, in rank order.", "gpu_uuid"),
    _machine("driver_version", "string", "launch", "Version of the GPU driver; null without one."),
    _machine("cuda_version", "string", "same", "Version of CUDA that torch was built with; null for a CPU build."),
    _machine("cudnn_version", "string", "same", "Version of cuDNN; null without it."),
    _machine("nccl_version", "string", "same", "Version of NCCL; null without it."),
    _machine("torch_version", "string", "same", "Version of torch."),
    _machine("python_version", "string", "same", "Version of Python."),
    _machine("bench_version", "string", "same", "Version of this tool."),
    _machine(
        "environment_json",
        "string",
        "rank0",
        "Environment variables of torch and of the libraries below it, as JSON; without what may be a secret.",
    ),
)
"""Machine and software."""
