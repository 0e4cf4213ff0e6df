"""The gradient scaler's scale as the host knows it, so that recording it reads nothing from the device."""

from __future__ import annotations

from torch.amp.grad_scaler import GradScaler


class HostScale:
    """Follow the scaler by its own rule: back off after a skip, grow after enough applied updates in a row.

    Source: torch, `GradScaler.update`.
    """

    def __init__(self, scaler: GradScaler) -> None:
        self._scaler = scaler
        self.value: float = scaler.get_scale()
        """Scale that the next window's losses are multiplied by."""
        self._applied_in_a_row = 0

    def follow(self, applied: bool) -> None:
        """Note what became of an update."""
        if not applied:
            self.value *= self._scaler.get_backoff_factor()
            self._applied_in_a_row = 0
            return
        self._applied_in_a_row += 1
        if self._applied_in_a_row == self._scaler.get_growth_interval():
            self.value *= self._scaler.get_growth_factor()
            self._applied_in_a_row = 0

    def state_dict(self) -> dict[str, float]:
        """Collect the state, for a checkpoint."""
        return {"value": self.value, "applied_in_a_row": self._applied_in_a_row}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Put a collected state back."""
        self.value, self._applied_in_a_row = state["value"], int(state["applied_in_a_row"])
