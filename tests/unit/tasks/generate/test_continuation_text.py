"""The text of tokens as they arrive: whole characters, joined to the prompt as the vocabulary joins words."""

import random

import pytest

from heedful.config.tokenizer import AnyTokenizer, Bpe, ByteBpe, Characters, Unigram, WordPiece, Words
from heedful.data.tokenize.encoding import encode_running_text, running_pieces
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.tasks.generate.continuation_text import ContinuationText, unspellable

TEXTS = ("the cat sat on the mat .", "the dog saw it .\na story\n\nof a dog", "Höhe 12 🐈 und 🐕‍🦺 naïve")
KINDS: dict[str, AnyTokenizer] = {
    "bytes": ByteBpe(size=262),
    "pieces of bytes": ByteBpe(size=300),
    "characters": Characters(kind="char"),
    "words": Words(kind="word"),
    "bpe": Bpe(kind="bpe", size=60),
    "wordpiece": WordPiece(kind="wordpiece", size=60),
    "unigram": Unigram(kind="unigram", size=60),
}


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return tokenizer_of(KINDS[request.param])


def tokenizer_of(config: AnyTokenizer) -> Tokenizer:
    spelled = config.kind in ("char", "byte_bpe")
    return train_tokenizer(config, [piece for text in TEXTS * 5 for piece in running_pieces(text, spelled)])


def parts_of(tokenizer: Tokenizer, prompt: str, rest: str, stop: tuple[str, ...] = ()) -> list[str]:
    """The parts that are shown of a text, token by token."""
    shown = ContinuationText(tokenizer, encode_running_text(prompt, tokenizer), stop)
    parts = [shown.add([token]) for token in encode_running_text(rest, tokenizer)]
    return [*parts, shown.end()]


@pytest.mark.parametrize("text", TEXTS)
def test_parts_are_whole_characters_and_together_the_text(tokenizer: Tokenizer, text: str) -> None:
    parts = parts_of(tokenizer, "", text)
    at_once = ContinuationText(tokenizer, [])
    whole = at_once.add(encode_running_text(text, tokenizer)) + at_once.end()
    assert "".join(parts) == whole
    assert not any("\N{REPLACEMENT CHARACTER}" in part for part in parts)
    if tokenizer.spells_spaces:
        assert whole == text


def test_a_continuation_is_joined_to_its_prompt(tokenizer: Tokenizer) -> None:
    rest = " saw it ." if tokenizer.spells_spaces else "saw it ."
    joined = "the dog" + "".join(parts_of(tokenizer, "the dog", rest))
    assert joined.split() == ["the", "dog", "saw", "it", "."] or joined == "the dog saw it."  # wordpiece joins stops
    assert joined.startswith("the dog saw")


def test_bytes_that_are_no_character_are_shown_at_the_end() -> None:
    tokenizer = train_tokenizer(ByteBpe(size=262), ["abc"])
    cat = tokenizer.encode("🐈")
    assert len(cat) == 4
    shown = ContinuationText(tokenizer, [])
    assert [shown.add([token]) for token in cat] == ["", "", "", "🐈"]
    assert shown.add(cat[:2]) == ""
    assert shown.end() == "\N{REPLACEMENT CHARACTER}"


def test_bytes_that_never_become_a_character_do_not_wait_for_ever() -> None:
    tokenizer = train_tokenizer(ByteBpe(size=262), ["abc"])
    lone = tokenizer.encode("🐈")[1]
    shown = ContinuationText(tokenizer, [])
    assert any(shown.add([lone]) for _ in range(100))


def test_a_random_text_is_shown_in_any_parts() -> None:
    tokenizer, chance = train_tokenizer(ByteBpe(size=300), list(TEXTS) * 5), random.Random(3)
    for _ in range(30):
        ids = [chance.randrange(tokenizer.markers, tokenizer.size) for _ in range(40)]
        shown, text, left = ContinuationText(tokenizer, []), "", ids
        while left:
            count = chance.randint(1, 5)
            text, left = text + shown.add(left[:count]), left[count:]
        text += shown.end()
        assert text == tokenizer.decode(ids)


def test_what_could_become_a_stop_string_waits(tokenizer: Tokenizer) -> None:
    if not tokenizer.spells_spaces:
        return
    shown = ContinuationText(tokenizer, [], ("sat", "the dog"))
    text = "".join(shown.add([token]) for token in tokenizer.encode("the do cat sad sat on"))
    assert text + shown.end() == "the do cat sad " == shown.text
    assert shown.stopped


@pytest.mark.parametrize("kind", KINDS)
def test_characters_that_no_piece_has_are_found(kind: str) -> None:
    made = tokenizer_of(KINDS[kind])
    assert unspellable("the cat\nsaw", made) is None
    assert unspellable("the ΩΨ", made) == (None if "bytes" in kind else "Ω")
