"""Variations of the texts' models that contradict each other are refused, with the change that makes them legal."""

from pathlib import Path

import pytest
from tests.shared.refusals import like
from tests.unit.config.reading.written_recipes import DATA, complaints

from heedful.config.model.transformer import TransformerModel

REFUSALS: dict[str, str] = {  # a [model] table, and what is said of it
    "width = 10\nheads = 3\nkey_width = 4": (
        "in `model`, `width` must be a multiple of `heads` (3), but is 10: change it, or set both `key_width` and "
        "`value_width`."
    ),
    "key_width = 33\npositions = 'rope'": (
        'in `model`, `key_width` must be even for `positions = "rope"`, which turns pairs of columns, but is 33.'
    ),
    "attention_radius = 4\nalignment = 'kernel'": (
        "in `model`, `attention_radius` restricts scaled dot products with a softmax, but "
        '`alignment = "kernel"` is over the whole text: leave `attention_radius` out, or leave `alignment` out.'
    ),
    "attention_radius = 4\ndistribution = 'sparsemax'": (
        'in `model`, `attention_radius` ... `distribution = "sparsemax"` ... or leave `distribution` out.'
    ),
    "attention_radius = 4\npositions = 'relative'": (
        'in `model`, `positions = "relative"` adds to the scores of all pairs of positions, which `attention_radius` '
        'does not compute: use `positions = "rope"` or "sinusoidal".'
    ),
    "kernel = 3": (
        "in `model`, `kernel` belongs to convolutions: leave it out, or set "
        '`encoder_layer = "convolution"` or "separable".'
    ),
    "dilation = 2": ("in `model`, `dilation` belongs to convolutions..."),
    "encoder_layer = 'separable'\nkernel = 4": (
        "in `model`, `kernel` must be odd, to have a token in its middle, but is 4."
    ),
    "encoder_layer = 'convolution'\nnorm = 'deepnorm'": (
        'in `model`, `norm = "deepnorm"` has constants for attention, but `encoder_layer` is "convolution": use '
        '`norm = "pre"` or "rezero".'
    ),
    "score_scale = true": (
        'in `model`, `score_scale` belongs to the alignments "general", "biased_general" and "activated_general": '
        "leave it out, or choose that."
    ),
    "score_depth = 3\nalignment = 'additive'": (
        'in `model`, `score_depth` belongs to the alignment "deep": leave it out, or choose that.'
    ),
    "score_activation = 'relu'": (
        'in `model`, `score_activation` belongs to the alignments "activated_general" and "deep": leave it out, or '
        "choose that."
    ),
    "feature_map = 'relu'": (
        'in `model`, `feature_map` belongs to the alignment "kernel": leave it out, or choose that.'
    ),
    "cross_attention = { alignment = 'kernel', distribution = 'sparsemax' }": (
        'in `model`, `cross_attention`: `alignment = "kernel"` ... must be "softmax", but is "sparsemax"; ...'
    ),
    "decoder_attention = { score_depth = 3 }": (
        'in `model`, `decoder_attention`: `score_depth` belongs to the alignment "deep": leave it out, or choose that.'
    ),
    "attention_radius = 4\nencoder_attention = { alignment = 'dot' }": (
        'in `model`, `encoder_attention`: `attention_radius` ... `alignment = "dot"` ... or leave `alignment` out.'
    ),
    "positions = 'alibi'\nencoder_attention = { alignment = 'area' }": (
        'in `model`, `encoder_attention`: `positions = "alibi"` adds to ... `alignment = "area"` does not have: ...'
    ),
    "cross_attention = { alignment = 'location' }": (
        'in `model`, `cross_attention`: `alignment = "location"` scores a fixed number of positions, ...'
    ),
    "backend = 'fused'\ncross_attention = { choice = 'hard' }": (
        'in `model`, `cross_attention`: `backend = "fused"` ... `choice` is "hard", which needs `backend = "auto"`.'
    ),
    "encoder_layer = 'separable'\nencoder_attention = { alignment = 'dot' }": (
        'in `model`, `encoder_layer = "separable"` replaces the self-attention of the encoder: leave '
        "`encoder_attention` out."
    ),
    "family = 'mixed'\nencoder = { family = 'transformer', cross_attention = { alignment = 'dot' } }\n"
    "decoder = { family = 'recurrent' }": (
        "in `model`, `encoder.cross_attention` is a site that the encoder does not have: leave it out."
    ),
    "gate = 'doubled'": (
        'in `model`, `gate` belongs to the distribution "de_attention": leave it out, or choose that.'
    ),
}


@pytest.mark.parametrize(("model", "line"), REFUSALS.items(), ids=lambda text: text.replace("\n", " "))
def test_what_cannot_be_is_one_line_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert complaints(f"{DATA}[model]\n{model}") == [like(f"my.toml: {line}")]


def test_a_site_keeps_what_it_sets_and_nothing_else_when_saved() -> None:
    said = {"alignment": "general", "cross_attention": {"alignment": "location", "max_places": 9}}
    model = TransformerModel.model_validate(said)
    read = TransformerModel.model_validate(model.model_dump())
    assert read.cross_attention is not None
    assert read.cross_attention.model_fields_set == {"alignment", "max_places"}
    assert read.at("cross") == model.at("cross")
    assert (read.at("encoder").alignment, read.at("cross").alignment) == ("general", "location")
    assert read.longest == (9, "cross_attention.max_places")
