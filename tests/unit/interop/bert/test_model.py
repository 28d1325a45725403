"""From a BERT folder to a bundle: recipe and weights, what is made of it, and one line for every other folder.

That the bundle computes what `transformers` computes is in tests/numerics/models/test_import_bert.py.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.shared.refusals import like
from tests.unit.interop.bert.bert_folders import MARKERS, write_bert
from tests.unit.interop.marian_folders import Change
from torch import Tensor
from transformers import BertForMaskedLM
from transformers import BertModel as TheirBertModel

from heedful.base.errors import UserError
from heedful.config.corpora.containers import PlainText
from heedful.config.model.encoder_only import BertModel
from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.interop.transformers.encoders.reading import read_bert
from heedful.interop.transformers.model_folder import open_folder
from heedful.models.bundle import Bundle
from heedful.models.networks import MaskedModel

ChangeTensors = Callable[..., None]


def imported(folder: Path) -> Bundle[MaskedModel]:
    return cast(Bundle[MaskedModel], read_bert(open_folder(folder)))


# --- the recipe -------------------------------------------------------------------------------------------------------


def test_the_recipe_says_what_the_config_says(folder: Path) -> None:
    bundle = imported(folder)
    assert bundle.recipe.model == BertModel(
        family="bert",
        width=16,
        heads=4,
        layers=2,
        inner=24,
        activation="gelu",
        norm_epsilon=1e-12,
        max_positions=96,
        segments=2,
        next_sentence=True,
        dropout=0.25,
        dropout_attention=0.125,
    )
    assert bundle.recipe.data.max_length == 96
    assert bundle.recipe.data.train == (PlainText(name="imported", text=str(folder)),)
    assert bundle.recipe.tokenizer.kind == "wordpiece"
    assert bundle.recipe.tokenizer.size == bundle.vocabularies["text"].size
    assert bundle.vocabularies.joint
    assert recipe_from_json(recipe_to_json(bundle.recipe), "config.json") == bundle.recipe


def test_a_batch_has_room_for_the_longest_input(tmp_path: Path) -> None:
    write_bert(tmp_path / "long", max_position_embeddings=5000)
    data = imported(tmp_path / "long").recipe.data
    assert (data.max_length, data.batch_tokens) == (5000, 5000)


def test_the_epsilon_and_dropout_have_berts_defaults(folder: Path, change: Change) -> None:
    change(layer_norm_eps=None, hidden_dropout_prob=None, attention_probs_dropout_prob=None)
    assert imported(folder).recipe.model == BertModel(
        family="bert", width=16, heads=4, layers=2, inner=24, max_positions=96
    )


# --- weights ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def change_tensors(folder: Path) -> ChangeTensors:
    """Rename tensors of the copy, or add some; those that are called nothing are taken away."""

    def change_tensors(called: Callable[[str], str] = str, **added: Tensor) -> None:
        tensors = {called(name): tensor for name, tensor in load_file(folder / "model.safetensors").items()}
        tensors |= {name.replace("__", "."): tensor for name, tensor in added.items()}
        save_file({name: tensor for name, tensor in tensors.items() if name}, folder / "model.safetensors")

    return change_tensors


def equal(one: Bundle[MaskedModel], other: Bundle[MaskedModel]) -> bool:
    ours, theirs = one.model.state_dict(), other.model.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_rows_and_biases_go_with_their_pieces(folder: Path) -> None:
    bundle, tensors = imported(folder), load_file(folder / "model.safetensors")
    listed = (folder / "vocab.txt").read_text().split("\n")
    embedding, bias = bundle.model.get_parameter("encoder.embedding.weight"), bundle.model.head.output.bias
    assert bias is not None
    for number, marker in enumerate(MARKERS):
        assert torch.equal(embedding[number], tensors["bert.embeddings.word_embeddings.weight"][listed.index(marker)])
        assert torch.equal(bias[number], tensors["cls.predictions.bias"][listed.index(marker)])
    (token,) = bundle.vocabularies["text"].encode("the")
    assert torch.equal(embedding[token], tensors["bert.embeddings.word_embeddings.weight"][listed.index("the")])
    assert torch.equal(bias[token], tensors["cls.predictions.bias"][listed.index("the")])
    assert bundle.model.head.output.weight is embedding


def test_a_model_of_masked_tokens_alone_has_no_head_for_next_sentences(tmp_path: Path) -> None:
    write_bert(tmp_path, BertForMaskedLM)
    bundle = imported(tmp_path)
    assert isinstance(bundle.recipe.model, BertModel)
    assert not bundle.recipe.model.next_sentence
    assert bundle.model.pooler is None
    assert bundle.model.follows is None


def test_a_pooler_that_nothing_stands_on_is_left_out(folder: Path, change_tensors: ChangeTensors) -> None:
    change_tensors(lambda name: "" if "seq_relationship" in name else name)
    assert imported(folder).model.pooler is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bert.", ""),
        ("LayerNorm.weight", "LayerNorm.gamma"),
        ("LayerNorm.bias", "LayerNorm.beta"),
        ("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
        ("cls.predictions.bias", "cls.predictions.decoder.bias"),
    ],
)
def test_tensors_may_have_any_of_their_names(folder: Path, change_tensors: ChangeTensors, old: str, new: str) -> None:
    before = imported(folder)
    change_tensors(lambda name: name.replace(old, new))
    assert not any(old in name for name in load_file(folder / "model.safetensors"))
    assert equal(before, imported(folder))


def test_what_is_shared_may_be_kept_twice(folder: Path, change_tensors: ChangeTensors) -> None:
    before, tensors = imported(folder), load_file(folder / "model.safetensors")
    words, bias = tensors["bert.embeddings.word_embeddings.weight"].clone(), tensors["cls.predictions.bias"].clone()
    positions = torch.arange(96).unsqueeze(0)
    change_tensors(
        cls__predictions__decoder__weight=words,
        cls__predictions__decoder__bias=bias,
        bert__embeddings__position_ids=positions,
    )
    assert equal(before, imported(folder))


@pytest.mark.parametrize(
    ("kept", "other"),
    [
        ("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
        ("cls.predictions.bias", "cls.predictions.decoder.bias"),
    ],
)
def test_what_is_not_shared_is_refused(folder: Path, change_tensors: ChangeTensors, kept: str, other: str) -> None:
    tensor = load_file(folder / "model.safetensors")[kept] + 1
    change_tensors(**{other.replace(".", "__"): tensor})
    assert refusal(folder) == (
        f"{folder}: `{kept}` and `{other}` differ, but must be equal, because Heedful shares one tensor: "
        "import a model with `tie_word_embeddings`."
    )


def test_an_encoder_without_the_head_for_masked_tokens_is_refused(tmp_path: Path) -> None:
    write_bert(tmp_path, TheirBertModel)
    assert refusal(tmp_path) == (
        f"{tmp_path} holds BERT's encoder without its masked-language-model head "
        "(`cls.predictions.transform.dense.weight`), which `heedful fill` needs: import a folder of BertForMaskedLM, "
        "or of a classifier, a tagger or a reader."
    )


def test_weights_of_other_shapes_are_refused(folder: Path, change: Change, change_tensors: ChangeTensors) -> None:
    change(intermediate_size=32)
    assert refusal(folder) == (
        f"{folder}/model.safetensors: `bert.encoder.layer.0.intermediate.dense.weight` has shape (24, 16), but "
        f"{folder}/config.json requires (32, 16)."
    )
    change(intermediate_size=24, max_position_embeddings=100)
    change_tensors(lambda name: name.removeprefix("bert."))
    assert refusal(folder) == (
        f"{folder}/model.safetensors: `embeddings.position_embeddings.weight` has shape (96, 16), but "
        f"{folder}/config.json requires (100, 16)."
    )


def test_a_matrix_of_other_rows_than_the_config_says_is_refused(folder: Path, change: Change) -> None:
    size = len((folder / "vocab.txt").read_text().split("\n")) - 1
    change(vocab_size=size + 7)
    assert refusal(folder) == (
        f"{folder}/model.safetensors: `bert.embeddings.word_embeddings.weight` has shape ({size}, 16), but "
        f"{folder}/config.json requires ({size + 7}, 16)."
    )


def test_sizes_that_are_not_of_the_weights_are_refused_before_anything_is_made_of_them(
    folder: Path, change: Change
) -> None:
    change(num_hidden_layers=10_000_000)
    assert refusal(folder).startswith(f"{folder}/model.safetensors lacks `bert.encoder.layer.9999999.attention.self.")
    change(num_hidden_layers=2, vocab_size=10_000_000)
    assert refusal(folder).endswith(f", but {folder}/config.json requires (10000000, 16).")


def test_weights_of_fewer_or_more_layers_are_refused(folder: Path, change: Change) -> None:
    change(num_hidden_layers=3)
    assert refusal(folder) == (
        f"{folder}/model.safetensors lacks `bert.encoder.layer.2.attention.self.query.weight`, which "
        f"{folder}/config.json requires: copy the model again."
    )
    change(num_hidden_layers=1)
    assert refusal(folder) == like(
        f"{folder}/model.safetensors has `bert.encoder.layer.1.attention.output.LayerNorm.bias`, which "
        f"does not belong ... {folder}/config.json describes."
    )


def test_half_a_head_is_refused(folder: Path, change_tensors: ChangeTensors) -> None:
    change_tensors(lambda name: "" if name.startswith("bert.pooler") else name)
    assert refusal(folder).startswith(f"{folder}/model.safetensors lacks `bert.pooler.dense.weight`, which ")


# --- what is refused --------------------------------------------------------------------------------------------------


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        imported(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("position_embedding_type", "relative_key", '"absolute"'),
        ("is_decoder", True, "false"),
        ("add_cross_attention", True, "false"),
    ],
)
def test_other_architectures_are_refused(folder: Path, change: Change, key: str, value: Any, wanted: str) -> None:
    change(**{key: value})
    assert refusal(folder) == (
        f"{folder}/config.json: `{key}` is {json.dumps(value)}, but must be {wanted}: Heedful does not support "
        "other BERT models."
    )


@pytest.mark.parametrize("name", ["mish", "swiglu"])
def test_other_activations_are_refused(folder: Path, change: Change, name: str) -> None:
    change(hidden_act=name)
    assert refusal(folder) == (
        f'{folder}/config.json: `hidden_act` is "{name}", but must be one of gelu_new, gelu_pytorch_tanh, gelu, relu, '
        "silu, swish."
    )


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"hidden_size": None}, "`hidden_size` is missing, but must be a whole number."),
        ({"vocab_size": "many"}, '`vocab_size` is "many", but must be a whole number.'),
        (
            {"num_attention_heads": 3},
            "`num_attention_heads` is 3, but must be a divisor of `hidden_size` (16).",
        ),
        ({"layer_norm_eps": "small"}, '`layer_norm_eps` is "small", but must be a number above 0.'),
        ({"layer_norm_eps": 0}, "`layer_norm_eps` is 0, but must be a number above 0."),
        ({"hidden_size": -16}, "`hidden_size` is -16, but must be a whole number from 1 to 10,000,000."),
        ({"hidden_size": 10**12}, "`hidden_size` is 1000000000000, but must be a whole number from 1 to 10,000,000."),
        ({"hidden_dropout_prob": 1.0}, "`hidden_dropout_prob` is 1.0, but must be at least 0 and below 1."),
        ({"type_vocab_size": 1}, "`type_vocab_size` is 1, but must be 2, because the model predicts next sentences."),
    ],
)
def test_wrong_values_are_refused(folder: Path, change: Change, changed: dict[str, Any], line: str) -> None:
    change(**changed)
    assert refusal(folder).startswith(f"{folder}/config.json: ")
    assert line in refusal(folder)


def test_pickles_and_code_are_refused(folder: Path, change: Change) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "holds its weights as a pickle (pytorch_model.bin), which can run code" in refusal(folder)
    change(auto_map={"AutoModel": "modeling_other.Other"})
    assert "`auto_map` asks to run the" in refusal(folder)
