"""Vectors of words from their letters, against a loop over single words."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from tests.shared.refusals import refuses
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.nn.layers.embedding import Embedding, make_table
from heedful.nn.layers.letters import ConvolutionalLetters, LetterVectors
from heedful.nn.recurrent.letters import RecurrentLetters
from heedful.nn.recurrent.stack import RecurrentStack

WORDS = [[5, 6, 7, 8, 9], [3], [], [1, 2], [4, 4, 4], []]


def embedding() -> Embedding:
    return Embedding(nn.Parameter(make_table(11, 3).double()), positions=None, dropout=0.0)


def convolutional(kernel: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return ConvolutionalLetters(embedding(), 4, kernel).double()


def recurrent() -> nn.Module:
    torch.manual_seed(0)
    return RecurrentLetters(embedding(), RecurrentStack("lstm", 3, 2, bidirectional=True)).double()


READERS: dict[str, Callable[[], nn.Module]] = {"convolutional": convolutional, "recurrent": recurrent}
every_reader = pytest.mark.parametrize("reader", READERS)


@pytest.mark.parametrize("kernel", [1, 3, 7])
def test_a_convolution_is_the_maximum_over_windows_of_each_word(kernel: int) -> None:
    reader = convolutional(kernel)
    assert isinstance(reader, ConvolutionalLetters)
    expected = []
    for word in WORDS:
        x = reader.embedding(torch.tensor(word, dtype=torch.int64), Packed.of([word]).layout)
        edge = torch.zeros(kernel // 2, 3, dtype=torch.float64)
        padded = torch.cat([edge, x, edge])
        windows = [reader.project(padded[t : t + kernel].flatten()).tanh() for t in range(len(word))]
        expected.append(torch.stack(windows).amax(0) if windows else torch.zeros(4, dtype=torch.float64))
    torch.testing.assert_close(reader(Packed.of(WORDS)), torch.stack(expected))


def test_a_recurrent_vector_is_the_last_state_of_each_direction() -> None:
    reader = recurrent()
    assert isinstance(reader, RecurrentLetters)
    found = reader(Packed.of(WORDS))
    for word, vector in zip(WORDS, found, strict=True):
        states = torch.zeros(1, 4, dtype=torch.float64)
        if word:
            x = reader.embedding.rows(torch.tensor(word)) * 3**0.5
            states, _ = reader.stack.layers[0](x)  # torch's own module
        torch.testing.assert_close(vector, torch.cat([states[-1, :2], states[0, 2:]]))


@every_reader
def test_neighbours_do_not_change_the_vector_of_a_word_or_its_gradient(reader: str) -> None:
    read = READERS[reader]()

    def gradient(words: list[list[int]], row: int) -> list[Tensor]:
        found = read(Packed.of(words))[row]
        return [found, *torch.autograd.grad(found.sum(), list(read.parameters()))]

    for number, word in enumerate(WORDS):
        if word:
            for alone, among in zip(gradient([word], 0), gradient(WORDS, number), strict=True):
                torch.testing.assert_close(alone, among)


@every_reader
def test_words_without_letters_are_zeros_even_if_all_are(reader: str) -> None:
    found = READERS[reader]()(Packed.of([[], []]))
    assert found.shape == (2, 4)
    assert not found.any()


def test_tokens_get_the_vectors_of_their_letters_and_others_none() -> None:
    vectors = LetterVectors(convolutional(), 4, 6).double()
    letters = Packed.of([[1, 2], [], [3], [4, 5]])  # of three tokens, and a dummy
    text = vectors(replace(Packed.of([[8, 9, 7]]), letters=letters))
    assert text.added.shape == (3, 6)
    torch.testing.assert_close(text.added, vectors.project(vectors.reader(Packed.of([[1, 2], [], [3]]))))
    assert not text.added[1].any()


def test_an_even_kernel_is_refused() -> None:
    with refuses("...a kernel of 4 letters has no letter in its middle...", ValueError):
        convolutional(4)
