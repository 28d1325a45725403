"""The Transformer equals transformers' `MarianMTModel` with the same weights: scores, and every gradient.

Marian is post-norm without final norms, has all sines before all cosines, and its sinusoids are rounded to float32 in
every type, as ours are. Its `swish` network has no gate, so it is none of ours; its output bias is no parameter, and
zero unless a converted model brings one.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

from heedful.base.packed import Packed
from heedful.config.model.transformer import TransformerModel
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.nn.layers.positions import Sinusoidal

WIDTH, HEADS, INNER, LAYERS, DECODER_LAYERS = 16, 4, 24, 2, 3
SOURCE_WORDS, TARGET_WORDS, PAD = 31, 23, 0
SOURCE_LENGTHS, TARGET_LENGTHS = (5, 1, 7, 3), (2, 6, 1, 4)
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-5}


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_scores_and_all_gradients_equal_marian(dtype: torch.dtype, activation: str, tie: str) -> None:
    source_words, target_words = vocabularies(tie)
    ours, theirs = our_model(dtype, activation, tie), their_model(dtype, activation, tie)
    names = list(correspondence(tie))
    copy_weights(ours, theirs, names)
    source, target = sentences(SOURCE_LENGTHS, source_words), sentences(TARGET_LENGTHS, target_words)
    factors = torch.randn(sum(TARGET_LENGTHS), target_words, dtype=dtype)

    our_scores = ours(Packed.of(source), Packed.of(target))
    (our_scores * factors).sum().backward()
    their_scores = scores_of(theirs, source, target)
    (their_scores * factors).sum().backward()

    assert_equal(our_scores, their_scores, "scores")
    for name, rows, their_name in names:
        gradient, expected = ours.get_parameter(name).grad, theirs.get_parameter(their_name).grad
        assert gradient is not None
        assert expected is not None
        if not name.endswith("bias"):
            assert gradient[rows].abs().max() > 0, name
        assert_equal(gradient[rows], expected, name)


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
def test_the_comparison_covers_every_parameter_of_both_models(tie: str) -> None:
    ours, theirs = our_model(torch.float32, "relu", tie), their_model(torch.float32, "relu", tie)
    covered = {name: torch.zeros(parameter.shape[0]) for name, parameter in ours.named_parameters()}
    for name, rows, _ in correspondence(tie):
        covered[name][rows] += 1
    for name, count in covered.items():
        assert (count == 1).all(), name
    trained = {name for name, parameter in theirs.named_parameters() if parameter.requires_grad}
    assert trained == {their_name for _, _, their_name in correspondence(tie)}


def test_positions_in_halves_are_marians_table() -> None:
    theirs = their_model(torch.float32, "relu", "all").get_parameter("model.encoder.embed_positions.weight")
    ours = Sinusoidal(WIDTH, halves=True)(torch.arange(len(theirs)), len(theirs))
    torch.testing.assert_close(ours, theirs.detach(), atol=6e-8, rtol=0)  # one rounding to float32


def vocabularies(tie: str) -> tuple[int, int]:
    return (TARGET_WORDS if tie == "all" else SOURCE_WORDS), TARGET_WORDS


def our_model(dtype: torch.dtype, activation: str, tie: str) -> EncoderDecoder:
    torch.manual_seed(1)
    config = TransformerModel(
        width=WIDTH,
        heads=HEADS,
        layers=LAYERS,
        decoder_layers=DECODER_LAYERS,
        inner=INNER,
        positions="sinusoidal_halves",
        activation=activation,  # type: ignore[arg-type]
        tie=tie,  # type: ignore[arg-type]
        dropout=0.0,
    )
    model = build_model(config, *vocabularies(tie)).to(dtype)
    set_precision(model, dtype)
    with torch.no_grad():  # biases of zero and norms of one would hide mistakes
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model


def their_model(dtype: torch.dtype, activation: str, tie: str) -> nn.Module:
    source_words, target_words = vocabularies(tie)
    config = MarianConfig(
        vocab_size=source_words,
        decoder_vocab_size=target_words,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=DECODER_LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=INNER,
        decoder_ffn_dim=INNER,
        max_position_embeddings=64,
        activation_function=activation,
        scale_embedding=True,
        share_encoder_decoder_embeddings=tie == "all",
        tie_word_embeddings=tie != "none",
        dropout=0.0,
        pad_token_id=PAD,
        eos_token_id=1,
        forced_eos_token_id=1,
        decoder_start_token_id=PAD,
        use_cache=False,
    )
    model: nn.Module = MarianMTModel(config).to(dtype)
    return model


def scores_of(model: nn.Module, source: list[list[int]], target: list[list[int]]) -> Tensor:
    """The scores of the real tokens, sentence after sentence."""
    source_ids, source_keep = padded(source)
    target_ids, target_keep = padded(target)
    answer: Any = model(
        input_ids=source_ids,
        attention_mask=source_keep.long(),
        decoder_input_ids=target_ids,
        decoder_attention_mask=target_keep.long(),
    )
    scores: Tensor = answer.logits[target_keep]
    return scores


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    ids = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
    return ids, ids != PAD


def sentences(lengths: tuple[int, ...], words: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(words)
    return [torch.randint(PAD + 1, words, (length,), generator=generator).tolist() for length in lengths]


def correspondence(tie: str) -> Iterator[tuple[str, slice, str]]:
    """Our parameter's name, which of its rows, and the name of theirs that is the same numbers."""
    whole = slice(None)
    thirds = [slice(i * WIDTH, (i + 1) * WIDTH) for i in range(3)]
    for side, layers in (("encoder", LAYERS), ("decoder", DECODER_LAYERS)):
        for layer in range(layers):
            here, there = f"{side}.blocks.{layer}", f"model.{side}.layers.{layer}"
            for kind in ("weight", "bias"):
                for letter, rows in zip("qkv", thirds, strict=True):
                    yield f"{here}.attention.project.{kind}", rows, f"{there}.self_attn.{letter}_proj.{kind}"
                yield f"{here}.attention.output.{kind}", whole, f"{there}.self_attn.out_proj.{kind}"
                yield f"{here}.around_attention.after.{kind}", whole, f"{there}.self_attn_layer_norm.{kind}"
                yield f"{here}.network.into.{kind}", whole, f"{there}.fc1.{kind}"
                yield f"{here}.network.out.{kind}", whole, f"{there}.fc2.{kind}"
                yield f"{here}.around_network.after.{kind}", whole, f"{there}.final_layer_norm.{kind}"
                if side == "decoder":
                    yield f"{here}.cross.project_query.{kind}", whole, f"{there}.encoder_attn.q_proj.{kind}"
                    for letter, rows in zip("kv", thirds[:2], strict=True):
                        yield f"{here}.cross.project_memory.{kind}", rows, f"{there}.encoder_attn.{letter}_proj.{kind}"
                    yield f"{here}.cross.output.{kind}", whole, f"{there}.encoder_attn.out_proj.{kind}"
                    yield f"{here}.around_cross.after.{kind}", whole, f"{there}.encoder_attn_layer_norm.{kind}"
    if tie == "all":
        yield "encoder.embedding.weight", whole, "model.shared.weight"
        return
    yield "encoder.embedding.weight", whole, "model.encoder.embed_tokens.weight"
    yield "decoder.embedding.weight", whole, "model.decoder.embed_tokens.weight"
    if tie == "none":
        yield "decoder.output.weight", whole, "lm_head.weight"


def assert_equal(found: Tensor, expected: Tensor, name: str) -> None:
    """Equal to the type's tolerance, on the scale of the largest value where that is above one."""
    assert found.shape == expected.shape, name
    error, scale = (found - expected).detach().abs().max(), expected.detach().abs().max().clamp(min=1)
    worst = float(error / scale)
    assert worst <= TOLERANCES[found.dtype], f"{name} is {worst:.1e} off"


@torch.no_grad()
def copy_weights(ours: EncoderDecoder, theirs: nn.Module, names: list[tuple[str, slice, str]]) -> None:
    for name, rows, their_name in names:
        theirs.get_parameter(their_name).copy_(ours.get_parameter(name)[rows])
