"""FLOPs of a launch whose time is planted, on a GPU whose peak is known."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
import torch

from bench.machine.calibration import DeviceKey, keep
from bench.measure.device import DeviceProperties
from bench.rank.efficiency_columns import efficiency_facts
from bench.rank.workbench import Workbench
from bench.sweep.presets import PRESETS
from bench.workload.flops import model_flops
from tests.planted_launch import planted, row_of

FIXED: dict[str, Any] = {"warmup_updates": 2, "updates": 20}
# gpt2-nano: 12 * 32 * 32 + 257 * 32 elements, one block, rows of 16: 3 * (2 * 20512 + 4 * 32 * 16) FLOPs a token.
NANO_FLOPS_PER_TOKEN = 129_216
UUID = "GPU-00000000-0000-0000-0000-000000000001"


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def launch(name: str = "NVIDIA A100-SXM4-80GB", uuid: str | None = UUID, **config: Any) -> Workbench:
    """Build a launch on a GPU of this name, where a micro-step takes 20 ms and the update nothing."""
    bench, device = planted(FIXED, lambda _: 0.02, lambda _: 0.0, **config)
    device.properties = lambda: DeviceProperties(name, uuid, 80 * 1024**3)  # type: ignore[method-assign]
    return bench


def calibrate(per_s: float, spread: float = 0.01, **key: Any) -> None:
    """Keep a ceiling of every precision for a device."""
    base = asdict(DeviceKey.gpu("NVIDIA A100-SXM4-80GB", UUID, str(torch.__version__)))
    ceiling = {"per_s": per_s, "spread": spread, "size": 4096, "repeats": 9}
    matmul = {"fp32": ceiling, "bf16": ceiling | {"per_s": 2 * per_s}}
    keep(DeviceKey(**(base | key)), {"matmul": matmul, "copy": ceiling, "host_to_device": ceiling})


def test_planted_rate_on_a_known_gpu_gives_the_exact_mfu() -> None:
    """32 token slots in 20 ms; the bf16 peak in mfu, the fp32 peak in the mode's own share."""
    row, _, _ = row_of(launch())
    flops_per_s = 1600 * NANO_FLOPS_PER_TOKEN
    assert row["model_flops_per_token"] == NANO_FLOPS_PER_TOKEN
    assert row["model_flops_per_s_per_gpu"] == pytest.approx(flops_per_s)
    assert row["mfu"] == row["hfu"] == pytest.approx(flops_per_s / 312e12)
    assert row["mode_peak_share"] == pytest.approx(flops_per_s / 19.5e12)
    assert row["flops_formula_version"].startswith("1:")
    assert row["matmul_ceiling_share"] is None


@pytest.mark.parametrize("accumulation_steps", [1, 4, 8])
def test_accumulation_does_not_change_mfu(accumulation_steps: int) -> None:
    """Every micro-batch counts, however many a window has.

    One peer counts one micro-batch per update, so that its TFLOP/s are low by the accumulation factor.
    """
    row, _, _ = row_of(launch(accumulation_steps=accumulation_steps, global_batch_size=2 * accumulation_steps))
    assert row["mfu"] == pytest.approx(1600 * NANO_FLOPS_PER_TOKEN / 312e12)


@pytest.mark.parametrize("kind", [True, "reentrant"])
def test_checkpointing_raises_hfu_alone(kind: bool | str) -> None:
    """What is computed twice is not useful work: https://github.com/pytorch/torchtitan/issues/452 ."""
    row, _, _ = row_of(launch(activation_checkpointing=kind))
    left_out = 0 if kind == "reentrant" else 32 * 128  # the block's forward, less the MLP's last product
    repeated = 2 * (12 * 32 * 32 - left_out) + 4 * 32 * 16
    assert row["mfu"] == pytest.approx(1600 * NANO_FLOPS_PER_TOKEN / 312e12)
    assert row["hfu"] / row["mfu"] == pytest.approx(1 + repeated / NANO_FLOPS_PER_TOKEN)


def test_unknown_gpu_has_flops_and_no_utilisation() -> None:
    """The rate stays; what it is a share of is not known."""
    row, _, _ = row_of(launch("Fake GPU"))
    assert row["model_flops_per_s_per_gpu"] > 0
    shares = ("mfu", "hfu", "mode_peak_share", "peak_flops_per_s_bf16", "peak_flops_per_s_mode")
    assert {row[name] for name in shares} == {None}


@pytest.mark.parametrize("window_mode", ["buffered", "streamed"])
def test_ragged_rows_cost_what_their_widths_cost(window_mode: str) -> None:
    """Short rows attend to less than seq_len positions; both window modes count the same."""
    data = {"synthetic": {"documents": 300, "mean_tokens": 12}, "rows": "ragged"}
    bench = launch(data=data, window_mode=window_mode)
    row, _, observed = row_of(bench)
    assert row["token_slots"] < 20 * 4 * 16
    assert row["token_pairs"] < 16 * row["token_slots"]
    expected = model_flops(PRESETS["gpt2-nano"], row["token_slots"], row["token_pairs"])
    assert row["model_flops"] == expected < NANO_FLOPS_PER_TOKEN * row["token_slots"]
    widths = _widths(bench, [sample.update for sample in observed.samples("timed")])
    assert row["token_pairs"] == sum(rows * width * width for rows, width in widths)


def _widths(bench: Workbench, updates: list[int]) -> list[tuple[int, int]]:
    """Read again what the timed part was fed: rows and width of each micro-batch."""
    config, source = bench.trial.config, bench.source
    found = []
    for update in updates:
        sequences = source.window(update, config.global_batch_size)
        for start in range(0, len(sequences), 2):
            chunk = sequences[start : start + 2]
            found.append((len(chunk), max(len(sequence) - 1 for sequence in chunk)))
    return found


@pytest.mark.filterwarnings("ignore:CUDA is not available")  # no GPU is there to cast for
def test_share_of_the_calibrated_ceiling_is_that_of_this_device_and_mode() -> None:
    """The ceiling in the precision that the trial computes in."""
    calibrate(1e9)
    assert efficiency_facts(launch())["matmul_ceiling_flops_per_s"] == 1e9
    row, _, _ = row_of(launch(amp_mode="bf16"))
    assert row["matmul_ceiling_flops_per_s"] == 2e9
    assert row["matmul_ceiling_share"] == pytest.approx(1600 * NANO_FLOPS_PER_TOKEN / 2e9)


@pytest.mark.parametrize(
    "other",
    [{"uuid": UUID[:-1] + "2"}, {"torch_version": "2.6.0"}, {"name": "NVIDIA A100-SXM4-40GB"}, {"spread": 0.11}],
    ids=["uuid", "torch", "name", "disturbed"],
)
def test_calibration_of_another_device_or_torch_or_a_disturbed_one_is_never_used(other: dict[str, Any]) -> None:
    """Null, never what another device reached."""
    calibrate(1e9, **other)
    assert efficiency_facts(launch())["matmul_ceiling_flops_per_s"] is None


def test_gpu_without_a_uuid_has_no_ceiling() -> None:
    """Another of the same name could not be told from it."""
    calibrate(1e9)
    assert efficiency_facts(launch(uuid=None))["matmul_ceiling_flops_per_s"] is None


def test_damaged_calibration_is_said_and_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    """The launch goes on."""
    calibrate(1e9)
    path = DeviceKey.gpu("NVIDIA A100-SXM4-80GB", UUID, str(torch.__version__)).path()
    path.write_text(path.read_text()[:40])
    assert efficiency_facts(launch())["matmul_ceiling_flops_per_s"] is None
    assert "bench env --calibrate" in capsys.readouterr().err
