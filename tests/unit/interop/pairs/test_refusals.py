"""What MarianMT and Pegasus cannot hold is refused before anything is read, naming the key."""

from pathlib import Path
from typing import Any

import pytest
from tests.shared.refusals import refuses
from tests.unit.interop.pairs.translators import write_translator
from tokenizers import Tokenizer as Library

from heedful.config.model.transformer import SITES
from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.data.tokenize.own_tokenizer import OwnTokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.exports import exporting
from heedful.interop.exports.formats import FORMATS
from heedful.interop.transformers.pairs.refusals import refusals
from heedful.interop.transformers.pairs.writing import write
from heedful.models.bundle import Bundle

PAIR = {"source": "a.en", "target": "a.de"}
ONLY = "has softmax attention by scaled dot products only"


def recipe_of(
    model: dict[str, Any], data: dict[str, Any] | None = None, tokenizer: dict[str, Any] | None = None
) -> Recipe:
    tables = {"data": {"train": PAIR} | (data or {}), "model": {"width": 16, "heads": 4, "layers": 1} | model}
    return recipe_from_json(tables | ({"tokenizer": tokenizer} if tokenizer else {}), "recipe")


@pytest.mark.parametrize(
    ("model", "key", "why"),
    [
        ({"norm": "rezero"}, "model.norm", 'transformers has encoder-decoders with the norms "post" and "pre" only'),
        ({"norm": "deepnorm"}, "model.norm", 'transformers has encoder-decoders with the norms "post" and "pre" only'),
        ({"norm_kind": "rms"}, "model.norm_kind", "MarianMT has layer norms only"),
        ({"norm_epsilon": 1e-6}, "model.norm_epsilon", "the epsilon of MarianMT is always 1e-05"),
        ({"final_norm": True}, "model.final_norm", "MarianMT always has none"),
        ({"norm": "pre", "final_norm": False}, "model.final_norm", "Pegasus always has one"),
        ({"activation": "swiglu"}, "model.activation", "MarianMT has no gated networks"),
        ({"encoder_layer": "convolution"}, "model.encoder_layer", "MarianMT has self-attention in every layer"),
        ({"alignment": "additive"}, "model.alignment", f"MarianMT {ONLY}"),
        ({"distribution": "entmax15"}, "model.distribution", f"MarianMT {ONLY}"),
        ({"choice": "hard", "norm": "pre"}, "model.choice", f"Pegasus {ONLY}"),
        ({"cross_attention": {"alignment": "general"}}, "model.cross_attention", f"MarianMT {ONLY}"),
        ({"key_width": 8}, "model.key_width", "the heads of MarianMT share its width evenly"),
        ({"value_width": 2}, "model.value_width", "the heads of MarianMT share its width evenly"),
        ({"attention_radius": 4}, "model.attention_radius", "every token of MarianMT attends to all tokens"),
        ({"positions": "learned"}, "model.positions", "MarianMT has sinusoidal positions only"),
        ({"positions": "rope", "norm": "pre"}, "model.positions", "Pegasus has sinusoidal positions only"),
        ({"word_positions": True}, "model.word_positions", "MarianMT counts tokens, not words"),
        ({"embeddings": 2}, "model.embeddings", "MarianMT has one embedding for each token"),
        ({"embedding_norm": True}, "model.embedding_norm", "MarianMT has no norm after the embedding"),
        (
            {"norm": "pre", "tie": "decoder"},
            "model.tie",
            "Pegasus has one matrix for both embeddings and the output layer",
        ),
    ],
)
def test_a_key_that_neither_has_is_named(model: dict[str, Any], key: str, why: str) -> None:
    assert list(refusals(recipe_of(model))) == [(key, why)]


@pytest.mark.parametrize(
    ("tokenizer", "key"),
    [
        ({"kind": "bpe", "joint": False}, "tokenizer.joint"),
        ({"kind": "bpe", "target": {"kind": "word"}}, "tokenizer.target"),
    ],
)
def test_pegasus_has_one_vocabulary(tokenizer: dict[str, Any], key: str) -> None:
    assert list(refusals(recipe_of({"norm": "pre"}, tokenizer=tokenizer))) == [
        (key, "Pegasus has one vocabulary for source and target")
    ]
    assert not list(refusals(recipe_of({}, tokenizer=tokenizer)))


def test_targets_with_tags_are_refused() -> None:
    data = {"train": PAIR | {"to": "de"}, "target_tags": True}
    assert list(refusals(recipe_of({}, data))) == [("data.target_tags", "MarianMT starts all translations alike")]


def test_a_parser_is_refused() -> None:
    tables = {"data": {"train": {"trees": "a.trees"}}, "task": "parse", "model": {"width": 16, "heads": 4}}
    assert list(refusals(recipe_from_json(tables, "recipe"))) == [
        ("task", "transformers has no search for a model that parses")
    ]


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"norm": "pre", "final_norm": True},
        {"bias": False, "projection_bias": True, "key_value_heads": 1},
        {"key_width": 4, "value_width": 4},
        {"alignment": "additive"} | {f"{site}_attention": {"alignment": "scaled_dot"} for site in SITES},
        {"dropout_layers": 0.1, "backend": "explicit"},
    ],
)
def test_what_has_the_same_answers_is_accepted(model: dict[str, Any]) -> None:
    assert not list(refusals(recipe_of(model)))
    assert not FORMATS["transformers"].refusals(recipe_of(model))


def test_a_refusal_names_the_model_and_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_way_out", lambda form, folder: "Use another format.")
    write_translator(tmp_path / "m", {"positions": "learned"})
    with refuses(
        f"{tmp_path}/m cannot be exported to transformers, because of `model.positions`: MarianMT has sinusoidal "
        "positions only. Use another format."
    ):
        exporting.export_model(tmp_path / "m", "transformers", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_tokenizer_of_the_callers_program_is_refused(tmp_path: Path) -> None:
    made = write_translator(tmp_path / "m")
    own = OwnTokenizer(Library.from_str(made.vocabularies["source"].to_json().decode()))
    bundle = Bundle(made.recipe, Vocabularies(dict.fromkeys(("source", "target"), own)), made.model)
    with refuses(
        "The model has a tokenizer of the program that trained it, which transformers cannot hold: train a model with "
        "a [tokenizer] of Heedful to export."
    ):
        write(bundle, tmp_path / "out")
