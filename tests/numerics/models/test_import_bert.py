"""An imported BERT model computes what `transformers` computes from the same folder, and fills masks as it does.

Both go all the way from text: each cuts it with its own tokenizer, and reads it with its own ids.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.unit.interop.bert.bert_folders import MARKERS, varied_texts, write_bert
from torch import Tensor
from transformers import BertForMaskedLM, BertForPreTraining, BertTokenizer, pipeline

from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.interop.importing import import_model
from heedful.tasks.fill.model import MaskFiller
from heedful.tasks.shared.embeddings import states_of

LONGEST = 96  # tokens
VARIANTS: dict[str, dict[str, Any]] = {
    "pre-training": {},
    "cased, in shards": {"lowercase": False, "shard": "20KB"},
    "masked tokens alone": {"kind": BertForMaskedLM, "files": "list"},
    "other shape": {
        "files": "library",
        "hidden_size": 12,
        "num_attention_heads": 1,
        "num_hidden_layers": 3,
        "intermediate_size": 7,
        "layer_norm_eps": 1e-5,
        "type_vocab_size": 3,
    },
    "more rows than pieces": {"vocab_size": 800},
    "relu": {"hidden_act": "relu"},
    "swish": {"hidden_act": "swish"},
    "no segments told apart": {"kind": BertForMaskedLM, "type_vocab_size": 1},
}


class Pair:
    """Both models, and BERT's id for each of ours."""

    def __init__(self, folder: Path, out: Path, **options: Any) -> None:
        self.theirs = write_bert(folder, **options)
        self.tokenizer = BertTokenizer.from_pretrained(folder)
        import_model(folder, out)
        self.ours: MaskFiller = MaskFiller.load(out, device="cpu")
        self.ours.network.eval()
        ours, known = json.loads(self.ours.vocabularies["text"].to_json())["model"]["vocab"], self.tokenizer.get_vocab()
        markers = dict(zip(("<pad>", "<s>", "</s>", "<unk>", "<mask>"), MARKERS, strict=True))
        rows = {f"[row-{row}]": row for row in range(self.theirs.config.vocab_size)} | known
        names = [markers.get(piece, piece) for piece in sorted(ours, key=lambda piece: ours[piece])]
        self.ids = torch.tensor([rows[name] for name in names])

    def texts(self, count: int) -> list[str]:
        """Texts that fit into both models, and are not empty."""
        lengths = self.tokenizer(varied_texts(3 * count), add_special_tokens=True)["input_ids"]
        fitting = [text for text, ids in zip(varied_texts(3 * count), lengths, strict=True) if 2 < len(ids) < 40]
        return fitting[:count]


@pytest.fixture(scope="module", params=VARIANTS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("bert")
    return Pair(folder / "theirs", folder / "ours", **VARIANTS[request.param])


def test_every_id_is_another_of_theirs(pair: Pair) -> None:
    assert sorted(pair.ids.tolist()) == list(range(pair.theirs.config.vocab_size))
    assert count(pair.ours.network) == count(pair.theirs)


def test_states_and_scores_of_texts_equal_those_of_transformers(pair: Pair) -> None:
    texts = pair.texts(40)
    assert_equal_answers(pair, texts, [[]] * len(texts))


def test_states_and_scores_of_pairs_equal_those_of_transformers(pair: Pair) -> None:
    if pair.theirs.config.type_vocab_size == 1:
        pytest.skip("it reads single texts")
    texts = pair.texts(60)
    assert_equal_answers(pair, texts[::2], [[second] for second in texts[1::2]])


def assert_equal_answers(pair: Pair, texts: Sequence[str], seconds: Sequence[Sequence[str]]) -> None:
    """From text to every state, the scores of all pieces, and those of the second text to follow."""
    network, layers = pair.ours.network, pair.theirs.config.num_hidden_layers
    for text, second in zip(texts, seconds, strict=True):
        packed = read(pair, [text, *second])
        with torch.inference_mode():
            given = pair.tokenizer(text, *second, return_tensors="pt")
            answer = pair.theirs(**given, output_hidden_states=True)
            assert torch.equal(pair.ids[packed.values], given["input_ids"][0])
            encoded = network(packed)
            for layer in range(layers + 1):
                assert_close(states_of(network.encoder, packed, layer).values, answer.hidden_states[layer][0])
            scores = network.head(encoded.values)
            assert_close(scores, masked_scores(answer)[0][:, pair.ids])
            if isinstance(pair.theirs, BertForPreTraining):
                assert_close(network.following(encoded), answer.seq_relationship_logits)
            else:
                assert network.follows is None
                assert network.pooler is None


def read(pair: Pair, texts: Sequence[str]) -> Packed:
    """<s> text </s>, or <s> text </s> second </s>, by our own tokenizer."""
    parts = [[*ids, END] for ids in pair.ours.vocabularies["text"].encode_batch(texts)]
    tokens = [BEGIN, *(token for part in parts for token in part)]
    segments = [0, *(number for number, part in enumerate(parts) for _ in part)]
    plain = Packed.of([tokens])
    return Packed(plain.values, plain.layout, torch.tensor(segments) if len(texts) > 1 else None)


def masked_scores(answer: Any) -> Tensor:
    scores: Tensor = answer.prediction_logits if "prediction_logits" in answer else answer.logits
    return scores


# --- as they are used -------------------------------------------------------------------------------------------------


def with_masks(texts: Sequence[str], masks: int) -> Iterator[str]:
    """Texts with so many words masked, spaces around them or not."""
    for number, text in enumerate(texts):
        words = text.split()
        if len(words) > masks:
            for place in range(masks):
                words[(number + 2 * place) % len(words)] = "[MASK]"
            yield ("" if number % 5 == 4 else " ").join(words)


@pytest.mark.parametrize("masks", [1, 2])
def test_masks_are_filled_with_the_candidates_of_transformers_in_their_order(pair: Pair, masks: int) -> None:
    asked = pipeline("fill-mask", model=masked_model(pair), tokenizer=pair.tokenizer, device="cpu", top_k=30)
    texts = [text for text in with_masks(pair.texts(25), masks) if text.count("[MASK]") == masks]
    assert len(texts) > 8
    for text, found in zip(texts, pair.ours.fill(texts, top=20), strict=True):
        expected = asked(text)
        assert len(found.masks) == masks
        for candidates, answers in zip(found.masks, [expected] if masks == 1 else expected, strict=True):
            kept = [one for one in answers if one["token"] not in pair.tokenizer.all_special_ids][: len(candidates)]
            assert [int(pair.ids[one.token]) for one in candidates] == [one["token"] for one in kept]
            np.testing.assert_allclose(
                [one.probability for one in candidates], [one["score"] for one in kept], rtol=1e-4, atol=1e-7
            )


def masked_model(pair: Pair) -> BertForMaskedLM:
    """Their model as the pipeline wants it."""
    if isinstance(pair.theirs, BertForMaskedLM):
        return pair.theirs
    model = BertForMaskedLM(pair.theirs.config).eval()
    model.load_state_dict(pair.theirs.state_dict(), strict=False)
    return model


def test_vectors_of_texts_are_the_means_of_their_states(pair: Pair) -> None:
    texts = pair.texts(8)
    with torch.inference_mode():
        states = [
            pair.theirs(**pair.tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[-1][0]
            for text in texts
        ]
    assert_close(torch.from_numpy(pair.ours.embed(texts)), torch.stack([state[1:-1].mean(dim=0) for state in states]))
    first = pair.ours.embed(texts, pool="first")
    assert_close(torch.from_numpy(first), torch.stack([state[0] for state in states]))


# --- older files ------------------------------------------------------------------------------------------------------


def test_a_file_as_the_first_ones_were_written_is_the_same_model(tmp_path: Path) -> None:
    """Half precision, `gamma` and `beta`, both names of what is shared, the numbers of positions."""
    pair = Pair(tmp_path / "theirs", tmp_path / "ours")
    tensors = {name: tensor.half() for name, tensor in load_file(tmp_path / "theirs/model.safetensors").items()}
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()
    older = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }
    older["bert.embeddings.position_ids"] = torch.arange(LONGEST).unsqueeze(0)
    save_file(older, tmp_path / "theirs/model.safetensors")
    config = json.loads((tmp_path / "theirs/config.json").read_text())
    (tmp_path / "theirs/config.json").write_text(json.dumps(config | {"position_embedding_type": "absolute"}))
    import_model(tmp_path / "theirs", tmp_path / "older")
    ours = MaskFiller.load(tmp_path / "older", device="cpu").network
    for name, parameter in pair.ours.network.named_parameters():
        assert torch.equal(ours.get_parameter(name), parameter.half().float()), name


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
