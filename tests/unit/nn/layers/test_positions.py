import math

import pytest
import torch

from heedful.nn.layers.positions import Learned, Sinusoidal


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("width", [2, 6, 16])
def test_sinusoids_are_the_papers_formula(width: int, halves: bool) -> None:
    """sin and cos of p / 10000^(2i/E), side by side or the sines first; to one rounding of float32."""
    table = Sinusoidal(width, halves)(torch.arange(300), 300)
    assert table.shape == (300, width)
    for place in (0, 1, 2, 17, 299):
        for i in range(width // 2):
            angle = place / 10000 ** (2 * i / width)
            sine, cosine = (i, width // 2 + i) if halves else (2 * i, 2 * i + 1)
            assert float(table[place, sine]) == pytest.approx(math.sin(angle), abs=6e-8)
            assert float(table[place, cosine]) == pytest.approx(math.cos(angle), abs=6e-8)


def test_positions_are_looked_up_in_any_order() -> None:
    sinusoidal = Sinusoidal(8)
    rows = sinusoidal(torch.arange(10), 10)
    assert torch.equal(sinusoidal(torch.tensor([7, 0, 0, 3]), 8), rows[[7, 0, 0, 3]])


@pytest.mark.parametrize("halves", [False, True])
def test_a_longer_sentence_makes_the_table_grow_and_changes_no_row(halves: bool) -> None:
    small, large = Sinusoidal(8, halves, expected=4), Sinusoidal(8, halves, expected=1000)
    before = small(torch.arange(4), 4).clone()
    after = small(torch.arange(100), 100)
    assert small.table.shape[0] >= 100
    assert torch.equal(after[:4], before)
    assert torch.equal(after, large(torch.arange(100), 100))


def test_a_table_that_was_outgrown_stays_for_recordings_that_read_it() -> None:
    positions = Sinusoidal(8, expected=4)
    address = positions.table.data_ptr()
    positions(torch.arange(9), 9)
    assert positions.table.data_ptr() != address
    assert [table.data_ptr() for table in positions._outgrown] == [address]


def test_a_grown_table_keeps_its_type() -> None:
    sinusoidal = Sinusoidal(8, expected=4).to(torch.float64)
    assert sinusoidal(torch.arange(9), 9).dtype == torch.float64


def test_sinusoids_are_no_weights() -> None:
    assert not Sinusoidal(8).state_dict()


def test_learned_positions_are_rows_of_a_trained_matrix() -> None:
    learned = Learned(4, limit=6)
    with torch.no_grad():
        learned.weight.copy_(torch.arange(24.0).view(6, 4))
    rows = learned(torch.tensor([5, 0, 5]), 6)
    assert torch.equal(rows, learned.weight[[5, 0, 5]])
    (gradient,) = torch.autograd.grad(rows.sum(), learned.weight)
    assert gradient[:, 0].tolist() == [1, 0, 0, 0, 0, 2]
