import json
import random
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pydantic import TypeAdapter
from tests.shared.refusals import refuses

from heedful.config.corpora.containers import AlignedFiles, AnyCorpus, Trees, Tsv
from heedful.data.corpora.documents import read_documents, read_running_text
from heedful.data.corpora.files import choose
from heedful.data.corpora.images import read_asked_images, read_captioned, read_images
from heedful.data.corpora.pairs import read_pairs, read_references
from heedful.data.corpora.questions import read_questions
from heedful.data.corpora.tagged import read_tagged
from heedful.data.corpora.texts import read_texts
from heedful.data.corpora.trees import read_trees
from heedful.data.text_form import TextForm

TEXTS = [f"text {number}" for number in range(500)]


def take(texts: list[str], **choice: object) -> list[str]:
    return list(choose(texts, Tsv.model_validate({"tsv": "t.tsv", "text": 1, **choice}), str))


def number(text: str) -> int:
    return int(sha256(text.encode()).hexdigest(), 16)


@pytest.mark.parametrize(("part", "members"), [("0/10", {0}), ("1-9/10", set(range(1, 10))), ("2-2/3", {2})])
def test_a_part_is_of_the_texts_whose_hash_has_that_remainder(part: str, members: set[int]) -> None:
    parts = int(part.split("/")[1])
    assert take(TEXTS, part=part) == [text for text in TEXTS if number(text) % parts in members]


def test_parts_share_no_text_and_leave_none_out() -> None:
    first, others = take(TEXTS, part="0/4"), take(TEXTS, part="1-3/4")
    assert sorted(first + others) == sorted(TEXTS)


@given(st.lists(st.text(max_size=3), min_size=5, max_size=40), st.integers(1, 5))
def test_a_sample_is_of_the_smallest_hashes_in_the_order_of_the_file(texts: list[str], size: int) -> None:
    found = take(texts, sample=size)
    assert sorted(map(number, found)) == sorted(map(number, texts))[:size]
    rest = iter(texts)
    assert all(text in rest for text in found)  # a subsequence


def test_neither_order_nor_other_texts_of_other_parts_change_a_choice() -> None:
    found = take(TEXTS, part="1-2/5", sample=20)
    mixed = random.Random(1).sample(TEXTS, len(TEXTS)) + [t for t in map(str, range(300)) if number(t) % 5 == 0]
    assert sorted(take(mixed, part="1-2/5", sample=20)) == sorted(found)


def test_all_texts_are_taken_where_nothing_is_asked() -> None:
    assert take(TEXTS) == TEXTS


def test_half_a_character_can_be_hashed() -> None:
    assert take(["\ud83d"], part="0/1") == ["\ud83d"]


def test_a_sample_larger_than_its_corpus_is_refused() -> None:
    with refuses("t.tsv has 500 texts, but `sample` is 1,000: lower it."):
        take(TEXTS, sample=1000)
    count = len(take(TEXTS, part="0/10"))
    with refuses(f'mine has {count} texts in part "0/10", but `sample` is 400: lower it.'):
        take(TEXTS, part="0/10", sample=400, name="mine")


# --- every container --------------------------------------------------------------------------------------------------

WORDS = [f"word{number}" for number in range(40)]
_PLAIN = TextForm()


def _images(folder: Path) -> list[str]:
    for number in range(12):
        Image.fromarray(np.full((2, 2), number, np.uint8)).save(folder / f"{number}.png")
    return [f"{number}.png" for number in range(12)]


def _write_all(folder: Path) -> None:
    """Write a file of each kind: 40 rows, or 12 images; rows that must stay together share what is hashed."""

    def lines(name: str, rows: list[str]) -> None:
        (folder / name).write_text("".join(f"{row}\n" for row in rows))

    def objects(name: str, rows: list[dict[str, object]]) -> None:
        lines(name, [json.dumps(row) for row in rows])

    sources = [f"{word} here" for word in WORDS[:20]] * 2
    lines("a.en", sources)
    lines("a.de", [f"{word} hier" for word in WORDS])
    lines("a.tsv", [f"{source}\t{word} hier" for source, word in zip(sources, WORDS, strict=True)])
    lines("a.csv", [f"{source},{word}" for source, word in zip(sources, WORDS, strict=True)])
    objects("pairs.jsonl", [{"source": s, "target": t} for s, t in zip(sources, WORDS, strict=True)])
    lines("a.trees", [f"(S (NP (NN {word})) (VP (VB runs)))" for word in WORDS])
    lines("a.conll", [f"{word} N\nruns V\n" for word in WORDS])
    lines("a.txt", [f"{word} runs.\nIt is fast.\n" for word in WORDS])
    asked = [{"question": f"What? {word}", "text": f"It is {number % 8}.", "answer": str(number % 8)}
             for number, word in enumerate(WORDS)]  # fmt: skip
    objects("questions.jsonl", [dict(row) for row in asked])
    paragraphs = [
        {
            "context": row["text"],
            "qas": [{"question": row["question"], "answers": [{"text": row["answer"], "answer_start": 6}]}],
        }
        for row in asked
    ]
    (folder / "squad.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    names = _images(folder) * 3
    rows = [{"image": name, "label": "x", "number": n, "caption": f"c{n}", "question": f"q{n}", "answer": "a"}
            for n, name in enumerate(names)]  # fmt: skip
    objects("images.jsonl", [dict(row) for row in rows])
    (folder / "photos" / "x").mkdir(parents=True)
    for name in names[:12]:
        (folder / "photos" / "x" / name).write_bytes((folder / name).read_bytes())
    pixels = np.arange(12 * 4, dtype=np.uint8).reshape(12, 2, 2)
    np.savez(folder / "a.npz", x=pixels, y=np.zeros(12, np.int64))
    (folder / "a.idx").write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 12, 0, 0, 0, 2, 0, 0, 0, 2]) + pixels.tobytes())
    (folder / "labels.idx").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 12]) + bytes(12))


Reader = Callable[[AnyCorpus, str], Iterator[tuple[str, object]]]  # what is hashed, and the row


def _pairs(corpus: AnyCorpus, folder: str) -> Iterator[tuple[str, object]]:
    return ((pair[0], pair) for pair in read_pairs(corpus, folder))


def _texts(corpus: AnyCorpus, folder: str) -> Iterator[tuple[str, object]]:
    return ((text.text, (text.text, text.labels)) for text in read_texts(corpus, folder))


def _tagged(corpus: AnyCorpus, folder: str) -> Iterator[tuple[str, object]]:
    return ((" ".join(text.words), (text.words, text.labels)) for text in read_tagged(corpus, folder))


def _questions(corpus: AnyCorpus, folder: str) -> Iterator[tuple[str, object]]:
    return ((asked.text, asked) for asked in read_questions(corpus, folder))


def _shown(corpus: AnyCorpus, folder: str) -> Iterator[tuple[str, object]]:
    return ((one.content(), (one.where, one.labels)) for one in read_images(corpus, folder))


def _captions(corpus: AnyCorpus, folder: str) -> Iterator[tuple[str, object]]:
    return ((one.image.content(), text) for one in read_captioned(corpus, folder) for text in one.captions)


def _asked(corpus: AnyCorpus, folder: str) -> Iterator[tuple[str, object]]:
    return ((one.image.content(), asked) for one in read_asked_images(corpus, folder) for asked in one.questions)


def _documents(corpus: AnyCorpus, folder: str) -> Iterator[tuple[str, object]]:
    return ((str(sentences), tuple(sentences)) for sentences in read_documents(corpus, folder, _PLAIN))


def _running(corpus: AnyCorpus, folder: str) -> Iterator[tuple[str, object]]:
    return ((text, text) for text in read_running_text(corpus, folder, _PLAIN))


CONTAINERS: dict[str, tuple[dict[str, Any], Reader, int]] = {  # a corpus, its reader, and its rows
    "aligned files": ({"source": "a.en", "target": "a.de"}, _pairs, 40),
    "variants": ({"source": "a.en", "target": "a.de", "variants": True}, _pairs, 40),
    "tsv of pairs": ({"tsv": "a.tsv"}, _pairs, 40),
    "csv of pairs": ({"csv": "a.csv"}, _pairs, 40),
    "jsonl of pairs": ({"jsonl": "pairs.jsonl"}, _pairs, 40),
    "trees": ({"trees": "a.trees"}, _pairs, 40),
    "texts": ({"tsv": "a.tsv", "text": 2, "label": 1}, _texts, 40),
    "conll": ({"conll": "a.conll"}, _tagged, 40),
    "running text": ({"text": "a.txt"}, _running, 40),
    "documents": ({"text": "a.txt"}, _documents, 40),
    "questions": ({"jsonl": "questions.jsonl", "question": "question"}, _questions, 40),
    "squad": ({"squad": "squad.json"}, _questions, 40),
    "images": ({"images": "photos"}, _shown, 12),
    "table of images": ({"jsonl": "images.jsonl", "image": "image"}, _shown, 36),
    "table of numbers": ({"jsonl": "images.jsonl", "image": "image", "number": "number"}, _shown, 36),
    "idx": ({"idx": "a.idx", "labels": "labels.idx"}, _shown, 12),
    "npz": ({"npz": "a.npz"}, _shown, 12),
    "captions": ({"jsonl": "images.jsonl", "image": "image", "caption": "caption"}, _captions, 36),
    "questions about images": ({"jsonl": "images.jsonl", "image": "image", "question": "question"}, _asked, 36),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("containers")
    _write_all(made)
    return str(made)


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_can_be_split_and_keeps_together_what_belongs_together(folder: str, name: str) -> None:
    keys, read, count = CONTAINERS[name]

    def part(**choice: object) -> list[tuple[str, object]]:
        corpus: AnyCorpus = TypeAdapter[AnyCorpus](AnyCorpus).validate_python({**keys, **choice})
        return list(read(corpus, folder))

    whole, first, others = part(), part(part="0/3"), part(part="1-2/3")
    assert len(whole) == count
    assert sorted(map(str, first + others)) == sorted(map(str, whole))
    assert 0 < len(first) < len(whole)
    assert not {hashed for hashed, _ in first} & {hashed for hashed, _ in others}
    sampled = part(sample=4)
    assert len({hashed for hashed, _ in sampled}) <= 4 <= len(sampled)


def test_trees_and_the_pairs_of_a_parser_are_of_the_same_sentences(folder: str) -> None:
    corpus = Trees(trees="a.trees", part="0/3", sample=5)
    trees = [" ".join(tree.words) for tree in read_trees(corpus, folder) if tree is not None]
    assert trees == [source for source, _ in read_pairs(corpus, folder)]


def test_further_references_are_those_of_the_same_part(folder: str) -> None:
    corpus = AlignedFiles(source="a.en", target="a.de", references=("a.de",), part="1/3")
    alone = [source for source, _ in read_pairs(corpus.model_copy(update={"references": ()}), folder)]
    assert [(source, len(targets)) for source, targets in read_references(corpus, folder)] == [
        (source, 2) for source in alone
    ]


def test_blank_rows_do_not_count_towards_a_sample(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("\none\teins\n\ntwo\tzwei\n")
    (tmp_path / "a.trees").write_text("\n(S (NN one))\n\n(S (NN two))\n")
    assert len([*read_pairs(Tsv(tsv="a.tsv", sample=2), str(tmp_path))]) == 2
    with refuses("a.tsv has 2 pairs, but `sample` is 3: lower it."):
        [*read_pairs(Tsv(tsv="a.tsv", sample=3), str(tmp_path))]
    with refuses("a.trees has 2 trees, but `sample` is 3: lower it."):
        [*read_trees(Trees(trees="a.trees", sample=3), str(tmp_path))]
