import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.shared.refusals import refuses

from heedful.config.recipe import Recipe
from heedful.data.corpora.pairs import read_pairs
from heedful.data.prepare import pairs as tokenizing
from heedful.data.prepare import stores as building
from heedful.data.prepare.pairs import prepare
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.data.tokenize import training as tokenizer_training
from heedful.data.tokenize.encoding import Filters

ENGLISH = ["a dog runs", "a cat sleeps", "", "the dog sees the cat", "one", "yes"]
GERMAN = ["ein Hund rennt", "eine Katze schläft", "leer", "der Hund sieht die Katze", "eins zwei drei vier fünf", " "]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write(tmp_path / "train.en", ENGLISH)
    write(tmp_path / "train.de", GERMAN)
    write(tmp_path / "valid.en", ["the cat runs", "", "a very long sentence about dogs and cats and more"])
    write(tmp_path / "valid.de", ["die Katze rennt", "x", "kurz"])
    return tmp_path


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def recipe(folder: Path, tokenizer: dict[str, Any] | None = None, **data: Any) -> Recipe:
    defaults = {
        "folder": str(folder),
        "train": {"source": "train.en", "target": "train.de"},
        "valid": {"source": "valid.en", "target": "valid.de"},
    }
    words = {"kind": "word", "joint": False}
    return Recipe.model_validate(
        {"data": defaults | data, "tokenizer": tokenizer or words, "model": {"family": "transformer", "tie": "decoder"}}
    )


def texts(prepared: Prepared, store: TokenStore) -> list[tuple[str, str]]:
    return [
        (
            prepared.vocabularies["source"].decode(store.sentence("source", i).tolist()),
            prepared.vocabularies["target"].decode(store.sentence("target", i).tolist()),
        )
        for i in range(len(store))
    ]


def train_texts(recipe: Recipe) -> list[tuple[str, str]]:
    prepared = prepare(recipe)
    return texts(prepared, prepared.train[0])


class Said(list[str]):
    """Collects progress."""

    def __call__(self, message: str) -> None:
        self.append(message)


def test_corpora_come_tokenized_in_order_without_blank_pairs(files: Path) -> None:
    prepared = prepare(recipe(files, {"kind": "byte_bpe", "size": 300}))
    (store,) = prepared.train
    kept = [pair for pair in zip(ENGLISH, GERMAN, strict=True) if pair[0] and pair[1].strip()]
    assert texts(prepared, store) == kept
    assert store.dropped == {"empty": 2}
    assert prepared.weights == (1.0,)


def test_long_and_lopsided_pairs_are_dropped_from_training_alone(files: Path) -> None:
    prepared = prepare(recipe(files, max_length=4, max_ratio=2))
    assert texts(prepared, prepared.train[0]) == [
        ("a dog runs", "ein Hund rennt"),
        ("a cat sleeps", "eine Katze schläft"),
    ]
    assert prepared.train[0].dropped == {"empty": 2, "too long": 2}
    assert len(prepared.valid[0]) == 2
    assert prepared.valid[0].dropped == {"empty": 1}
    lopsided = prepare(recipe(files, max_ratio=4.5))
    assert lopsided.train[0].dropped == {"empty": 2, "ratio": 1}


@pytest.mark.parametrize(
    ("source", "target", "objection"),
    [(4, 4, None), (5, 4, "too long"), (4, 5, "too long"), (1, 3, "ratio"), (2, 4, None), (0, 3, "empty")],
)
def test_filters_count_pieces(source: int, target: int, objection: str | None) -> None:
    assert Filters(max_length=4, max_ratio=2.0).objection(source, target) == objection


def test_a_joint_vocabulary_is_one_object_and_separate_ones_are_two(files: Path) -> None:
    joint = prepare(recipe(files, {"kind": "word"}))
    assert joint.vocabularies["source"] is joint.vocabularies["target"]
    apart = prepare(recipe(files, {"kind": "word", "joint": False}))
    assert apart.vocabularies["source"].fingerprint != apart.vocabularies["target"].fingerprint
    assert apart.vocabularies["source"].encode("Hund") == [apart.vocabularies["source"].unknown]


def test_several_corpora_are_several_stores_with_weights(files: Path) -> None:
    (files / "more.tsv").write_text("dog\tHund\n")
    corpora = [{"source": "train.en", "target": "train.de"}, {"tsv": "more.tsv", "weight": 2.5}]
    prepared = prepare(recipe(files, train=corpora))
    assert [len(store) for store in prepared.train] == [4, 1]
    assert prepared.weights == (1.0, 2.5)


def test_a_second_start_neither_trains_nor_reads(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepare(recipe(files))

    def refuse(*_: object) -> None:
        raise AssertionError("done again")

    monkeypatch.setattr(tokenizing, "read_pairs", refuse)
    monkeypatch.setattr(tokenizer_training, "train_tokenizer", refuse)
    second = prepare(recipe(files))
    assert second.train[0].key == first.train[0].key
    assert second.train[0].dropped == first.train[0].dropped
    assert texts(second, second.train[0]) == texts(first, first.train[0])


def test_weights_names_and_places_do_not_matter_to_the_cache(files: Path, tmp_path: Path) -> None:
    first = prepare(recipe(files))
    for name in ("train.en", "train.de"):
        (files / name).rename(files / f"moved.{name}")
    moved = {"source": "moved.train.en", "target": "moved.train.de", "weight": 3, "name": "again"}
    said = Said()
    second = prepare(recipe(files, train=moved), said)
    assert second.train[0].key == first.train[0].key
    assert not [line for line in said if line.startswith(("training", "tokenizing"))]


@pytest.mark.parametrize(
    "change",
    [
        {"max_length": 3},
        {"max_ratio": 1.2},
        {"nfc": True},
        {"lowercase": True},
        {"train": {"source": "train.en", "target": "train.de", "lines": "1-4"}},
    ],
)
def test_whatever_decides_the_content_is_in_the_key(files: Path, change: dict[str, Any]) -> None:
    assert prepare(recipe(files)).train[0].key != prepare(recipe(files, **change)).train[0].key


def test_a_changed_file_is_read_again(files: Path) -> None:
    first = prepare(recipe(files))
    write(files / "train.en", ["a hog runs", *ENGLISH[1:]])
    second = prepare(recipe(files))
    assert first.train[0].key != second.train[0].key
    assert texts(second, second.train[0])[0] == ("a hog runs", "ein Hund rennt")
    assert texts(first, first.train[0])[0] == ("a dog runs", "ein Hund rennt")  # the old one is still whole


def test_given_tokenizers_are_used(files: Path) -> None:
    first = prepare(recipe(files))
    write(files / "train.en", ["unheard words", *ENGLISH[1:]])
    said = Said()
    second = prepare(recipe(files), said, given=first.vocabularies)
    assert second.vocabularies is first.vocabularies
    assert second.train[0].key != prepare(recipe(files)).train[0].key
    assert not [line for line in said if line.startswith("training")]


def test_a_damaged_entry_is_made_again(files: Path, cache: Path) -> None:
    first = train_texts(recipe(files))
    for file in cache.rglob("*"):
        if file.name in ("tokenizer.json", "source.values"):
            file.write_bytes(file.read_bytes()[:-1])
    assert train_texts(recipe(files)) == first


def test_progress_tells_the_work_and_its_result(files: Path) -> None:
    said = Said()
    prepare(recipe(files, max_length=4), said)
    assert said == [
        "training the tokenizer of the source side: word, 50,000 pieces",
        "training the tokenizer of the target side: word, 50,000 pieces",
        "tokenizing train.en + train.de",
        "train.en + train.de: 2 pairs, dropped 2 with an empty side, 2 longer than `data.max_length` (4 tokens)",
        "tokenizing valid.en + valid.de",
        "valid.en + valid.de: 2 pairs, dropped 1 with an empty side",
    ]


@pytest.mark.parametrize(
    ("joint", "sample", "line"),
    [
        (True, 6, "training the tokenizer: word, 50,000 pieces, on 6 of 12 texts (`tokenizer.sample`)"),
        (False, 2, "training the tokenizer of the target side: word, 50,000 pieces, on 2 of 6 texts"),
        (True, 12, "training the tokenizer: word, 50,000 pieces"),
    ],
)
def test_a_tokenizer_is_trained_on_no_more_texts_than_asked(
    files: Path, joint: bool, sample: int, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[list[str]] = []
    train = tokenizer_training.train_tokenizer

    def watched(config: Any, texts: Iterable[str], *rest: Any) -> Any:
        given.append(list(texts))
        return train(config, given[-1], *rest)

    monkeypatch.setattr(tokenizer_training, "train_tokenizer", watched)
    said = Said()
    prepare(recipe(files, {"kind": "word", "joint": joint, "sample": sample}), said)
    assert [len(texts) for texts in given] == ([sample] if joint else [2, 2])
    assert any(said_line.startswith(line) for said_line in said)


def test_the_sample_is_in_the_key(files: Path) -> None:
    prepare(recipe(files, {"kind": "word", "sample": 12}))
    said = Said()
    prepare(recipe(files, {"kind": "word", "sample": 4}), said)
    assert [line for line in said if line.startswith("training")]


def test_long_work_tells_how_far_it_is(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizing, "_CHUNK", 2)
    monkeypatch.setattr(building, "_TELL_EVERY", 2)
    said = Said()
    prepared = prepare(recipe(files), said)
    assert "tokenizing train.en + train.de: 4 pairs so far" in said
    assert len(prepared.train[0]) == 4


def test_an_interrupted_start_leaves_nothing_half_made(
    files: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepare(recipe(files))
    monkeypatch.setenv("HEEDFUL_CACHE", str(other := cache / "other"))

    def interrupted(*arguments: Any) -> Any:
        yield next(read_pairs(*arguments))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tokenizing, "read_pairs", interrupted)
        with pytest.raises(KeyboardInterrupt):
            prepare(recipe(files), given=prepared.vocabularies)
    assert [file for file in (other / "tokens").iterdir() if file.suffix != ".lock"] == []
    assert train_texts(recipe(files)) == texts(prepared, prepared.train[0])


def test_a_missing_validation_file_shows_before_anything_is_trained(files: Path) -> None:
    (files / "valid.de").unlink()
    said = Said()
    with refuses("...valid.de: no such file..."):
        prepare(recipe(files), said)
    assert said == []


def test_a_missing_test_file_is_told_before_anything_is_trained_and_stops_nothing(files: Path) -> None:
    write(files / "test.en", ["a dog"])
    said = Said()
    test = [{"source": "test.en", "target": "test.de"}, {"source": "valid.en", "target": "valid.de"}]
    assert len(prepare(recipe(files, test=test), said).train[0]) == 4
    told = [line for line in said if "data.test" in line]
    assert told == said[:1]
    assert re.fullmatch(
        r"`data.test`: .*test\.de: no such file.*\. Training does not need it, but `heedful evaluate` will\.", told[0]
    )


@pytest.mark.parametrize("lines", [[], ["", " "]])
def test_a_training_corpus_without_text(files: Path, lines: list[str]) -> None:
    write(files / "train.en", lines)
    write(files / "train.de", ["x"] * len(lines))
    with refuses("train.en + train.de has no pair with text on both sides to train on."):
        prepare(recipe(files))


@pytest.mark.parametrize(
    ("data", "reasons"),
    [
        ({"max_length": 1}, "2 with an empty side, 4 longer than `data.max_length` (1 tokens)"),
        (
            {"max_length": 3, "max_ratio": 1, "train": {"source": "train.en", "target": "train.de", "lines": "3-6"}},
            "2 with an empty side, 2 longer than `data.max_length` (3 tokens)",
        ),
        (
            {"max_ratio": 1.5, "train": {"source": "train.en", "target": "train.de", "lines": "5-6"}},
            "1 with an empty side, 1 of lengths further apart than `data.max_ratio` (1.5)",
        ),
    ],
)
def test_when_everything_is_dropped_the_reasons_are_said(files: Path, data: dict[str, Any], reasons: str) -> None:
    message = f"train.en + train.de has no pair to use: dropped {reasons}."
    with refuses(message):
        prepare(recipe(files, **data))


def test_an_empty_validation_corpus(files: Path) -> None:
    write(files / "valid.en", [])
    write(files / "valid.de", [])
    with refuses("valid.en + valid.de has no pair to use: it is empty."):
        prepare(recipe(files))
