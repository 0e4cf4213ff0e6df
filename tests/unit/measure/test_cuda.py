"""What the CUDA device asks of torch, with torch.cuda replaced; the numbers are those of tests/gpu on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from unittest.mock import create_autospec, patch

import pytest
import torch

from bench.measure.cuda import CudaDevice
from bench.measure.device import Residents

STATS = {
    "requested_bytes.all.peak": 9,
    "allocated_bytes.all.peak": 10,
    "active_bytes.all.peak": 12,
    "reserved_bytes.all.peak": 20,
    "inactive_split_bytes.all.peak": 3,
    "num_alloc_retries": 1,
    "num_ooms": 2,
}
DEVICE = torch.device("cuda", 1)


class FakeEvent:
    """Stand for torch.cuda.Event, which needs a GPU to be made."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.calls = [f"timing {enable_timing}"]

    def record(self) -> None:
        self.calls.append("record")

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def elapsed_time(self, later: FakeEvent) -> float:
        del later
        return 1500.0


@pytest.fixture
def cuda() -> Iterator[SimpleNamespace]:
    """Replace what CudaDevice calls, each with the signature of the real one."""
    properties = SimpleNamespace(name="NVIDIA A100-SXM4-80GB", uuid="a0-00", total_memory=80 << 30)
    spies = SimpleNamespace(
        set_device=create_autospec(torch.cuda.set_device),
        synchronize=create_autospec(torch.cuda.synchronize),
        reset_peak_memory_stats=create_autospec(torch.cuda.reset_peak_memory_stats),
        memory_stats=create_autospec(torch.cuda.memory_stats, return_value=STATS),
        get_device_properties=create_autospec(torch.cuda.get_device_properties, return_value=properties),
        Event=FakeEvent,
    )
    with patch.multiple(torch.cuda, **vars(spies)):
        yield spies


def test_device_is_made_current_so_that_streams_and_nccl_use_it(cuda: SimpleNamespace) -> None:
    """What torch creates without a device must not land on GPU 0."""
    assert CudaDevice(1).torch_device == DEVICE
    cuda.set_device.assert_called_once_with(DEVICE)


def test_mark_is_a_recorded_timing_event_and_waits_for_nothing(cuda: SimpleNamespace) -> None:
    """An event without timing cannot be measured."""
    mark = CudaDevice(1).mark()
    assert mark.calls == ["timing True", "record"]
    cuda.synchronize.assert_not_called()


def test_wait_is_for_one_event_and_not_for_the_device(cuda: SimpleNamespace) -> None:
    """What was queued after the event goes on."""
    device = CudaDevice(1)
    mark = device.mark()
    device.wait(mark)
    assert mark.calls[-1] == "synchronize"
    cuda.synchronize.assert_not_called()
    device.synchronise()
    cuda.synchronize.assert_called_once_with(DEVICE)


def test_milliseconds_of_events_become_seconds(cuda: SimpleNamespace) -> None:
    """torch tells milliseconds."""
    device = CudaDevice(1)
    assert device.seconds_between(device.mark(), device.mark()) == 1.5


def test_peaks_and_counts_are_those_of_this_device(cuda: SimpleNamespace) -> None:
    """Every figure is asked of the rank's own GPU, and all peaks are reset together."""
    device = CudaDevice(1)
    device.reset_peaks()
    peaks, counts = device.peaks(), device.allocator_counts()
    assert (peaks.allocated_bytes, peaks.active_bytes, peaks.reserved_bytes) == (10, 12, 20)
    assert (peaks.requested_bytes, peaks.inactive_split_bytes) == (9, 3)
    assert (counts.retries, counts.ooms) == (1, 2)
    cuda.reset_peak_memory_stats.assert_called_once_with(DEVICE)
    assert {call.args for call in cuda.memory_stats.call_args_list} == {(DEVICE,)}


def test_uuid_is_written_as_the_driver_does(cuda: SimpleNamespace) -> None:
    """torch leaves the prefix out, by which NVML and CUDA_VISIBLE_DEVICES name a GPU."""
    properties = CudaDevice(1).properties()
    assert properties.uuid == "GPU-a0-00"
    assert properties.capacity_bytes == 80 << 30


def test_host_block_is_page_locked(cuda: SimpleNamespace) -> None:
    """A copy from the GPU to ordinary memory makes the host wait."""
    with patch.object(torch, "full", create_autospec(torch.full)) as full:
        CudaDevice(1).host_block(3, 2)
    assert full.call_args.kwargs["pin_memory"] is True
    assert full.call_args.args[0] == (3, 2)


def test_witness_follows_storages_of_the_gpu_and_leaves_the_peak_to_the_allocator(cuda: SimpleNamespace) -> None:
    """A value on the host is read for free, and takes no memory of the GPU."""
    with CudaDevice(1).witness(Residents, []) as witness:
        torch.ones(()).item()
    assert (witness.result().host_reads, witness.result().live_peak_bytes) == (0, 0)
    cuda.memory_stats.assert_not_called()


def test_what_is_outside_the_allocator_is_what_is_neither_free_nor_its_own(cuda: SimpleNamespace) -> None:
    """Another process's memory is in it, so it is a bound; it never is less than nothing."""
    free_and_total = create_autospec(torch.cuda.mem_get_info, return_value=(60, 100))
    for reserved, outside in ((30, 10), (45, 0)):
        held = create_autospec(torch.cuda.memory_reserved, return_value=reserved)
        with patch.multiple(torch.cuda, mem_get_info=free_and_total, memory_reserved=held):
            assert CudaDevice(1).outside_allocator_bytes() == outside
    free_and_total.assert_called_with(DEVICE)
    held.assert_called_with(DEVICE)
