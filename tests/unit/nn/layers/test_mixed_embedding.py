"""An embedding of several matrices is one to all that stand behind it."""

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.base.packed import Layout, Packed
from heedful.config.model.transformer import TransformerModel
from heedful.models.from_recipe.transformer import transformer_encoder
from heedful.models.networks import set_precision, store_in
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.models.weights import weights_from_bytes, weights_to_bytes
from heedful.nn.initialization import init_xavier
from heedful.nn.layers.embedding import Embedding, MixedEmbedding, Output, make_embedding
from heedful.nn.layers.positions import Learned, Sinusoidal

WORDS, WIDTH = 9, 4


def tables(*widths: int) -> list[nn.Parameter]:
    return [nn.Parameter(torch.randn(WORDS, width)) for width in widths]


def mixed(positions: nn.Module | None = None, dropout: float = 0.0) -> MixedEmbedding:
    made = make_embedding(tables(WIDTH, 3, 7), positions, dropout)
    assert isinstance(made, MixedEmbedding)
    return made


def by_hand(embedding: MixedEmbedding, token: int) -> Tensor:
    """x'_i = P_i x_i + b_i, p = softmax over i of (a . x'_i + c), y = sum p_i x'_i"""
    rows = [table[token] for table in (embedding.weight, *embedding.others)]
    projected = [F.linear(row, p.weight, p.bias) for row, p in zip(rows, embedding.mix.project, strict=True)]  # type: ignore[arg-type]
    score = embedding.mix.score
    powers = [math.exp(float(score.weight[0] @ row)) for row in projected]
    return torch.stack([p / sum(powers) * row for p, row in zip(powers, projected, strict=True)]).sum(0)


@torch.no_grad()
def test_a_token_is_its_mixed_rows_times_the_root_of_the_width_plus_its_position() -> None:
    embedding = mixed(Sinusoidal(WIDTH))
    tokens, layout = torch.tensor([4, 0, 8, 4]), Layout.of([3, 1])
    waves = Sinusoidal(WIDTH)(layout.positions, layout.bound)
    expected = torch.stack([2 * by_hand(embedding, token) for token in tokens.tolist()]) + waves
    torch.testing.assert_close(embedding(tokens, layout), expected)


def test_stepping_through_sentences_equals_embedding_them_whole() -> None:
    positions = Learned(WIDTH, 8)
    nn.init.normal_(positions.weight)
    embedding = mixed(positions)
    sentences = torch.tensor([[1, 2, 3], [6, 7, 8]])
    whole = embedding(sentences.flatten(), Layout.of([3, 3])).view(2, 3, WIDTH)
    for place in range(3):
        torch.testing.assert_close(embedding.step(sentences[:, place], place), whole[:, place])


def test_every_matrix_learns_and_the_first_may_be_the_output_layers() -> None:
    embedding = mixed()
    output = Output(embedding.weight)
    tokens = torch.tensor([1, 2, 2])
    output(embedding(tokens, Layout.of([3]))).square().sum().backward()
    for table in (embedding.weight, *embedding.others):
        assert table.grad is not None
        assert (table.grad[[1, 2]] != 0).all()
    assert embedding.weight.grad is not None
    assert (embedding.weight.grad != 0).all()  # every word is scored
    assert all((table.grad[[0, 3]] == 0).all() for table in embedding.others if table.grad is not None)


def test_values_leave_in_the_chosen_precision_rounded_once() -> None:
    embedding = mixed(Sinusoidal(WIDTH))
    tokens, layout = torch.tensor([1, 2, 3]), Layout.of([3])
    exact = embedding(tokens, layout)
    set_precision(embedding, torch.bfloat16)
    assert torch.equal(embedding(tokens, layout), exact.bfloat16())
    store_in(embedding, torch.bfloat16)
    assert all(parameter.dtype == torch.bfloat16 for parameter in embedding.parameters())
    stored = embedding(tokens, layout)
    assert stored.dtype == torch.bfloat16
    torch.testing.assert_close(stored.float(), exact, atol=0.1, rtol=0.1)


def test_mixed_embeddings_are_dropped_in_training_alone() -> None:
    embedding = mixed(dropout=0.5)
    tokens, layout = torch.tensor([1, 2, 3]), Layout.of([3])
    assert (embedding(tokens, layout) == 0).any()
    assert (embedding.eval()(tokens, layout) != 0).all()


def test_one_matrix_makes_a_plain_embedding() -> None:
    (weight,) = tables(WIDTH)
    made = make_embedding([weight], None, 0.0)
    assert type(made) is Embedding
    assert made.weight is weight
    assert list(dict(made.named_parameters())) == ["weight"]


def test_a_model_with_mixed_embeddings_is_written_and_read() -> None:
    def model() -> TransformerEncoder:
        encoder = transformer_encoder(
            TransformerModel(width=WIDTH, heads=2, layers=1, inner=8, dropout=0.0), tables(WIDTH)[0]
        )
        encoder.embedding = mixed(Sinusoidal(WIDTH))
        init_xavier(encoder)
        return encoder

    first, second = model(), model()
    tokens = Packed.of([[1, 2], [3]])
    assert not torch.equal(first(tokens).values, second(tokens).values)
    weights_from_bytes(second, weights_to_bytes(first), Path("model.safetensors"))
    assert torch.equal(first(tokens).values, second(tokens).values)


def test_matrices_of_several_vocabularies_are_refused() -> None:
    message = r"^embeddings of \[9, 8\] words cannot be mixed: all must have the same vocabulary$"
    with pytest.raises(ValueError, match=message):
        make_embedding([*tables(WIDTH), nn.Parameter(torch.randn(8, WIDTH))], None, 0.0)
