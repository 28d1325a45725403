"""Tables of tensors: what is written is read back, and each layout is what it says."""

import torch
from torch import Tensor

from heedful.interop.tensors import AS_IT_IS, TRANSPOSED, Pair, of_modules, paired_columns, read_pairs, write_pairs

HEAD = 4
PAIRS = [
    Pair("joined", ("query", "key", "value"), (paired_columns(HEAD), paired_columns(HEAD), AS_IT_IS), (8, 4, 4)),
    Pair("turned", ("other",), (TRANSPOSED,)),
    *of_modules({"layer": ["first", "second"]}),
]


def ours() -> dict[str, Tensor]:
    shapes = {"joined": (16, 6), "turned": (3, 5), "layer.weight": (4, 2), "layer.bias": (4,)}
    return {name: torch.randn(shape) for name, shape in shapes.items()}


def test_what_is_written_is_read_back_to_the_same_bits() -> None:
    tensors = ours()
    theirs = write_pairs(PAIRS, tensors)
    assert {name: tuple(tensor.shape) for name, tensor in theirs.items()} == {
        "query": (8, 6), "key": (4, 6), "value": (4, 6), "other": (5, 3),
        "first.weight": (2, 2), "second.weight": (2, 2), "first.bias": (2,), "second.bias": (2,),
    }  # fmt: skip

    def take(name: str, shape: tuple[int, ...]) -> Tensor:
        assert tuple(theirs[name].shape) == shape
        return theirs.pop(name)

    read = read_pairs(PAIRS, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, take)
    assert not theirs
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


def test_columns_of_a_head_are_rotated_in_planes_of_neighbours_here_and_of_halves_there() -> None:
    rows = torch.arange(8.0).unsqueeze(1)
    theirs = paired_columns(HEAD).to_theirs(rows)
    assert theirs.flatten().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    assert torch.equal(paired_columns(HEAD).to_ours(theirs), rows)


def test_what_is_written_shares_no_memory_with_the_model() -> None:
    tensors = ours()
    for tensor in write_pairs(PAIRS, tensors).values():
        tensor.zero_()
    assert all(tensor.any() for tensor in tensors.values())
