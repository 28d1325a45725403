"""Models of CTranslate2: equal answers, refusals, precisions, vocabulary maps, and the program of the card."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.interop.random_models import random_recipe, write_random_model
from tests.shared.refusals import refuses
from tests.unit.interop.exports.programs import run_program

from heedful.interop.ctranslate2.writing import write_network
from heedful.interop.exports.comparison import Comparison
from heedful.interop.exports.exporting import export_model
from heedful.interop.exports.formats import FORMATS, Refusal
from heedful.models.bundle import read_bundle, write_description
from heedful.tasks.translate.lexicon import Lexicon

TINY = {"width": 16, "heads": 4, "layers": 2, "inner": 24}
STACKS: Mapping[str, dict[str, Any]] = {  # that both kinds of models are tried with
    "post-sinusoidal": {},
    "pre-learned-gelu": {"norm": "pre", "positions": "learned", "max_positions": 300, "activation": "gelu"},
    "llama": {
        "norm": "pre", "norm_kind": "rms", "positions": "rope", "rope_base": 500.0, "key_value_heads": 2,
        "activation": "swiglu", "bias": False,
    },
    "shaw": {"positions": "relative", "max_distance": 3, "activation": "gelu_tanh", "norm_epsilon": 1e-3},
    "shaw-far-multi-query": {"norm": "pre", "positions": "relative", "max_distance": 30, "key_value_heads": 1},
    "no-positions-no-final-norm": {"positions": "none", "norm": "pre", "final_norm": False, "activation": "silu"},
    "wide-heads": {"positions": "rope", "key_width": 12, "value_width": 12, "projection_bias": False},
    "norms-everywhere": {"positions": "sinusoidal_halves", "final_norm": True, "embedding_norm": True},
    "two-embeddings": {"embeddings": 2, "embedding_scale": False},
}  # fmt: skip


def translator(folder: Path, **keys: Any) -> Path:
    tables = {name: keys.pop(name) for name in ("tokenizer", "data") if name in keys}
    languages = keys.pop("languages", ())
    model = {"family": "transformer", **TINY, **keys}
    return write_random_model(folder, "translate", languages=languages, model=model, **tables)


def language_model(folder: Path, **keys: Any) -> Path:
    top = {name: keys.pop(name) for name in ("tie", "output_bias") if name in keys}
    decoder = {"family": "transformer", **TINY, **keys}
    return write_random_model(folder, "generate", model={"family": "language", "decoder": decoder, **top})


def exported(model: Path, out: Path, precision: str | None = None) -> Comparison:
    pytest.importorskip("ctranslate2")
    found = export_model(model, "ctranslate2", out, precision).comparison
    assert found is not None
    return found


@pytest.mark.parametrize("stack", STACKS)
def test_a_translator_answers_as_it_did(stack: str, tmp_path: Path) -> None:
    keys = {"tie": "none", "output_bias": True, "decoder_layers": 1} if stack == "llama" else {"tie": "decoder"}
    found = exported(translator(tmp_path / "model", **STACKS[stack], **keys), tmp_path / "out")
    assert (found.count, found.unequal, found.difference < 1e-4) == (32, 0, True)


@pytest.mark.parametrize("stack", STACKS)
def test_a_language_model_answers_as_it_did(stack: str, tmp_path: Path) -> None:
    keys = {"tie": False, "output_bias": True} if stack == "shaw" else {}
    found = exported(language_model(tmp_path / "model", **STACKS[stack], **keys), tmp_path / "out")
    assert (found.count, found.unequal, found.difference < 1e-4) == (32, 0, True)


@pytest.mark.parametrize("tokenizer", [{"kind": "byte_bpe", "size": 300}, {"kind": "word", "size": 60, "joint": False}])
def test_the_card_has_a_program_that_runs(tokenizer: dict[str, Any], tmp_path: Path) -> None:
    model = translator(tmp_path / "model", tokenizer=tokenizer, languages=["de", "fr"])
    exported(model, tmp_path / "out")
    separate = tokenizer.get("joint") is False
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        [
            "README.md", "config.json", "model.bin",
            *(["source_vocabulary.json", "target_vocabulary.json"] if separate else ["shared_vocabulary.json"]),
            *(["tokenizer.source.json", "tokenizer.target.json"] if separate else ["tokenizer.json"]),
        ]
    )  # fmt: skip
    assert run_program(tmp_path / "out").count("\n") == 1


def test_the_card_of_a_language_model_has_a_program_that_runs(tmp_path: Path) -> None:
    exported(language_model(tmp_path / "model"), tmp_path / "out")
    assert run_program(tmp_path / "out").count("\n") == 1


def test_the_card_says_in_which_form_texts_are_read(tmp_path: Path) -> None:
    model = translator(tmp_path / "model", data={"lowercase": True, "nfc": True})
    export_model(model, "ctranslate2", tmp_path / "out")
    assert "It reads texts in Unicode's form NFC and in lower case: bring yours" in (
        tmp_path / "out/README.md"
    ).read_text().replace("\n", " ")


@pytest.mark.parametrize(("precision", "share"), [("bfloat16", 0.6), ("int8", 0.45)])
def test_less_precise_weights_are_smaller_and_nearly_right(precision: str, share: float, tmp_path: Path) -> None:
    model = translator(tmp_path / "model", width=64, inner=256, positions="rope")
    exported(model, tmp_path / "float32")
    found = exported(model, tmp_path / "out", precision)
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("out", "float32")]
    assert sizes[0] < share * sizes[1]
    assert 1e-4 < found.difference < 3
    assert found.lost is None  # random texts have no references


def test_the_bleu_that_less_precise_weights_lose_is_measured_where_data_has_references(
    reversing_folder: Path, tmp_path: Path
) -> None:
    model = with_data(reversing_folder, tmp_path / "model")
    found = exported(model, tmp_path / "out", "bfloat16")
    assert (found.count, found.of) == (40, "40 rows of first.in + first.out")
    assert found.lost is not None
    assert abs(found.lost) < 0.2
    assert found.to_json()["lost_bleu"] == found.lost


def test_a_model_that_loses_more_is_refused(
    reversing_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = with_data(reversing_folder, tmp_path / "model")
    monkeypatch.setattr("heedful.interop.exports.exporting.CLOSE_BLEU", -1.0)
    with refuses(
        f"{model} loses ... BLEU in CTranslate2 with less precise weights. Nothing was written: export it in float32."
    ):
        exported(model, tmp_path / "out", "bfloat16")
    assert not (tmp_path / "out").exists()


def with_data(model: Path, copy: Path) -> Path:
    """A copy of a model that says where its data is."""
    shutil.copytree(model, copy)
    bundle = read_bundle(copy)
    data = bundle.recipe.data.model_copy(update={"folder": str(model.parent)})
    write_description(copy, bundle.recipe.model_copy(update={"data": data}), bundle.vocabularies)
    return copy


def test_a_lexicon_becomes_a_vocabulary_map(tmp_path: Path) -> None:
    bundle = read_bundle(translator(tmp_path / "model"))
    lexicon = Lexicon(*(np.array(part) for part in ([7, 2, 9], [0, 0, 0, 0, 0, 2, 3], [4, 5])))
    names = [["<pad>", "<s>", "</s>", "<unk>"][number] if number < 4 else str(number) for number in range(60)]
    size = bundle.vocabularies["target"].size
    pieces = dict.fromkeys(("source", "target"), names[:size])
    write_network(bundle.model, tmp_path / "out", "float32", pieces, lexicon)
    assert (tmp_path / "out/vmap.txt").read_text() == "\t4 5\n5\t7 </s>\n6\t9\n"
    ctranslate2 = pytest.importorskip("ctranslate2")
    opened = ctranslate2.Translator(str(tmp_path / "out"), device="cpu", intra_threads=1)
    for source, listed in ((["5"], {"4", "5", "7"}), (["6"], {"4", "5", "9"}), (["4"], {"4", "5"})):
        (found,) = opened.translate_batch(
            [source], use_vmap=True, beam_size=2, num_hypotheses=2, min_decoding_length=8, max_decoding_length=8,
            disable_unk=True, suppress_sequences=[["<s>"]],
        )  # fmt: skip
        assert {piece for hypothesis in found.hypotheses for piece in hypothesis} <= listed | {"</s>"}


def test_tied_matrices_are_stored_once(tmp_path: Path) -> None:
    sizes = []
    for tie in ("all", "none"):
        bundle = read_bundle(translator(tmp_path / tie, tie=tie))
        names = [str(number) for number in range(bundle.vocabularies["target"].size)]
        write_network(bundle.model, tmp_path / f"{tie}-out", "float32", {"source": names, "target": names})
        sizes.append((tmp_path / f"{tie}-out/model.bin").stat().st_size)
    assert sizes[1] - sizes[0] > 1.9 * 4 * len(names) * 16  # two matrices more


def test_config_says_what_the_library_must_know(tmp_path: Path) -> None:
    export_model(translator(tmp_path / "model", norm_epsilon=1e-3), "ctranslate2", tmp_path / "out")
    assert json.loads((tmp_path / "out/config.json").read_text()) == {
        "add_source_bos": False,
        "add_source_eos": True,
        "bos_token": "<s>",
        "decoder_start_token": "<s>",
        "eos_token": "</s>",
        "layer_norm_epsilon": 1e-3,
        "unk_token": "<unk>",
    }


PLAIN = "CTranslate2 has no attention but a softmax of scaled dot products"
PAIRS: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "convolutions": (
        {"encoder_layer": "separable", "norm": "pre"},
        "model.encoder_layer",
        "CTranslate2 has no Transformer with convolutions",
    ),
    "words": ({"word_positions": True}, "model.word_positions", "CTranslate2 does not count words"),
    "alignment": ({"alignment": "additive"}, "model.alignment", PLAIN),
    "distribution": ({"distribution": "entmax15"}, "model.distribution", PLAIN),
    "cross": ({"cross_attention": {"alignment": "dot"}}, "model.cross_attention.alignment", PLAIN),
    "alibi": (
        {"positions": "alibi"},
        "model.positions",
        "CTranslate2 computes other ALiBi biases: scores differ by about 1",
    ),
    "radius": ({"attention_radius": 2}, "model.attention_radius", "CTranslate2 lets every token attend to all others"),
    "rezero": ({"norm": "rezero"}, "model.norm", "CTranslate2 has norms before or after sublayers, and no rezero"),
    "widths": (
        {"key_width": 8, "value_width": 4},
        "model.key_width",
        "CTranslate2 has keys and values of one width",
    ),
}


@pytest.mark.parametrize("case", PAIRS)
def test_what_it_cannot_hold_is_named(case: str) -> None:
    keys, key, why = PAIRS[case]
    recipe = random_recipe("translate", {"model": {"family": "transformer", **TINY, **keys}})
    assert FORMATS["ctranslate2"].refusals(recipe)[0] == Refusal(key, why)


@pytest.mark.parametrize(
    ("task", "model", "key", "why"),
    [
        (
            "parse",
            {"family": "transformer", **TINY},
            "task",
            "CTranslate2 has no rules for what a model that parses may output",
        ),
        ("translate", {"family": "recurrent"}, "model.family", "CTranslate2 has no model like recurrent"),
        ("classify", {"family": "classifier"}, "model.family", "CTranslate2 has no model like classifier"),
        (
            "generate",
            {"family": "language", "decoder": {"family": "recurrent"}},
            "model.decoder.family",
            "CTranslate2 has no language model that is recurrent",
        ),
        (
            "generate",
            {"family": "language", "decoder": {"family": "transformer", "alignment": "additive"}},
            "model.decoder.alignment",
            PLAIN,
        ),
    ],
)
def test_a_model_of_another_kind_is_named(task: str, model: dict[str, Any], key: str, why: str) -> None:
    assert FORMATS["ctranslate2"].refusals(random_recipe(task, {"model": model})) == [Refusal(key, why)]
