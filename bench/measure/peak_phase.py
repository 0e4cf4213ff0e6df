"""In which phase of an update the device's own counters reached their peak: read at each phase, nothing is changed."""

from __future__ import annotations

from bench.measure.device import Device


class PeakPhase:
    """Read the peak of requested bytes whenever a phase begins; it costs the host a moment and the device nothing.

    Args:
        device: Whose peaks were reset when the update began.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._phase = "update"  # before the first forward what the last update left lives
        self._peak_phase = self._phase
        self._peak_bytes: int | None = None

    def phase_begin(self, phase: str) -> None:
        """Note what the loop does from here on; a peak that is higher than before came earlier."""
        self._note()
        self._phase = phase

    def result(self) -> tuple[str, int] | None:
        """Give phase and bytes of the peak, once the update is over; None where the device counts none."""
        self._note()
        return None if self._peak_bytes is None else (self._peak_phase, self._peak_bytes)

    def _note(self) -> None:
        peak = self._device.peaks().requested_bytes
        if peak is not None and (self._peak_bytes is None or peak > self._peak_bytes):
            self._peak_bytes, self._peak_phase = peak, self._phase
