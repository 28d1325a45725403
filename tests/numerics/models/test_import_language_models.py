"""Imported GPT-2 and Llama models compute what `transformers` computes from the same folder, and continue texts alike.

Both go all the way from text: each cuts it with its own tokenizer, and reads it with its own ids.
"""

import json
import math
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.interop.language.language_folders import prompts, write_gpt2, write_llama, write_mistral, write_qwen2
from transformers import GPT2Tokenizer, PreTrainedTokenizerFast

from heedful.base.packed import Packed
from heedful.data.text_form import TextForm
from heedful.data.tokenize.encoding import running_pieces
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, UNKNOWN
from heedful.decode.query import Query
from heedful.decode.scorer import SingleModel
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.interop.importing import import_model
from heedful.tasks.generate.model import TextGenerator

NEW = 12  # tokens
VARIANTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "gpt2": (write_gpt2, {}),
    "gpt2 without a library file, other shape": (
        write_gpt2,
        {"files": "pieces", "n_embd": 12, "n_head": 1, "n_layer": 3, "n_inner": 7, "layer_norm_epsilon": 1e-3},
    ),
    "gpt2 without a prefix": (write_gpt2, {"files": "library", "bare": True}),
    "gpt2 untied, with more rows than pieces": (write_gpt2, {"tie_word_embeddings": False, "vocab_size": 448}),
    "llama": (write_llama, {}),
    "llama tied, multi-query, with biases": (
        write_llama,
        {"tie_word_embeddings": True, "num_key_value_heads": 1, "attention_bias": True, "rms_norm_eps": 1e-3},
    ),
    "llama with wide heads": (write_llama, {"head_dim": 6}),
    "mistral": (write_mistral, {}),
    "mistral without a window": (write_mistral, {"sliding_window": None}),
    "qwen2": (write_qwen2, {}),
}


class Pair:
    """Both models, and the folder's id for each of ours."""

    def __init__(self, folder: Path, out: Path, name: str) -> None:
        write, options = VARIANTS[name]
        self.theirs = write(folder, **options)
        self.llama = write in (write_llama, write_mistral)  # whose markers before and after a text differ
        if write is not write_gpt2 or options.get("files") == "library":
            self.tokenizer: Any = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
        else:
            self.tokenizer = GPT2Tokenizer.from_pretrained(folder)
        import_model(folder, out)
        self.ours = TextGenerator.load(out, device="cpu")
        self.ours.network.eval()
        config, known = self.theirs.config, self.tokenizer.get_vocab()
        ours = json.loads(self.ours.vocabularies["text"].to_json())["model"]["vocab"]
        markers = {"<pad>": config.eos_token_id, "<s>": config.bos_token_id, "</s>": config.eos_token_id}
        rows = {f"[row-{row}]": row for row in range(config.vocab_size)} | known | markers
        rows |= {"<unk>": config.eos_token_id, "<|reservedĠ0|>": known.get("<|reserved 0|>")}
        self.ids = torch.tensor([rows[piece] for piece in sorted(ours, key=lambda piece: ours[piece])])

    def read(self, text: str) -> list[int]:
        """Cut a prompt as generation does."""
        tokenizer = self.ours.vocabularies["text"]
        pieces = running_pieces(TextForm.of(self.ours.recipe.data)(text), tokenizer.spells_spaces)
        tokens = [token for ids in tokenizer.encode_batch(pieces) for token in ids]
        return [BEGIN, *tokens] if self.ours.recipe.data.borders == "closed" else tokens

    def continued(self, prompt: list[int]) -> list[int]:
        """Return their tokens after a prompt, the end included; a text that begins anew is never an answer of ours."""
        given = torch.tensor([prompt])
        never = [self.theirs.config.bos_token_id] if self.llama else None
        with torch.inference_mode():
            found = self.theirs.generate(
                given,
                attention_mask=torch.ones_like(given),
                do_sample=False,
                max_new_tokens=NEW,
                pad_token_id=0,
                suppress_tokens=never,
            )
        return found[0, len(prompt) :].tolist()


@pytest.fixture(scope="module", params=VARIANTS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("language")
    return Pair(folder / "theirs", folder / "ours", request.param)


def fitting(pair: Pair, count: int) -> list[str]:
    """Return prompts after which there is room for an answer."""
    return [text for text in prompts(2 * count) if 1 < len(pair.read(text)) < 80][:count]


def test_a_prompt_is_cut_into_the_pieces_of_transformers(pair: Pair) -> None:
    """Also one whose lines end with punctuation, which Llama's tokenizer joins with the line break."""
    texts = [*prompts(300), "one.\ntwo\n\n\nthree?\n four\r\n\n", " a  b ", "\n", "ünï\n\tcödé 1234567"]
    for text in texts:
        found = pair.ids[torch.tensor(pair.read(text))].tolist()
        assert found == pair.tokenizer(text)["input_ids"], text
        composed = unicodedata.normalize("NFC", text) if pair.ours.recipe.data.nfc else text
        assert pair.ours.vocabularies["text"].decode(pair.read(text)) == composed


def test_scores_equal_those_of_transformers_and_copies_of_rows_have_no_probability(pair: Pair) -> None:
    real = torch.ones(len(pair.ids), dtype=torch.bool)
    real[[PAD, UNKNOWN] + ([] if pair.llama else [BEGIN])] = False
    assert sorted(pair.ids[real].tolist()) == list(range(pair.theirs.config.vocab_size))
    for text in fitting(pair, 25):
        tokens = pair.read(text)
        with torch.inference_mode():
            found = pair.ours.network(Packed.of([tokens]))
            expected = pair.theirs(pair.ids[torch.tensor(tokens)].unsqueeze(0)).logits[0]
        torch.testing.assert_close(found[:, real], expected[:, pair.ids[real]], atol=1e-5, rtol=1e-5)
        log_shares = found.log_softmax(1)
        torch.testing.assert_close(
            log_shares[:, real], expected.log_softmax(1)[:, pair.ids[real]], atol=1e-5, rtol=1e-5
        )
        assert log_shares[:, ~real].max() < -60


def test_greedy_output_equals_that_of_transformers_token_for_token(pair: Pair) -> None:
    texts = fitting(pair, 8)
    read = [pair.read(text) for text in texts]
    expected = [pair.continued(pair.ids[torch.tensor(tokens)].tolist()) for tokens in read]
    queries = [Query(tokens, NEW, (), number) for number, tokens in enumerate(read)]
    with torch.inference_mode():
        found = search(SingleModel(pair.ours.network), queries, SearchSettings(beam=1), batch_tokens=4096)
    end = pair.theirs.config.eos_token_id
    for text, (best, *_), tokens in zip(texts, found, expected, strict=True):
        ours = pair.ids[torch.tensor([*best.tokens])].tolist() if best.tokens else []
        assert [*ours, *([end] if best.complete else [])] == tokens, text
    markers = {*pair.tokenizer.all_special_ids, *range(len(pair.tokenizer), pair.theirs.config.vocab_size)}
    spelled = [(text, tokens) for text, tokens in zip(texts, expected, strict=True) if not markers & {*tokens[:-1]}]
    assert spelled
    spoken = [pair.tokenizer.decode(tokens, skip_special_tokens=True) for _, tokens in spelled]
    assert pair.ours.generate([text for text, _ in spelled], max_tokens=NEW, temperature=0) == spoken


def test_documents_are_evaluated_with_the_probabilities_of_transformers(pair: Pair) -> None:
    """With open borders they are one text; that the next one begins is not predicted."""
    texts = [text for text in prompts(80) if len(pair.read(text)) < 20][:3]
    tokenizer = pair.ours.vocabularies["text"]
    rows = [[BEGIN, *tokenizer.encode(text), END] for text in texts]
    if pair.ours.recipe.data.borders == "open":
        rows = [[token for row in rows for token in row]]
    total = 0.0
    for row in rows:
        with torch.inference_mode():
            scores = pair.theirs(pair.ids[torch.tensor(row)].unsqueeze(0)).logits[0].log_softmax(1)
        predicted = [(place, token) for place, token in enumerate(row[1:]) if token != BEGIN]
        total -= sum(float(scores[place, pair.ids[token]]) for place, token in predicted)
    found = pair.ours.evaluate(texts).likelihood
    assert math.isclose(found.total, total, rel_tol=1e-5)
    assert found.tokens == sum(len(tokenizer.encode(text)) + 1 for text in texts)


def test_the_perplexity_of_a_text_is_that_of_transformers(pair: Pair) -> None:
    (text,) = fitting(pair, 1)
    tokens = pair.read(text)
    ids = pair.ids[torch.tensor(tokens)].unsqueeze(0)
    with torch.inference_mode():
        expected = pair.theirs(ids, labels=ids).loss
        scores = pair.ours.network(Packed.of([tokens])).log_softmax(1)
    found = -sum(float(scores[place, token]) for place, token in enumerate(tokens[1:])) / (len(tokens) - 1)
    assert math.isclose(found, float(expected), rel_tol=1e-5)
