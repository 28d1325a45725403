"""BERT equals transformers' `BertForPreTraining` with the same weights: states, both heads, the loss, all gradients.

Theirs reads padded rows with an attention mask, ours the same texts end to end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForPreTraining

from heedful.base.packed import IGNORED, Packed
from heedful.config.model.encoder_only import BertModel
from heedful.data.batches.masked import MaskedBatch
from heedful.interop.transformers.encoders.kinds import BERT
from heedful.interop.transformers.encoders.names import pairs_of
from heedful.models.from_recipe.encoder_only import build_masked_model
from heedful.models.networks import MaskedModel, set_precision
from heedful.models.weights import set_weights, shapes_of
from heedful.nn.layers.pooling import FirstPool
from heedful.tasks.fill.objective import MaskedTokens
from heedful.tasks.shared.embeddings import states_of

PAD, WORDS = 0, 37
PAIRS = ((5, 3), (2, 1), (8, 9), (2, 0), (1, 4))  # tokens of each text and of its second one, markers included
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-5}


@dataclass(frozen=True)
class Shape:
    """Of both models."""

    width: int = 16
    heads: int = 4
    layers: int = 2
    inner: int = 24
    positions: int = 32
    epsilon: float = 1e-12

    def ours(self) -> BertModel:
        return BertModel.model_validate(
            {
                "family": "bert",
                "width": self.width,
                "heads": self.heads,
                "layers": self.layers,
                "inner": self.inner,
                "max_positions": self.positions,
                "norm_epsilon": self.epsilon,
            }
        )

    def theirs(self) -> BertConfig:
        return BertConfig(
            vocab_size=WORDS,
            hidden_size=self.width,
            num_attention_heads=self.heads,
            num_hidden_layers=self.layers,
            intermediate_size=self.inner,
            max_position_embeddings=self.positions,
            layer_norm_eps=self.epsilon,
            type_vocab_size=2,
            pad_token_id=PAD,
        )


SHAPES = {
    "tiny": Shape(),
    "one block, one head": Shape(width=12, heads=1, layers=1, inner=7),
    "narrow heads": Shape(width=8, heads=8, layers=3, inner=40, positions=17),
    "other epsilon": Shape(epsilon=1e-5),
}
all_shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
all_types = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)


@all_types
@all_shapes
def test_states_of_every_block_and_both_heads_equal_berts(shape: Shape, dtype: torch.dtype) -> None:
    ours, theirs = both_models(shape, dtype)
    texts = Texts()
    with torch.no_grad():
        answer = theirs(**texts.padded(), output_hidden_states=True)
        encoded = ours(texts.packed())
        places = torch.arange(int(texts.keep.sum()))
        pooled = ours.pooler(FirstPool()(encoded.values, encoded.layout))  # type: ignore[misc]
        expected_pooled = theirs.bert(**texts.padded()).pooler_output

        for layer, states in enumerate(answer.hidden_states):
            found = states_of(ours.encoder, texts.packed(), layer)
            assert_equal(found.values, states[texts.keep], f"states of layer {layer}")
        assert_equal(encoded.values, answer.hidden_states[-1][texts.keep], "states")
        assert_equal(
            ours.head.output(ours.masked(encoded, places)), answer.prediction_logits[texts.keep], "masked tokens"
        )
        assert_equal(pooled, expected_pooled, "pooled")
        assert_equal(ours.following(encoded), answer.seq_relationship_logits, "follows")


@all_types
def test_a_text_alone_is_of_the_first_segment(dtype: torch.dtype) -> None:
    ours, theirs = both_models(Shape(), dtype)
    row = torch.arange(1, 9)
    with torch.no_grad():
        expected = theirs.bert(row.unsqueeze(0)).last_hidden_state[0]
        assert_equal(ours(Packed.of([row.tolist()])).values, expected, "states")


@all_shapes
def test_all_gradients_equal_berts(shape: Shape) -> None:
    ours, theirs = both_models(shape, torch.float64)
    texts = Texts()
    factors = torch.randn(int(texts.keep.sum()), WORDS, dtype=torch.float64)
    pair_factors = torch.randn(len(PAIRS), 2, dtype=torch.float64)

    encoded = ours(texts.packed())
    scores = ours.head(encoded.values)
    ((scores * factors).sum() + (ours.following(encoded) * pair_factors).sum()).backward()
    answer = theirs(**texts.padded())
    their_loss = (answer.prediction_logits[texts.keep] * factors).sum()
    (their_loss + (answer.seq_relationship_logits * pair_factors).sum()).backward()

    for name, rows, their_name in correspondence(ours, shape.layers):
        gradient, expected = ours.get_parameter(name).grad, theirs.get_parameter(their_name).grad
        assert gradient is not None
        assert expected is not None
        if not their_name.endswith("self.key.bias"):  # adds the same to all scores of a query: its gradient is zero
            assert gradient[rows].abs().max() > 0, name
        assert_equal(gradient[rows], expected, name)


@all_shapes
def test_the_loss_of_the_objective_equals_berts(shape: Shape) -> None:
    ours, theirs = both_models(shape, torch.float32)
    texts = Texts()
    generator = torch.Generator().manual_seed(3)
    places = torch.tensor([1, 2, 9, 11, 12, 30])
    labels = torch.randint(PAD + 1, WORDS, places.shape, generator=generator)
    drawn = torch.tensor([0, 1, 1, 0, 1])
    packed_labels = torch.full((int(texts.keep.sum()),), IGNORED)
    packed_labels[places] = labels
    padded_labels = torch.full(texts.keep.shape, IGNORED)
    padded_labels[texts.keep] = packed_labels
    batch = MaskedBatch(
        texts.packed(),
        places,
        labels,
        drawn,
        balance=torch.tensor(len(places) / len(PAIRS)),
        sentences=len(PAIRS),
        tokens=int(texts.keep.sum()),
        masked=len(places),
    )
    objective = MaskedTokens()
    loss = objective(ours, batch).loss / objective.units(batch)
    expected = theirs(**texts.padded(), labels=padded_labels, next_sentence_label=drawn).loss
    assert_equal(loss, expected, "loss")


# --- names and numbers ------------------------------------------------------------------------------------------------


@all_shapes
def test_the_table_covers_every_parameter_of_both_models_once(shape: Shape) -> None:
    ours, theirs = both_models(shape, torch.float32)
    assert set(bert_names(shape.layers)) == {name for name, _ in ours.named_parameters()}
    taken = [name for names in bert_names(shape.layers).values() for name in names]
    assert sorted(taken) == sorted(name for name, _ in theirs.named_parameters())


LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}


@pytest.mark.parametrize(("preset", "config"), [("base", {}), ("large", LARGE), (None, {})])
def test_a_preset_has_as_many_parameters_as_the_published_model(preset: str | None, config: dict[str, int]) -> None:
    published = BertConfig(**config)
    table = BertModel.model_validate({"family": "bert"} | ({"preset": preset} if preset else {}))
    with torch.device("meta"):
        theirs = BertForPreTraining(published)
        ours = build_masked_model(table, published.vocab_size)
    assert count(ours) == count(theirs)
    assert shapes_of(dict(ours.named_parameters())) == shapes_of(copied(theirs, table.layers))


# --- both models, and what they read ----------------------------------------------------------------------------------


class Texts:
    """Pairs of texts, some without a second one: packed for us, padded for them."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(7)
        lengths = [first + second for first, second in PAIRS]
        self.rows = [torch.randint(PAD + 1, WORDS, (length,), generator=generator) for length in lengths]
        self.segments = [torch.tensor([0] * first + [1] * second) for first, second in PAIRS]
        self.keep = nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in self.rows], batch_first=True).bool()

    def packed(self) -> Packed:
        plain = Packed.of([row.tolist() for row in self.rows])
        return Packed(plain.values, plain.layout, torch.cat(self.segments))

    def padded(self) -> dict[str, Tensor]:
        return {
            "input_ids": nn.utils.rnn.pad_sequence(self.rows, batch_first=True, padding_value=PAD),
            "token_type_ids": nn.utils.rnn.pad_sequence(self.segments, batch_first=True),
            "attention_mask": self.keep.long(),
        }


def bert_names(layers: int) -> dict[str, tuple[str, ...]]:
    """Our parameters, and the tensors that are stacked into each."""
    return {pair.ours: pair.theirs for pair in pairs_of(BERT, "bert", layers)}


def copied(theirs: nn.Module, layers: int) -> dict[str, Tensor]:
    """Our parameters, made of theirs."""
    tensors = dict(theirs.named_parameters())
    return {ours: torch.cat([tensors[name] for name in names]) for ours, names in bert_names(layers).items()}


def both_models(shape: Shape, dtype: torch.dtype) -> tuple[MaskedModel, Any]:
    torch.manual_seed(1)
    theirs = BertForPreTraining(shape.theirs()).to(dtype).eval()
    with torch.no_grad():  # biases of zero and norms of one would hide mistakes
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    ours = build_masked_model(shape.ours(), WORDS).to(dtype).eval()
    set_precision(ours, dtype)
    set_weights(ours, copied(theirs, shape.layers))
    return ours, theirs


def correspondence(ours: MaskedModel, layers: int) -> Iterator[tuple[str, slice, str]]:
    """Our parameter's name, which of its rows, and the name of theirs that is the same numbers."""
    for name, theirs in bert_names(layers).items():
        rows = ours.get_parameter(name).shape[0] // len(theirs)
        for place, their_name in enumerate(theirs):
            yield name, slice(place * rows, (place + 1) * rows), their_name


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def assert_same_tensors(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert torch.equal(tensor, expected[name]), name


def assert_equal(found: Tensor, expected: Tensor, name: str) -> None:
    """Equal to the type's tolerance, on the scale of the largest value where that is above one."""
    assert found.shape == expected.shape, name
    error, scale = (found - expected).detach().abs().max(), expected.detach().abs().max().clamp(min=1)
    worst = float(error / scale)
    assert worst <= TOLERANCES[found.dtype], f"{name} is {worst:.1e} off"
