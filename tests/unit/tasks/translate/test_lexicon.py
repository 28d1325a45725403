"""The lexicon of shortlists: what is learned, what is on a list, and files that are refused."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.shared.refusals import Refusal, each, like, refuses

from heedful.config.tokenizer import Words
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import SPECIALS, Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import SHORTLIST
from heedful.tasks.translate import learning
from heedful.tasks.translate.learning import make_lexicon, sample_pairs
from heedful.tasks.translate.lexicon import Lexicon, _digest, read_lexicon
from heedful.tasks.translate.links import Links, learn

WORDS = {"the": "das", "red": "rote", "dog": "Tier", "house": "Haus", "sees": "sieht", "old": "alte"}


def trained(texts: list[str]) -> Tokenizer:
    return train_tokenizer(Words(kind="word", joint=False), texts)


SOURCE, TARGET = trained([" ".join(WORDS), "7 Paris"]), trained([" ".join(WORDS.values()), "Paris 7"])
VOCABULARIES = Vocabularies({"source": SOURCE, "target": TARGET})


def store_of(count: int) -> TokenStore:
    chance = random.Random(count)
    rows = [chance.sample(list(WORDS), chance.randint(2, 5)) for _ in range(count)]
    return TokenStore.of(
        source=SOURCE.encode_batch([" ".join(row) for row in rows]),
        target=TARGET.encode_batch([" ".join(WORDS[word] for word in row) for row in rows]),
    )


def lexicon_of(store: TokenStore, candidates: int, frequent: int = 0) -> Lexicon:
    return make_lexicon([store], np.arange(len(store)), VOCABULARIES, candidates, frequent)


def token(tokenizer: Tokenizer, word: str) -> int:
    return tokenizer.encode(word)[0]


def test_each_word_has_its_translation_and_its_copy() -> None:
    lexicon = lexicon_of(store_of(60), candidates=1)
    for word, translation in WORDS.items():
        assert lexicon.of(token(SOURCE, word)).tolist() == [token(TARGET, translation)]
    for word in ("7", "Paris"):
        assert lexicon.of(token(SOURCE, word)).tolist() == [token(TARGET, word)]
    for special in range(len(SPECIALS)):
        assert not len(lexicon.of(special))


def test_the_most_likely_link_of_every_training_token_is_in_the_lexicon() -> None:
    chance = random.Random(2)
    pairs = [[[chance.randrange(4, 10) for _ in range(chance.randint(1, 6))] for _ in range(2)] for _ in range(50)]
    store = TokenStore.of(source=[source for source, _ in pairs], target=[target for _, target in pairs])
    lexicon = lexicon_of(store, candidates=10)
    for source, target in pairs:
        links = Links.of([np.array(source)], [np.array(target)], TARGET.size)
        keys, t = learn(list(learning._links([store], np.arange(len(store)), TARGET.size)))
        posteriors = links.posteriors(t[np.searchsorted(keys, links.keys)])
        for place, wanted in enumerate(target):
            best = int(np.argmax(np.where(links.place == place, posteriors, 0)))
            assert wanted in lexicon.of(int(links.keys[links.pair[best]] // TARGET.size))
        assert {*target} <= {*lexicon.shortlist(source).tolist()}


def test_parts_learn_what_the_whole_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    store, rows = store_of(40), np.arange(40)
    (whole,) = learning._links([store], rows, TARGET.size)
    monkeypatch.setattr(learning, "_PART", 50)
    parts = list(learning._links([store], rows, TARGET.size))
    assert len(parts) > 3
    for mine, wanted in zip(learn(parts), learn([whole]), strict=True):
        np.testing.assert_allclose(mine, wanted)


def test_of_many_pairs_some_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sample_pairs([store_of(12)])[1] == "the 12 training pairs"
    monkeypatch.setattr(learning, "_MOST_LINKS", 40)
    rows, sample = sample_pairs([store_of(12)])
    assert sample == f"{len(rows)} of 12 training pairs"
    assert 2 <= len(rows) <= 8


def test_a_list_has_special_tokens_translations_frequent_tokens_and_the_prefix_in_order() -> None:
    lexicon = lexicon_of(store_of(60), candidates=1, frequent=2)
    counts = np.bincount(store_of(60).gather("target", np.arange(60))[0])
    source = [token(SOURCE, "red"), token(SOURCE, "dog"), SOURCE.end]
    expected = {0, 1, 2, 3, token(TARGET, "rote"), token(TARGET, "Tier"), 9, *np.argsort(-counts)[:2].tolist()}
    assert lexicon.shortlist(source, prefix=[9]).tolist() == sorted(expected)


def test_a_piece_that_the_target_has_not_is_spelled_as_far_as_it_can_be() -> None:
    spelled = Vocabularies({"source": trained(["ab c"]), "target": trained(["c d"])})
    store = TokenStore.of(source=[spelled["source"].encode("c")], target=[spelled["target"].encode("d")])
    lexicon = make_lexicon([store], np.arange(1), spelled, 1, 0)
    assert lexicon.of(spelled["source"].encode("c")[0]).tolist() == sorted(spelled["target"].encode("c d"))


# --- the file ---------------------------------------------------------------------------------------------------------


def test_a_file_gives_the_lexicon_that_was_written(tmp_path: Path) -> None:
    lexicon = lexicon_of(store_of(60), candidates=2, frequent=3)
    lexicon.write(tmp_path, VOCABULARIES)
    found = read_lexicon(tmp_path, VOCABULARIES)
    for name in ("tokens", "ends", "frequent"):
        np.testing.assert_array_equal(getattr(found, name), getattr(lexicon, name))


def written(folder: Path, change: Callable[[dict[str, np.ndarray]], object], signed: bool = True) -> None:
    """Write a lexicon that was changed, with the hash of what it was changed to."""
    lexicon_of(store_of(60), candidates=2, frequent=3).write(folder, VOCABULARIES)
    parts = {name: part.copy() for name, part in load_file(folder / SHORTLIST).items()}
    stated = parts.pop("sha256")
    change(parts)
    save_file({**parts, "sha256": _digest(parts, VOCABULARIES) if signed else stated}, folder / SHORTLIST)


DAMAGED = like("...shortlist.safetensors is damaged, or was ...")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    written(tmp_path, lambda parts: parts["tokens"].__ixor__(1), signed=False)
    with refuses(
        f"{tmp_path}/shortlist.safetensors is damaged, or was learned for another model (its sha256 is not the stated "
        f'one): learn it again by `heedful.learn_shortlist("{tmp_path}")`.'
    ):
        read_lexicon(tmp_path, VOCABULARIES)


@each(
    [
        Refusal("a token that is not in the vocabulary", lambda parts: parts["tokens"].__setitem__(0, 99), DAMAGED),
        Refusal("a token below 0", lambda parts: parts["frequent"].__setitem__(0, -1), DAMAGED),
        Refusal("an end before the one before it", lambda parts: parts["ends"].__setitem__(5, 9), DAMAGED),
        Refusal("too few ends", lambda parts: parts.update(ends=parts["ends"][:-1]), DAMAGED),
        Refusal("ends beyond the tokens", lambda parts: parts["ends"].__iadd__(1), DAMAGED),
        Refusal("other numbers", lambda parts: parts.update(tokens=parts["tokens"].astype(np.float32)), DAMAGED),
        Refusal("a table", lambda parts: parts.update(tokens=parts["tokens"].reshape(1, -1)), DAMAGED),
        Refusal("a missing part", lambda parts: parts.pop("ends"), DAMAGED),
        Refusal("one part too many", lambda parts: parts.update(more=parts["ends"]), DAMAGED),
    ]
)
def test_no_number_of_a_file_is_taken_unchecked(refusal: Refusal, tmp_path: Path) -> None:
    written(tmp_path, refusal.act)
    with refuses(refusal.message):
        read_lexicon(tmp_path, VOCABULARIES)


@pytest.mark.parametrize("size", [0, 5, 40, 300])
def test_a_file_that_was_cut_is_refused(tmp_path: Path, size: int) -> None:
    lexicon_of(store_of(60), candidates=2).write(tmp_path, VOCABULARIES)
    (tmp_path / SHORTLIST).write_bytes((tmp_path / SHORTLIST).read_bytes()[:size])
    with refuses(DAMAGED):
        read_lexicon(tmp_path, VOCABULARIES)


def test_the_lexicon_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    lexicon_of(store_of(60), candidates=2).write(tmp_path, VOCABULARIES)
    with refuses(DAMAGED):
        read_lexicon(tmp_path, Vocabularies({"source": TARGET, "target": SOURCE}))
