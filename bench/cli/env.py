"""`bench env`: what is here, what works, what does not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import click

from bench.cli.options import hang, require_current_folder


@click.command()
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Say what works for trials on this device; `cpu` ignores this machine's GPU.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Text for people, or one JSON object in base units (bytes, MHz), null for what is not known.",
)
@click.option(
    "--calibrate",
    is_flag=True,
    help="Measure the ceilings of the device with large matrix products and copies, and keep them for later sweeps; "
    "under 10 s on a CPU, 30 s for each GPU.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="With --calibrate: CPU threads to use; a rank of a sweep has all cores / world_size.  [default: all cores]",
)
@click.pass_context
def env(ctx: click.Context, device: str, output_format: str, calibrate: bool, threads: int | None) -> None:
    """Show what this machine has, what works and what does not.

    Looks at the processor, memory, torch, the driver, each GPU and what else uses it, and the folder of prepared
    corpora. Runs no trial; each GPU that torch can use adds two numbers as a test. Where a GPU is here or asked for and
    torch cannot use it, says what to do and exits with 5. Put its output into a bug report.

    With --calibrate it measures the ceilings of the device, the best speeds it reaches, and keeps them in the user's
    cache folder by device, torch version and threads. Run it on an idle machine. Rows of later sweeps then give their
    share of the matmul ceiling.

    \b
    Example:
      bench env
      bench env --calibrate
    """
    from bench.errors import EnvironmentFault
    from bench.machine.report import report_machine

    require_current_folder()
    if calibrate:
        click.echo("measuring the ceilings of the device ...", err=True)
    report = report_machine(device, calibrate, threads)
    if output_format == "json":
        click.echo(json.dumps(report, indent=1))
    else:
        width = max(40, min(100, shutil.get_terminal_size((80, 24)).columns))
        click.echo("\n".join(_text(report, width)))
    if report["fault"] is not None:
        click.echo(err=True)
        raise EnvironmentFault(report["fault"])
    ctx.exit(0)


def _text(report: dict[str, Any], width: int) -> Iterator[str]:
    """Write the report for people, lines no longer than the terminal."""
    from bench.cli.ceilings import ceilings_text

    yield f"This machine: {report['hostname']}"
    for label, text in _facts(report):
        yield from hang(f"  {label:<8}  ", text, width)
    yield ""
    yield from ceilings_text(report, width)
    yield ""
    yield "What works"
    for item in report["works"]:
        yield from hang(f"  {'yes' if item['works'] else 'no':<3}  ", f"{item['what']}: {item['why']}", width)
    yield ""
    if report["fault"] is not None:
        yield "No trial can start: see the error below."
    else:
        asked, device = report["device_asked"], {"cpu": "the CPU", "cuda": "the GPU"}[report["device"]]
        yield from hang("", f"A sweep with device: {asked} runs on {device} here.", width)


def _facts(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give label and sentence of each thing that is here."""
    yield "CPU", _cpu(report)
    yield "memory", _memory(report)
    yield "system", f"{report['platform']}"
    yield "Python", f"{report['python_version']}, bench {report['bench_version']}"
    yield "torch", _torch(report)
    yield "driver", _driver(report)
    if not report["gpus"]:
        files = ", ".join(report["device_files"])
        yield "GPUs", f"none found, but {files} is there" if files else "none"
    for gpu in report["gpus"]:
        yield "GPU" if gpu["index"] is None else f"GPU {gpu['index']}", _gpu(gpu)
    if report["cuda_visible_devices"] is not None:
        yield "visible", f"CUDA_VISIBLE_DEVICES={report['cuda_visible_devices_meaning']}"
    yield "ranks", "start by " + " or ".join(sorted(set(report["start_methods"]) & {"forkserver", "spawn"}))
    yield "corpora", _corpora(report)


def _cpu(report: dict[str, Any]) -> str:
    from bench.units import counted

    usable, all_cores, limit = report["cpu_count"], report["cpu_count_of_machine"], report["cpu_limit_cores"]
    cores = counted(usable, "core")
    if all_cores and all_cores != usable:
        cores += f" usable of {all_cores}"
    if limit is not None:
        cores += f", limited to {limit:g} cores' worth of time"
    return f"{report['cpu_model']}, {cores}"


def _memory(report: dict[str, Any]) -> str:
    from bench.units import format_bytes

    text = f"{format_bytes(report['memory_bytes'])}, of which {format_bytes(report['memory_available_bytes'])} free"
    limit = report["memory_limit_bytes"]
    return text if limit is None else f"{text}; this container may use {format_bytes(limit)}"


def _torch(report: dict[str, Any]) -> str:
    if report["torch_version"] is None:
        return f"none: {report['torch_problem']}"
    if report["cuda_version"] is None:
        return f"{report['torch_version']}, CPU-only build"
    text = f"{report['torch_version']}, built for CUDA {report['cuda_version']}"
    if report["cudnn_version"] is not None:
        text += f", cuDNN {report['cudnn_version']}"
    return f"{text}, NCCL {report['nccl_version'] or 'missing'}"


def _driver(report: dict[str, Any]) -> str:
    if report["driver_version"] is None:
        return report["nvml_problem"] or "unknown version"
    text = f"NVIDIA {report['driver_version']}"
    if report["driver_cuda_version"] is not None:
        text += f", for CUDA up to {report['driver_cuda_version']}"
    return f"{text}; {report['nvml_problem']}" if report["nvml_problem"] else text


def _gpu(gpu: dict[str, Any]) -> str:
    from bench.units import format_bytes

    parts = [gpu["name"] or "name unknown"]
    if gpu["total_bytes"] is None:
        parts.append("memory unknown")
    else:
        used = "use unknown" if gpu["used_bytes"] is None else f"{format_bytes(gpu['used_bytes'])} in use"
        parts.append(f"{format_bytes(gpu['total_bytes'])}, {used}")
    if gpu["sm_clock_mhz"] is not None:
        most = f" of {gpu['sm_clock_max_mhz']}" if gpu["sm_clock_max_mhz"] is not None else ""
        parts.append(f"{gpu['sm_clock_mhz']}{most} MHz")
    if gpu["persistence_mode"] is False:
        parts.append("persistence mode off, so that each start takes seconds longer")
    parts.append(_processes(gpu["processes"]))
    if gpu["mig_devices"]:
        slices = ", ".join(f"{mig['name'] or 'unnamed'} {mig['uuid'] or ''}".strip() for mig in gpu["mig_devices"])
        parts.append(f"MIG slices {slices}")
    parts.append(_seen_by_torch(gpu))
    parts.append(gpu["uuid"] or "UUID unknown")
    return "; ".join(parts)


def _processes(processes: list[dict[str, Any]] | None) -> str:
    from bench.units import format_bytes, listed

    if processes is None:
        return "processes on it unknown"
    if not processes:
        return "no process on it"
    names = [
        f"{process['pid']}" + (f" ({format_bytes(process['used_bytes'])})" if process["used_bytes"] is not None else "")
        for process in processes
    ]
    return f"in use by process {listed(names, 4)} (host numbering)"


def _seen_by_torch(gpu: dict[str, Any]) -> str:
    if gpu["torch_index"] is None:
        return "torch does not see it"
    said = f"torch calls it cuda:{gpu['torch_index']}"
    return f"{said}, and cannot use it: {gpu['torch_problem']}" if gpu["torch_problem"] else said


def _corpora(report: dict[str, Any]) -> str:
    from bench.units import format_bytes

    count = report["corpus_cache_corpora"]
    kept = f"{count} prepared, {format_bytes(report['corpus_cache_bytes'])}" if count else "none prepared yet"
    return f"{kept}, in {report['corpus_cache_folder']}"
