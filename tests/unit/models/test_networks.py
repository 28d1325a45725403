"""Networks by what they offer, not by their family: next-token states, precision, blocks without a memory."""

import math

import pytest
import torch
import torch.nn.functional as F
from tests.models.language import language_model
from tests.shared.refusals import refuses
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.config.model.transformer import TransformerModel
from heedful.data.batches.pairs import PairBatch
from heedful.data.batches.windows import Streams
from heedful.metrics.language.perplexity import likelihood, token_log_probabilities
from heedful.models.from_recipe.network import build_model
from heedful.models.from_recipe.transformer import transformer_decoder
from heedful.models.networks import set_precision
from heedful.models.protocols import Generator, HasPrecision
from heedful.models.transformer.blocks import DecoderBlock
from heedful.nn.attention.multi_head import SelfAttention
from heedful.nn.layers.embedding import Output
from heedful.nn.layers.residual import Residual
from heedful.training.objectives import NextToken

CONFIG = TransformerModel(width=8, heads=2, layers=1, inner=8, dropout=0.0)


def batch() -> PairBatch:
    source, target = Packed.of([[5, 6, 2], [7, 2]]), Packed.of([[1, 5], [1, 6, 7]])
    return PairBatch(source, target, torch.tensor([5, 2, 6, 7, 2]), 2, 5, 5)


class Bigrams(nn.Module):
    """The least that predicts next tokens: it has neither an encoder nor a decoder."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Parameter(torch.randn(12, 4))
        self._output = Output(nn.Parameter(torch.randn(12, 4)))

    @property
    def output(self) -> Output:
        return self._output

    def next_token_states(self, batch: PairBatch) -> Tensor:
        return self.table[batch.target.values]


def test_one_loss_and_one_perplexity_serve_whatever_predicts_next_tokens() -> None:
    model, pairs = Bigrams(), batch()
    scores = model.output(model.table[pairs.target.values])
    expected = F.cross_entropy(scores, pairs.labels, reduction="sum")
    torch.testing.assert_close(NextToken(0.0)(model, pairs).loss, expected)
    found = likelihood(model, [pairs, pairs])
    assert found.tokens == 10
    assert found.total == pytest.approx(2 * expected.item(), rel=1e-5)
    (logs,) = token_log_probabilities([model], [pairs])
    assert [len(tokens) for tokens in logs] == [2, 3]
    assert math.fsum(value for tokens in logs for value in tokens) == pytest.approx(-expected.item(), rel=1e-5)


def test_an_encoder_decoder_gives_the_states_of_its_targets() -> None:
    model, pairs = build_model(CONFIG, 12, 12).eval(), batch()
    assert torch.equal(model.next_token_states(pairs), model.states(pairs.source, pairs.target))
    assert model.output is model.decoder.output
    assert isinstance(model, Generator)


@pytest.mark.parametrize("family", ["rope", "lstm"])
def test_a_language_model_gives_the_states_of_its_inputs(family: str) -> None:
    model, segment = language_model(family), Streams.of(list(range(4, 16)), 2, 3).segment(0)
    scores = model.output(model.next_token_states(segment))
    torch.testing.assert_close(scores, model(segment.inputs))
    assert len(scores) == len(segment.labels)
    assert isinstance(model, Generator)
    assert model.encoder is None


# --- precision --------------------------------------------------------------------------------------------------------


def test_precision_is_set_wherever_a_module_has_one() -> None:
    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.precision = torch.float32

    own, model = Patches(), nn.Sequential(nn.Linear(2, 2), nn.Sequential(Patches()))
    model.append(own)
    set_precision(model, torch.bfloat16)
    found = [module.precision for module in model.modules() if isinstance(module, HasPrecision)]
    assert found == [torch.bfloat16] * 2
    assert own.precision == torch.bfloat16
    assert not hasattr(model[0], "precision")


# --- blocks without a memory ------------------------------------------------------------------------------------------


def test_a_decoder_without_memory_has_no_parameters_for_one() -> None:
    table = nn.Parameter(torch.randn(12, 8))
    with_memory, alone = (
        [name for name, _ in transformer_decoder(CONFIG, table, table, width).named_parameters()] for width in (8, None)
    )
    assert alone == [name for name in with_memory if "cross" not in name]
    assert len(alone) < len(with_memory)


@pytest.mark.parametrize("count", [1, 3])
def test_a_block_has_one_residual_per_sublayer(count: int) -> None:
    residuals = [Residual(nn.Identity(), nn.Identity(), 0.0) for _ in range(count)]
    with refuses(f"a decoder block has {count} residuals, but must have one per sublayer", ValueError):
        DecoderBlock(SelfAttention(8, 2, causal=True), None, nn.Identity(), residuals)
