"""The measured rate of a processor."""

import torch

from heedful.doctor.estimates.plan import measure_matrix_rate


def test_a_rate_is_one_that_a_processor_can_have() -> None:
    rate = measure_matrix_rate(torch.device("cpu"), torch.float32)
    assert 1e8 < rate < 1e15
