"""From a Marian folder to a bundle: ids, recipe and weights, and one line for every folder that is no such model.

That the bundle computes what `transformers` computes is in tests/numerics/test_import_marian.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.shared.refusals import like
from tests.unit.interop.marian_folders import Change, write_marian

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AlignedFiles
from heedful.config.model.transformer import TransformerModel
from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.data.tokenize.tokenizer import BEGIN, PAD, SPECIALS, UNKNOWN
from heedful.interop.transformers.model_folder import open_folder
from heedful.interop.transformers.pairs.marian import NEVER, MarianVocabulary, read_marian
from heedful.interop.transformers.tokenizers.sentencepiece_file import Normalisation, SentencePieceModel
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder


def imported(folder: Path) -> Bundle[EncoderDecoder]:
    return read_marian(open_folder(folder))


# --- ids --------------------------------------------------------------------------------------------------------------


def cutting(*pieces: str) -> SentencePieceModel:
    """A model that has these pieces."""
    rules = Normalisation("identity", b"", dummy_prefix=True, extra_spaces_removed=True)
    return SentencePieceModel("unigram", dict.fromkeys(pieces, -1.0), (), rules)


def test_marians_ids_are_put_in_our_order() -> None:
    ids = {"</s>": 0, "<unk>": 1, "a": 2, ">>fr<<": 3, "b": 4, ">>zh_Hans<<": 5, ">> c <<": 6, "<pad>": 7}
    made = MarianVocabulary.of(ids, [cutting("a", "x"), cutting("b", "x", "y")])
    assert made.languages == ("fr", "zh_Hans")
    assert made.pieces == ("a", "b", ">> c <<", "x", "y")
    #           <pad> <s> </s> <unk> fr zh  a  b >>c<<  x and y are unknown to Marian
    assert made.rows == (7, 7, 0, 1, 3, 5, 2, 4, 6, 1, 1)
    assert made.never == (PAD, BEGIN, 9, 10)


def test_both_sides_have_the_same_ids(folder: Path) -> None:
    vocabularies = imported(folder).vocabularies
    bare = [
        [piece.replace("\ufdd0", "") for piece in tokenizer.pieces(range(tokenizer.size))]
        for tokenizer in (vocabularies["source"], vocabularies["target"])
    ]
    assert bare[0] == bare[1]
    assert bare[0][: len(SPECIALS)] == list(SPECIALS)


def test_rows_and_biases_go_with_their_pieces(folder: Path) -> None:
    bundle = imported(folder)
    tensors, marian = load_file(folder / "model.safetensors"), json.loads((folder / "vocab.json").read_text())
    ours, bias = bundle.model.decoder.output.weight, bundle.model.decoder.output.bias
    theirs, their_bias = tensors["model.shared.weight"], tensors["final_logits_bias"][0]
    assert bias is not None
    for number, piece in enumerate(bundle.vocabularies["target"].pieces(range(len(ours)))):
        row = marian.get({"<s>": "<pad>"}.get(piece, piece.replace("\ufdd0", "")), marian["<unk>"])
        assert torch.equal(ours[number], theirs[row])
        assert torch.equal(bundle.model.get_parameter("encoder.embedding.weight")[number], theirs[row])
        written = piece not in ("<pad>", "<s>") and (row != marian["<unk>"] or number == UNKNOWN)
        assert bias[number] == (their_bias[row] if written else NEVER)


def test_a_model_of_several_languages_is_asked_by_tags(tmp_path: Path) -> None:
    write_marian(tmp_path, codes=[">>fr<<", ">>it<<"])
    bundle = imported(tmp_path)
    assert bundle.vocabularies["source"].tags == bundle.vocabularies["target"].tags == {"fr": 4, "it": 5}
    assert [corpus.to for corpus in bundle.recipe.data.train] == ["fr"]
    marian = json.loads((tmp_path / "vocab.json").read_text())
    theirs = load_file(tmp_path / "model.safetensors")["model.shared.weight"]
    embedding = bundle.model.get_parameter("encoder.embedding.weight")
    assert torch.equal(embedding[[4, 5]], theirs[[marian[">>fr<<"], marian[">>it<<"]]])


# --- the recipe -------------------------------------------------------------------------------------------------------


def test_the_recipe_says_what_the_config_says(folder: Path, change: Change) -> None:
    change(dropout=0.25, attention_dropout=0.125, activation_dropout=0.5)
    bundle = imported(folder)
    assert bundle.recipe.model == TransformerModel(
        width=16,
        heads=4,
        layers=2,
        decoder_layers=3,
        inner=24,
        activation="silu",
        positions="sinusoidal_halves",
        tie="decoder",
        output_bias=True,
        dropout=0.25,
        dropout_attention=0.125,
        dropout_inner=0.5,
    )
    assert not bundle.recipe.tokenizer.joint
    assert bundle.recipe.tokenizer.kind == "unigram"
    assert bundle.recipe.tokenizer.size == bundle.vocabularies["target"].size
    assert recipe_from_json(recipe_to_json(bundle.recipe), "config.json") == bundle.recipe
    assert bundle.recipe.data.train == (AlignedFiles(name="imported", source=str(folder), target=str(folder)),)


@pytest.mark.parametrize(("theirs", "ours"), [("swish", "silu"), ("silu", "silu"), ("relu", "relu"), ("gelu", "gelu")])
def test_every_activation_has_its_name(folder: Path, change: Change, theirs: str, ours: str) -> None:
    change(activation_function=theirs)
    assert imported(folder).recipe.model.model_dump()["activation"] == ours


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_search_is_what_the_folder_says(folder: Path, change: Change, name: str) -> None:
    change(name, num_beams=6, max_length=512, length_penalty=1.5, no_repeat_ngram_size=3)
    decode = imported(folder).recipe.decode
    assert (decode.beam, decode.max_extra, decode.no_repeat) == (6, 512, 3)
    assert (decode.length_penalty_kind, decode.length_penalty) == ("shifted", 1.5)


def test_search_is_ours_where_the_folder_says_nothing(folder: Path) -> None:
    (folder / "generation_config.json").unlink()
    decode = imported(folder).recipe.decode
    assert (decode.beam, decode.max_extra, decode.no_repeat, decode.length_penalty) == (4, 50, 0, 1.0)


# --- weights ----------------------------------------------------------------------------------------------------------


def change_weights(folder: Path, **changed: torch.Tensor | None) -> None:
    """Replace tensors, add them, or take them away; `__` stands for a dot."""
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in changed.items():
        tensors.pop(name.replace("__", "."), None)
        if tensor is not None:
            tensors[name.replace("__", ".")] = tensor
    save_file(tensors, folder / "model.safetensors")


def equal(one: Bundle[EncoderDecoder], other: Bundle[EncoderDecoder]) -> bool:
    pairs = zip(one.model.state_dict().values(), other.model.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("kept", ["lm_head", "model__decoder__embed_tokens", "model__encoder__embed_tokens"])
def test_a_shared_matrix_may_have_any_of_its_names(folder: Path, kept: str) -> None:
    before = imported(folder)
    matrix = load_file(folder / "model.safetensors")["model.shared.weight"]
    change_weights(folder, model__shared__weight=None, **{f"{kept}__weight": matrix})
    assert equal(before, imported(folder))


def test_sinusoids_in_the_file_are_left_out(folder: Path, whole: Path) -> None:
    from transformers import MarianMTModel

    waves = MarianMTModel.from_pretrained(whole).model.encoder.embed_positions.weight.detach().clone()
    before = imported(folder)
    change_weights(folder, model__encoder__embed_positions__weight=waves.half())
    assert equal(before, imported(folder))
    waves[3, 4] += 0.1
    change_weights(folder, model__encoder__embed_positions__weight=waves)
    assert refusal(folder) == (
        f"{folder}: `model.encoder.embed_positions.weight` is trained, but Heedful supports only sinusoidal "
        "positions in Marian."
    )


def test_a_file_without_a_bias_of_words_has_none(folder: Path) -> None:
    change_weights(folder, final_logits_bias=None)
    bias = imported(folder).model.decoder.output.bias
    assert bias is not None
    assert set(bias.tolist()) == {0.0, NEVER}


def test_weights_of_other_shapes_are_refused(folder: Path, change: Change) -> None:
    change(encoder_ffn_dim=32, decoder_ffn_dim=32)
    assert refusal(folder) == (
        f"{folder}/model.safetensors: `model.encoder.layers.0.fc1.weight` has shape (24, 16), but "
        f"{folder}/config.json requires (32, 16)."
    )


def test_weights_of_fewer_or_more_layers_are_refused(folder: Path, change: Change) -> None:
    change(encoder_layers=3)
    assert refusal(folder) == (
        f"{folder}/model.safetensors lacks `model.encoder.layers.2.self_attn.q_proj.weight`, which "
        f"{folder}/config.json requires: copy the model again."
    )
    change(encoder_layers=1)
    assert refusal(folder) == like(
        f"{folder}/model.safetensors has `model.encoder.layers.1.fc1.bias`, which does not belong ... {folder}"
        "/config.json describes."
    )


# --- what is refused --------------------------------------------------------------------------------------------------


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        imported(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["source.spm", "target.spm", "vocab.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert refusal(folder) == f"{folder} has no {name}, which a marian model needs: copy it there."


def test_a_missing_vocabulary_of_the_target_is_named(folder: Path, change: Change) -> None:
    change("tokenizer_config.json", separate_vocabs=True)
    assert refusal(folder) == f"{folder} has no target_vocab.json, which a marian model needs: copy it there."


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("normalize_before", True, "false"),
        ("add_final_layer_norm", True, "false"),
        ("layernorm_embedding", True, "false"),
        ("normalize_embedding", True, "false"),
        ("static_position_embeddings", False, "true"),
    ],
)
def test_other_architectures_are_refused(folder: Path, change: Change, key: str, value: bool, wanted: str) -> None:
    change(**{key: value})
    assert refusal(folder) == (
        f"{folder}/config.json: `{key}` is {json.dumps(value)}, but must be {wanted}: Heedful does not support "
        "other Marian models."
    )


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        (
            {"activation_function": "mish"},
            '`activation_function` is "mish", but must be one of gelu_new, gelu_pytorch_tanh, gelu, relu, silu, swish.',
        ),
        (
            {"decoder_attention_heads": 2},
            "`decoder_attention_heads` is 2, but must be 4: Heedful uses the value of "
            "`encoder_attention_heads` on both sides.",
        ),
        (
            {"decoder_ffn_dim": 8},
            "`decoder_ffn_dim` is 8, but must be 24: Heedful uses the value of `encoder_ffn_dim` on both sides.",
        ),
        ({"d_model": None}, "`d_model` is missing, but must be a whole number."),
        ({"scale_embedding": "yes"}, '`scale_embedding` is "yes", but must be true or false.'),
        ({"dropout": "much"}, '`dropout` is "much", but must be at least 0 and below 1.'),
        (
            {"encoder_attention_heads": 3, "decoder_attention_heads": 3},
            "`encoder_attention_heads` is 3, but must be a divisor of `d_model` (16).",
        ),
    ],
)
def test_wrong_values_are_refused(folder: Path, change: Change, changed: dict[str, Any], line: str) -> None:
    change(**changed)
    assert refusal(folder).startswith(f"{folder}/config.json: ")
    assert line in refusal(folder)


def test_sizes_that_the_weights_do_not_have_are_refused_before_anything_is_built(folder: Path, change: Change) -> None:
    change(d_model=100_000)
    size = (folder / "model.safetensors").stat().st_size
    assert refusal(folder) == like(
        f"{folder}/config.json describes a model of at least 50,024,000,000 parameters, but its weights "
        f"have {size:,} bytes: restore both from a ..."
    )


def test_a_vocabulary_of_another_size_is_refused(folder: Path, change: Change) -> None:
    count = len(json.loads((folder / "vocab.json").read_text()))
    change(vocab_size=count + 1)
    assert refusal(folder) == (
        f"{folder}/vocab.json has {count} pieces, but config.json requires one for each number from 0 to {count}: "
        "copy both again."
    )


@pytest.mark.parametrize("content", ["[]", '{"a": "b"}', '{"a": 1.5}'])
def test_a_vocabulary_that_is_none_is_refused(folder: Path, content: str) -> None:
    (folder / "vocab.json").write_text(content)
    assert refusal(folder) == (
        f"{folder}/vocab.json must map pieces to numbers, but contains something else: copy it again."
    )


@pytest.mark.parametrize("special", ["</s>", "<unk>", "<pad>"])
def test_a_vocabulary_without_marians_markers_is_refused(folder: Path, special: str) -> None:
    text = (folder / "vocab.json").read_text()
    (folder / "vocab.json").write_text(text.replace(json.dumps(special), '"other"'))
    assert refusal(folder) == f"{folder}/vocab.json lacks the piece `{special}`: it is not a Marian vocabulary."


def test_an_enormous_piece_is_refused(folder: Path) -> None:
    ids = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps(ids | {"x" * 200_000: len(ids)}))
    assert refusal(folder) == (
        f"{folder}/vocab.json has a piece of 200,000 characters, but the longest may have 1,000: copy it again."
    )


def test_markers_of_other_numbers_are_refused(folder: Path, change: Change) -> None:
    pad = json.loads((folder / "vocab.json").read_text())["<pad>"]
    change(eos_token_id=2)
    assert refusal(folder) == f"{folder}/config.json: `eos_token_id` is 2, but must be 0: this is its id in vocab.json."
    change(eos_token_id=0, pad_token_id=1)
    assert (
        refusal(folder)
        == f"{folder}/config.json: `pad_token_id` is 1, but must be {pad}: this is its id in vocab.json."
    )
    change(pad_token_id=pad, decoder_start_token_id=0)
    assert refusal(folder) == (
        f"{folder}/config.json: `decoder_start_token_id` is 0, but must be {pad}: Marian starts translations with "
        "`<pad>`."
    )


def test_a_damaged_tokenizer_is_refused(folder: Path) -> None:
    (folder / "target.spm").write_bytes(b"")
    assert refusal(folder) == f"{folder}/target.spm is not a SentencePiece model (it has no pieces): copy it again."
