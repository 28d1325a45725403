"""What lets deep Transformers train, against the tables of the papers."""

import pytest
import torch
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.config.model.encoder_only import BertModel
from heedful.config.model.language import TransformerDecoderTable
from heedful.config.model.transformer import TransformerModel
from heedful.models.from_recipe.initialization import decoder_scales, encoder_scales
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.nn.attention.multi_head import SelfAttention

N, M = 18, 6  # blocks of the encoder and of the decoder


def test_the_constants_of_deepnorm_are_those_of_its_table() -> None:
    both = TransformerModel(norm="deepnorm", layers=N, decoder_layers=M)
    assert encoder_scales(both).skip == pytest.approx(0.81 * (N**4 * M) ** (1 / 16))
    assert encoder_scales(both).gain == pytest.approx(0.87 / (N**4 * M) ** (1 / 16))
    assert decoder_scales(both).skip == pytest.approx((3 * M) ** 0.25)
    assert decoder_scales(both).gain == pytest.approx(1 / (12 * M) ** 0.25)
    for alone in (
        encoder_scales(BertModel(family="bert", norm="deepnorm", layers=N)),
        decoder_scales(TransformerDecoderTable(norm="deepnorm", layers=N)),
    ):
        assert alone.skip == pytest.approx((2 * N) ** 0.25)
        assert alone.gain == pytest.approx((8 * N) ** -0.25)


def test_the_constants_of_tfixup_are_those_of_its_paper() -> None:
    both = TransformerModel(norm="tfixup", layers=N, decoder_layers=M)
    assert (encoder_scales(both).skip, decoder_scales(both).skip) == (1, 1)
    assert encoder_scales(both).gain == pytest.approx(0.67 / N**0.25)
    assert decoder_scales(both).gain == pytest.approx(1 / (9 * M) ** 0.25)


def built(norm: str, **options: object) -> EncoderDecoder:
    torch.manual_seed(5)
    table = {"width": 16, "heads": 2, "layers": 3, "decoder_layers": 2, "inner": 24, "dropout": 0.0, "tie": "none"}
    return build_model(TransformerModel.model_validate({**table, "norm": norm, **options}), 11, 11)


def weights_of(block: EncoderBlock | DecoderBlock) -> dict[str, Tensor]:
    """All matrices of a block, one by one."""
    assert isinstance(block.attention, SelfAttention)
    width = block.attention.output.weight.shape[0]
    q, k, v = block.attention.project.weight.split(width)
    found = {"q": q, "k": k, "v": v, "o": block.attention.output.weight}
    if isinstance(block, DecoderBlock) and block.cross is not None:
        key, value = block.cross.project_memory.weight.split(width)
        found |= {"cross_q": block.cross.project_query.weight, "cross_k": key, "cross_v": value}
        found["cross_o"] = block.cross.output.weight
    network = block.network
    assert isinstance(network.into, nn.Linear)
    assert isinstance(network.out, nn.Linear)
    return found | {"into": network.into.weight, "out": network.out.weight}


@pytest.mark.parametrize("norm", ["tfixup", "deepnorm"])
def test_values_outputs_and_networks_begin_smaller_and_queries_and_keys_do_not(norm: str) -> None:
    plain, scaled = built("post"), built(norm)
    table = TransformerModel.model_validate({"norm": norm, "layers": 3, "decoder_layers": 2})
    for side, scales in (("encoder", encoder_scales(table)), ("decoder", decoder_scales(table))):
        for before, after in zip(getattr(plain, side).blocks, getattr(scaled, side).blocks, strict=True):
            for name, weight in weights_of(after).items():
                gain = 1.0 if name.removeprefix("cross_") in ("q", "k") else scales.gain
                torch.testing.assert_close(weight, gain * weights_of(before)[name])


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_tfixup_makes_both_embeddings_smaller_once(tie: str) -> None:
    plain, scaled = built("post", tie=tie), built("tfixup", tie=tie)
    for side in ("encoder", "decoder"):
        before, after = getattr(plain, side).embedding.weight, getattr(scaled, side).embedding.weight
        torch.testing.assert_close(after, before * (9 * 2) ** -0.25)
    if tie == "none":
        assert torch.equal(scaled.decoder.output.weight, plain.decoder.output.weight)


def test_a_network_of_closed_branches_begins_as_its_embedding() -> None:
    model = built("rezero").eval()
    tokens = Packed.of([[4, 5, 6], [7]])
    assert isinstance(model.encoder, TransformerEncoder)
    embedded = model.encoder.embedding(tokens.values, tokens.layout)
    assert torch.equal(model.encoder(tokens).values, embedded)


@pytest.mark.parametrize("norm", ["rezero", "tfixup"])
def test_they_have_no_norms(norm: str) -> None:
    assert not [name for name, _ in built(norm).named_parameters() if "before" in name or "after" in name]
