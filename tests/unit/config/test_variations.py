"""Variations of the texts' models that contradict each other are refused, with the change that makes them legal."""

from pathlib import Path

import pytest
from tests.unit.config.reading.written_recipes import DATA, complaints

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
        "in `model`, `attention_radius` restricts scaled dot products with a softmax, but "
        '`distribution = "sparsemax"` is over the whole text: leave `attention_radius` out, or leave `distribution` '
        "out."
    ),
    "attention_radius = 4\npositions = 'relative'": (
        'in `model`, `positions = "relative"` adds to the scores of all pairs of positions, which `attention_radius` '
        'does not compute: use `positions = "rope"` or "sinusoidal".'
    ),
    "kernel = 3": (
        "in `model`, `kernel` belongs to convolutions: leave it out, or set "
        '`encoder_layer = "convolution"` or "separable".'
    ),
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
    "gate = 'doubled'": (
        'in `model`, `gate` belongs to the distribution "de_attention": leave it out, or choose that.'
    ),
}


@pytest.mark.parametrize(("model", "line"), REFUSALS.items(), ids=lambda text: text.replace("\n", " "))
def test_what_cannot_be_is_one_line_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert complaints(f"{DATA}[model]\n{model}") == [f"my.toml: {line}"]
