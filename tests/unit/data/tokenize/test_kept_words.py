"""Words that are never split: one piece of text in every kind of vocabulary, wherever they are words."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.examples import examples
from tests.shared.refusals import refuses

from heedful.config.tokenizer import AnyTokenizer, Bpe, ByteBpe, Characters, Unigram, WordPiece, Words
from heedful.data.epochs.bpe_dropout import Redrawing
from heedful.data.token_store import Ragged
from heedful.data.tokenize.encoding import ID, KnownWords
from heedful.data.tokenize.tokenizer import SPECIALS, Tokenizer
from heedful.data.tokenize.training import train_tokenizer

KEPT = ("<bt>", "__NUM__", "A/B")
TEXTS = ["<bt> der Hund rennt", "der A/B Hund sieht __NUM__ Hunde", "b t < > N U M _ /", "x<bt>y <bt>, A B"] * 3
KINDS: list[AnyTokenizer] = [
    ByteBpe(size=300, keep=KEPT),
    Bpe(kind="bpe", size=120, keep=KEPT),
    WordPiece(kind="wordpiece", size=120, keep=KEPT),
    Unigram(kind="unigram", size=120, keep=KEPT),
    Words(kind="word", size=100, keep=KEPT),
    Characters(kind="char", size=100, keep=KEPT),
]
TRAINED: dict[str, Tokenizer] = {config.kind: train_tokenizer(config, TEXTS, ["de"]) for config in KINDS}
RELOADED: dict[str, Tokenizer] = {
    kind: Tokenizer.from_json(tokenizer.to_json(), "t.json") for kind, tokenizer in TRAINED.items()
}
both_forms = pytest.mark.parametrize(
    "tokenizer",
    [*TRAINED.values(), *RELOADED.values()],
    ids=[*TRAINED, *(f"{kind} reloaded" for kind in RELOADED)],
)
FIRST = len(SPECIALS) + 1  # after the tag <2de>


@both_forms
def test_a_kept_word_is_one_piece_of_text_after_the_markers(tokenizer: Tokenizer) -> None:
    assert tokenizer.markers == FIRST
    for number, word in enumerate(KEPT, start=FIRST):
        assert tokenizer.encode(word) == [number]
        assert tokenizer.encode(f"{word} der")[0] == number
        assert tokenizer.encode(f"der {word} Hund {word}").count(number) == 2
        assert tokenizer.pieces([number]) == [word]
    assert tokenizer.kept == frozenset(range(FIRST, FIRST + len(KEPT)))


@both_forms
def test_texts_with_kept_words_come_back(tokenizer: Tokenizer) -> None:
    for text in ("<bt> der Hund rennt", "der A/B Hund sieht __NUM__", "<bt> <bt> der", "<bt>"):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert tokenizer.words(ids)[-1] == len(text.split()) - 1


@both_forms
def test_only_words_are_kept_not_parts_of_words(tokenizer: Tokenizer) -> None:
    for text in ("x<bt>y", "__NUM__s", "CA/B"):
        assert not tokenizer.kept.intersection(tokenizer.encode(text))
    assert tokenizer.encode("<bt>,")[0] == FIRST


@both_forms
def test_other_texts_have_the_pieces_of_a_vocabulary_that_keeps_nothing(tokenizer: Tokenizer) -> None:
    """The kept words add their ids; what other pieces there are is decided by the rest of the text."""
    texts = ["der Hund rennt", "Hunde sieht der"]
    for text in texts:
        ids = tokenizer.encode(text)
        assert min(ids) >= FIRST + len(KEPT)
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("config", KINDS, ids=lambda config: config.kind)
def test_no_other_piece_is_learned_from_kept_words(config: AnyTokenizer) -> None:
    texts = [f"ab <bt> ab {'__NUM__ ' * 50}"] * 20
    plain, keeping = (
        train_tokenizer(type(config).model_validate({**config.model_dump(), "size": 290, "keep": keep}), given)
        for keep, given in (((), ["ab   ab " + " " * 50] * 20), (KEPT, texts))
    )
    pieces = [[tokenizer.pieces([number])[0] for number in range(tokenizer.size)] for tokenizer in (plain, keeping)]
    assert set(pieces[1]) - set(pieces[0]) == set(KEPT)


@pytest.mark.parametrize("config", KINDS, ids=lambda config: config.kind)
def test_without_kept_words_a_vocabulary_is_what_it_was(config: AnyTokenizer) -> None:
    without = train_tokenizer(type(config).model_validate({**config.model_dump(), "keep": ()}), TEXTS)
    added = json.loads(without.to_json())["added_tokens"]
    assert [token["content"] for token in added if token["special"]] == list(SPECIALS)
    assert len(added) == len(SPECIALS)
    assert without.kept == frozenset()


parts = st.sampled_from([*KEPT, " ", " ", "  ", "\n", "der", "Hund", ",", "x", "_", "漢"])


@pytest.mark.parametrize("kind", TRAINED)
@given(texts=st.lists(st.lists(parts, max_size=12).map("".join), max_size=4))
@examples(100)
def test_words_one_by_one_give_what_the_whole_text_gives(kind: str, texts: list[str]) -> None:
    tokenizer = RELOADED[kind]
    known = [np.frombuffer(ids, ID).tolist() for ids in KnownWords(tokenizer).encode(texts)]
    assert known == tokenizer.encode_batch(texts)


@pytest.mark.parametrize("kind", ["bpe", "byte_bpe"])
def test_bpe_dropout_cuts_the_words_around_them_and_never_themselves(kind: str) -> None:
    tokenizer = RELOADED[kind]
    rows = [tokenizer.encode("<bt> der Hund sieht <bt>")] * 50
    stream = Ragged(np.concatenate(rows).astype(np.uint16), np.arange(51) * len(rows[0]))
    drawn = Redrawing(tokenizer, 0.5).draw(stream, seed=1, epoch=0, number=0, longest=99)
    cut = [drawn[row].tolist() for row in range(50)]
    assert {tuple(row).count(FIRST) for row in cut} == {2}
    assert {tokenizer.decode(row) for row in cut} == {"<bt> der Hund sieht <bt>"}
    assert len({tuple(row[1:-1]) for row in cut}) > 10


def test_kept_words_take_room_of_the_vocabulary() -> None:
    with refuses("`tokenizer.size` is 5, but must be more than 5, ..."):
        train_tokenizer(Words(kind="word", size=5, keep=("<bt>",)), TEXTS)
    assert train_tokenizer(Words(kind="word", size=6, keep=("<bt>", "<bt>")), TEXTS).size == 6
