import math

import pytest
import torch
from torch import nn

from heedful.base.packed import Layout, Packed
from heedful.config.model.language import LanguageModelTable
from heedful.models.from_recipe.language import build_language_model
from heedful.nn.layers.embedding import Embedding, Output
from heedful.nn.layers.positions import Learned, Sinusoidal

WORDS, WIDTH = 9, 4


def embedding_with(positions: nn.Module | None, dropout: float = 0.0) -> Embedding:
    return Embedding(nn.Parameter(torch.randn(WORDS, WIDTH)), positions, dropout)


def test_a_token_is_its_row_times_the_root_of_the_width_plus_its_position() -> None:
    embedding = embedding_with(Sinusoidal(WIDTH))
    layout = Layout.of([3, 1])
    x = embedding(torch.tensor([4, 0, 8, 4]), layout)
    for row, (token, place) in enumerate(((4, 0), (0, 1), (8, 2), (4, 0))):
        angles = [place / 10000 ** (2 * i / WIDTH) for i in range(WIDTH // 2)]
        waves = [wave(angle) for angle in angles for wave in (math.sin, math.cos)]
        expected = [2 * value + wave for value, wave in zip(embedding.weight[token].tolist(), waves, strict=True)]
        assert x[row].tolist() == pytest.approx(expected, abs=1e-6)


def test_without_positions_a_token_is_its_row_alone() -> None:
    embedding = embedding_with(None)
    tokens = torch.tensor([4, 0, 4])
    assert torch.equal(embedding(tokens, Layout.of([3])), 2 * embedding.weight[tokens])
    assert torch.equal(embedding.step(tokens, 7), 2 * embedding.weight[tokens])


@pytest.mark.parametrize("positions", [Sinusoidal(WIDTH, expected=2), Learned(WIDTH, 8)], ids=["sinusoidal", "learned"])
def test_stepping_through_sentences_equals_embedding_them_whole(positions: nn.Module) -> None:
    if isinstance(positions, Learned):
        nn.init.normal_(positions.weight)
    embedding = embedding_with(positions)
    sentences = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 0, 1]])
    whole = embedding(sentences.flatten(), Layout.of([5, 5])).view(2, 5, WIDTH)
    for place in range(5):
        assert torch.equal(embedding.step(sentences[:, place], place), whole[:, place])


def test_values_leave_in_the_chosen_precision_and_weights_keep_theirs() -> None:
    embedding = embedding_with(Sinusoidal(WIDTH))
    tokens, layout = torch.tensor([1, 2, 3]), Layout.of([3])
    exact = embedding(tokens, layout)
    embedding.precision = torch.bfloat16
    rounded = embedding(tokens, layout)
    assert torch.equal(rounded, exact.bfloat16())  # added in float32, rounded once
    rounded.sum().backward()
    assert embedding.weight.grad is not None
    assert embedding.weight.grad.dtype == torch.float32


def test_the_first_word_of_a_sentence_is_kept_where_no_position_is_added() -> None:
    weight = nn.Parameter(torch.randn(WORDS, WIDTH))
    embedding = Embedding(weight, None, 0.0, scaled=False, dropout_words=0.9, keeps_first=True)
    tokens, layout = torch.arange(9), Layout.of([1, 5, 3])
    kept = [(embedding(tokens, layout) != 0).all(1) for _ in range(20)]
    assert all(bool(each[place]) for each in kept for place in (0, 1, 6))
    assert not all(each.all() for each in kept)


def test_gradients_of_a_language_model_that_drops_words_do_not_grow_from_layer_to_layer() -> None:
    decoder = {
        "family": "transformer",
        "width": 16,
        "heads": 2,
        "layers": 16,
        "positions": "rope",
        "dropout": 0.0,
        "dropout_words": 0.5,
    }
    torch.manual_seed(0)
    model = build_language_model(LanguageModelTable.model_validate({"family": "language", "decoder": decoder}), WORDS)
    tokens = Packed(torch.randint(WORDS, (24,)), Layout.of([3] * 8))
    model.train()(tokens).square().sum().backward()
    norms = [p.grad.norm() for p in model.parameters() if p.grad is not None]
    assert max(norms) < 1e3 * sorted(norms)[len(norms) // 2]


def test_embeddings_are_dropped_in_training_alone() -> None:
    embedding = embedding_with(Sinusoidal(WIDTH), 0.5)
    tokens, layout = torch.tensor([1, 2, 3]), Layout.of([3])
    assert (embedding(tokens, layout) == 0).any()
    assert torch.equal(embedding.eval()(tokens, layout), embedding(tokens, layout))


def test_whole_words_are_dropped_in_training_alone_and_leave_their_places() -> None:
    """A word is there, larger by 1 / (1 - p), or it is not; a share of words within five sigma is not."""
    share, count = 0.3, 2000
    weight, positions = nn.Parameter(torch.ones(WORDS, WIDTH)), Sinusoidal(WIDTH)
    embedding = Embedding(weight, positions, 0.0, scaled=False, dropout_words=share)
    tokens, layout = torch.ones(count, dtype=torch.int64), Layout.of([count])
    words = (embedding(tokens, layout) - positions(layout.positions, count)).detach()
    there = words[:, 0] > 0.5
    torch.testing.assert_close(words, there.float().unsqueeze(1).expand(-1, WIDTH) / (1 - share), atol=1e-5, rtol=0)
    assert abs(float((~there).float().mean()) - share) < 5 * math.sqrt(share * (1 - share) / count)
    assert torch.equal(embedding.eval()(tokens, layout), 1 + positions(layout.positions, count))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_scores_are_products_with_every_words_row(dtype: torch.dtype) -> None:
    weight, bias = nn.Parameter(torch.randn(WORDS, WIDTH)), nn.Parameter(torch.randn(WORDS))
    x = torch.randn(3, WIDTH, dtype=dtype)
    for found, shift in ((Output(weight, bias)(x), bias.detach()), (Output(weight)(x), torch.zeros(WORDS))):
        assert found.dtype == dtype
        for row in range(3):
            for word in range(WORDS):
                product = sum(a * b for a, b in zip(x[row].tolist(), weight[word].tolist(), strict=True))
                assert found[row, word].item() == pytest.approx(product + shift[word].item(), abs=1e-5)
