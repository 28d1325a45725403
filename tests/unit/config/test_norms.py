"""The places and kinds of norms in the [model] table of a Transformer, and what replaces them in deep ones."""

from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe

MIXED_TABLES = 'encoder = { family = "transformer", norm = "deepnorm" }\ndecoder = { family = "recurrent" }'


def load(model: str, folder: Path) -> Recipe:
    """Read a recipe with this [model] table."""
    train = '{ text = "a.txt" }' if "bert" in model else '{ source = "a.en", target = "a.de" }'
    (folder / "my.toml").write_text(f"[data]\ntrain = {train}\n[model]\n{model}")
    return load_recipe(folder / "my.toml")


@pytest.mark.parametrize(
    ("model", "where", "line"),
    [
        (
            'norm = "tfixup"\nfinal_norm = true',
            "model",
            '`norm = "tfixup"` is a start without norms: leave `final_norm` out, or use another `norm`.',
        ),
        (
            'norm = "tfixup"\nembedding_norm = true',
            "model",
            '`norm = "tfixup"` is a ... `embedding_norm` out, or use another `norm`.',
        ),
        (
            'norm = "tfixup"\nnorm_kind = "rms"',
            "model",
            '`norm = "tfixup"` is a ... `norm_kind` out, or use another `norm`.',
        ),
        (
            'norm = "tfixup"\nnorm_epsilon = 1e-6',
            "model",
            '`norm = "tfixup"` is a ... `norm_epsilon` out, or use another `norm`.',
        ),
        (
            'norm = "rezero"\nnorm_kind = "rms"',
            "model",
            '`norm = "rezero"` has no norms that `norm_kind` could describe: leave it out, use another `norm`, or set '
            "`final_norm = true`.",
        ),
        (
            'family = "language"\ndecoder = { family = "transformer", norm = "rezero", norm_epsilon = 1e-6 }',
            "model.decoder",
            '`norm = "rezero"` has no norms that `norm_epsilon` could describe: ...',
        ),
        (
            f'family = "mixed"\n{MIXED_TABLES}',
            "model",
            '`encoder.norm` is "deepnorm", whose constants are those of two Transformers: use "rezero" or "pre".',
        ),
        (
            'family = "language"\ndecoder = { family = "transformer", norm = "tfixup" }',
            "model.decoder",
            '`norm = "tfixup"` is the start of an encoder with a decoder, which this model is not: use "rezero", '
            '"deepnorm" or "pre".',
        ),
    ],
)
def test_remedies_for_depth_that_contradict_the_model_are_refused(
    model: str, where: str, line: str, tmp_path: Path
) -> None:
    with refuses(f"{tmp_path / 'my.toml'}: in `{where}`, {line}"):
        load(model, tmp_path)


@pytest.mark.parametrize(
    "model",
    [
        'norm_kind = "layer"',
        'norm_kind = "rms"\nfinal_norm = true',
        'norm_kind = "rms"\nembedding_norm = true',
        'norm_kind = "rms"\nfamily = "bert"\nembedding_norm = false',  # the head of BERT has a norm
    ],
)
def test_rezero_takes_the_kind_of_norms_that_exist(model: str, tmp_path: Path) -> None:
    assert getattr(load(f'norm = "rezero"\n{model}', tmp_path).model, "norm", None) == "rezero"
