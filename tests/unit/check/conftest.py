import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread():
    """Leave the other cores to whoever else runs here."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
