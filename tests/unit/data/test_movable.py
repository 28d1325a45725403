"""Batches of every kind move, and are written over, as a whole."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from tests.shared.refusals import refuses
from torch import Tensor

from heedful.base.packed import Layout, Nested, Packed
from heedful.data.batches.pairs import PairBatch, collate
from heedful.data.batches.texts import DocumentCollator, TextBatch, TextCollator
from heedful.data.collate import Movable
from heedful.data.token_store import TokenStore

KINDS = ("pairs", "texts", "pairs of texts", "several labels", "documents")
Batch = PairBatch | TextBatch


def batch_of(kind: str, shift: int = 0) -> Batch:
    """Two rows; another shift has other words and the same shape."""
    words = [[5 + shift, 6, 7], [8, 9 + shift]]
    rows = np.array([0, 1])
    if kind == "pairs":
        return collate([TokenStore.of(source=words, target=words[::-1])], rows)
    several = kind == "several labels"
    labels = [[0, 1], [shift]] if several else [[shift], [1]]
    store = TokenStore.of(text=words, second=words[::-1], sentences=[[1, 2], [2]], label=labels)
    if kind == "documents":
        return DocumentCollator(9, 9).batch([store], rows)
    return TextCollator(9, paired=kind == "pairs of texts", classes=2 if several else 0).batch([store], rows)


def tensors(value: Any) -> dict[str, Tensor]:
    """All of them by their paths, found without the program."""
    if isinstance(value, Tensor):
        return {"": value}
    if not isinstance(value, Movable | Packed | Layout | Nested):
        return {}
    return {
        f"{field.name}.{path}": tensor
        for field in fields(value)  # type: ignore[arg-type]
        for path, tensor in tensors(getattr(value, field.name)).items()
    }


def numbers(batch: Batch) -> list[int]:
    return [value for field in fields(batch) if isinstance(value := getattr(batch, field.name), int)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_moves_as_a_whole(kind: str) -> None:
    batch = batch_of(kind)
    moved = batch.to(torch.device("meta"), non_blocking=True)
    assert type(moved) is type(batch)
    assert tensors(moved).keys() == tensors(batch).keys()
    assert {tensor.device.type for tensor in tensors(moved).values()} == {"meta"}
    assert numbers(moved) == numbers(batch)
    assert {tensor.device.type for tensor in tensors(batch).values()} == {"cpu"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_takes_over_the_values_of_another_into_its_own_memory(kind: str) -> None:
    batch, other = batch_of(kind), batch_of(kind, shift=1)
    places = {path: tensor.data_ptr() for path, tensor in tensors(batch).items()}
    assert any(not torch.equal(tensor, tensors(other)[path]) for path, tensor in tensors(batch).items())
    batch.copy_(other)  # type: ignore[arg-type]
    for path, tensor in tensors(batch).items():
        assert torch.equal(tensor, tensors(other)[path]), path
        assert tensor.data_ptr() == places[path], path


def test_what_was_computed_from_offsets_is_computed_again_when_they_are_written_over() -> None:
    def documents(*sentences: list[int]) -> TextBatch:
        store = TokenStore.of(text=[[5] * sum(each) for each in sentences], sentences=list(sentences))
        return DocumentCollator(9, 9).batch([store], np.arange(len(sentences)))

    batch, other = documents([2, 1], [1]), documents([1], [1, 2])
    assert isinstance(batch.inputs, Nested)
    assert (batch.inputs.sentences.lengths.tolist(), batch.inputs.words.layout.lengths.tolist()) == ([2, 1], [3, 2, 2])
    batch.copy_(other)
    assert (batch.inputs.sentences.lengths.tolist(), batch.inputs.words.layout.lengths.tolist()) == ([1, 2], [2, 2, 3])


def test_a_batch_of_another_shape_is_not_taken_over() -> None:
    with refuses("...must match the size...", RuntimeError):
        batch_of("texts").copy_(TextCollator(3).batch([TokenStore.of(text=[[5], [6]])], np.arange(2)))  # type: ignore[arg-type]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="page-locked memory needs a CUDA device")
@pytest.mark.parametrize("kind", KINDS)
def test_a_pinned_batch_is_the_same_batch(kind: str) -> None:
    batch = batch_of(kind)
    pinned = batch.pin_memory()
    for path, tensor in tensors(pinned).items():
        assert tensor.is_pinned(), path
        assert torch.equal(tensor, tensors(batch)[path]), path
