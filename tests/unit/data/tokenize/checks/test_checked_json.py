"""A tokenizer.json that its library would trust, and should not."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.config.tokenizer import AnyTokenizer, Unigram, WordPiece, Words
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer

KINDS: dict[str, AnyTokenizer] = {
    "word": Words(kind="word"),
    "wordpiece": WordPiece(kind="wordpiece", size=40),
    "unigram": Unigram(kind="unigram", size=40),
}
SOUND = {kind: train_tokenizer(config, ["a dog sees a cat"]).to_json() for kind, config in KINDS.items()}


def refusal(kind: str, change: Callable[[Any], None]) -> str:
    content = json.loads(SOUND[kind])
    change(content)
    with pytest.raises(UserError) as caught:
        Tokenizer.from_json(json.dumps(content).encode(), "x.json")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def set_id(number: object) -> Callable[[Any], None]:
    return lambda content: content["model"]["vocab"].__setitem__("dog", number)


@pytest.mark.parametrize("number", [10**9, -1, 0.5, None, "1", True])
def test_an_id_that_no_vocabulary_has_is_refused(number: object) -> None:
    assert refusal("word", set_id(number)) == (
        f"x.json is not a tokenizer (a piece has the id {json.dumps(number)}, but ids go from 0 to less than "
        "20,000,000): restore it from a copy."
    )


@pytest.mark.parametrize("number", [4, 1000, 19_999_999])
def test_ids_must_be_all_numbers_from_0_each_once(number: int) -> None:
    assert refusal("word", set_id(number)) == (
        "x.json: its pieces do not have the ids from 0 to 7, each once: restore it from a copy."
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_enormous_piece_is_refused(kind: str) -> None:
    def lengthen(content: Any) -> None:
        vocabulary = content["model"]["vocab"]
        if isinstance(vocabulary, list):
            vocabulary[-1][0] = "x" * 1_000_000
        else:
            vocabulary["x" * 1_000_000] = vocabulary.popitem()[1]

    assert refusal(kind, lengthen) == (
        "x.json is not a tokenizer (a piece has 1,000,000 characters, but the longest may have 20,000): restore it "
        "from a copy."
    )


def test_rules_that_lead_outside_of_themselves_are_refused() -> None:
    rules = base64.b64encode((4).to_bytes(4, "little") + b"\xff\xff\xff\x7f").decode()
    part = {"type": "Precompiled", "precompiled_charsmap": rules}
    nested = {"type": "Sequence", "normalizers": [part]}
    for normalizer in (part, nested):
        said = refusal("word", lambda content, chosen=normalizer: content.update(normalizer=chosen))  # type: ignore[misc]
        assert said == "x.json is not a tokenizer (the trie leads outside of itself): restore it from a copy."


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content.pop("model"), "it has no `model`"),
        (lambda content: content["model"].update(vocab=1), "its `model` has no `vocab`"),
        (lambda content: content.update(added_tokens=1), "its `added_tokens` are not a list of objects"),
        (lambda content: content["added_tokens"][0].update(content=None), "a piece is not a text"),
        (
            lambda content: content["added_tokens"][0].update(id=10**9),
            "a piece has the id 1000000000, but ids go from 0 to less than 20,000,000",
        ),
        (
            lambda content: content["model"].update(unk_token="?"),
            "the piece `?` for what is unknown is not in its vocabulary",
        ),
    ],
)
def test_parts_that_are_missing_or_of_other_types_are_refused(change: Callable[[Any], None], words: str) -> None:
    assert refusal("word", change) == f"x.json is not a tokenizer ({words}): restore it from a copy."


def test_words_that_wordpiece_would_split_for_ever_are_refused() -> None:
    assert refusal("wordpiece", lambda content: content["model"].update(max_input_chars_per_word=10**9)) == (
        "x.json is not a tokenizer (`max_input_chars_per_word` is 1000000000, but must be from 0 to 1,000): restore it "
        "from a copy."
    )


def test_a_vocabulary_that_is_not_pieces_with_scores_is_refused() -> None:
    assert "an entry of its vocabulary is not a piece and its score" in refusal(
        "unigram", lambda content: content["model"]["vocab"].append(["x"])
    )


def test_a_tokenizer_that_pads_is_refused() -> None:
    padding = {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
               "pad_type_id": 0, "pad_token": "<pad>"}  # fmt: skip
    assert refusal("word", lambda content: content.update(padding=padding)) == (
        "x.json truncates or pads texts: it is not a tokenizer of Heedful."
    )


def test_deep_nesting_is_refused() -> None:
    with refuses("x.json is not a tokenizer (it is nested too deep): restore it..."):
        Tokenizer.from_json(b"[" * 100_000, "x.json")
