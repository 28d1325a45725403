"""The doctor says nothing of sound corpora, also of odd ones: short, repetitive, unbalanced, or in two scripts."""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.shared.sound_corpora import CLASSES, CORPORA, Lines, distinct_pairs, recipe_of, write

from heedful.config.reading.load import load_recipe
from heedful.config.reading.shipped_recipes import shipped_recipes
from heedful.config.recipe import Recipe
from heedful.doctor.at_start import warnings_at_start
from heedful.doctor.corpora.data import check_data
from heedful.doctor.examination import examine
from heedful.doctor.findings import Finding
from heedful.doctor.schedule import find_schedule_problems

Sound = Callable[[], tuple[Lines, Mapping[str, Any]]]  # files, and changes of the recipe's tables
PARTS = {"train": 400, "valid": 60, "test": 60}
KANA = "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわをん"


def findings(recipe: Recipe) -> list[Finding]:
    checked = check_data(recipe, lambda message: None)
    return [*checked.findings, *find_schedule_problems(recipe)]


# --- translation ----------------------------------------------------------------------------------------------------


def short_lines() -> tuple[Lines, Mapping[str, Any]]:
    """Subtitles: short replies are in every part, and often the same."""
    files, replies = (
        CORPORA["translate"](),
        [("Yes.", "Sí."), ("No.", "No."), ("Thank you.", "Gracias."), ("1984", "1984")],
    )
    for part in PARTS:
        for n, (english, spanish) in enumerate(replies):
            files[f"{part}.en"].insert(7 * n, english)
            files[f"{part}.es"].insert(7 * n, spanish)
    return files, {}


def templates() -> tuple[Lines, Mapping[str, Any]]:
    """Sentences that differ in their numbers only, in ascending order."""
    files: Lines = {}
    first = 0
    for part, count in PARTS.items():
        numbers = range(first, first + count)
        files[f"{part}.en"] = [f"Room {n} on floor {n // 7} costs {30 + n % 13} euros." for n in numbers]
        files[f"{part}.es"] = [f"La habitación {n} del piso {n // 7} cuesta {30 + n % 13} euros." for n in numbers]
        first += count
    return files, {}


def two_scripts() -> tuple[Lines, Mapping[str, Any]]:
    """A target that is written without spaces: every English word is two characters."""
    files = CORPORA["translate"]()
    for part in PARTS:
        files[f"{part}.es"] = [
            "".join(
                word if word.isdigit() else KANA[len(word) % 7 + 5 * (ord(word[0]) % 8)] + KANA[ord(word[-1]) % 40]
                for word in line.split()
            )
            for line in files[f"{part}.en"]
        ]
    return files, {}


def dictionary() -> tuple[Lines, Mapping[str, Any]]:
    """Words with their translations, among them words that are also names of columns."""
    chance = random.Random(2)
    words = [("source", "fuente"), ("text", "texto"), ("label", "etiqueta")]
    words += [
        ("".join(chance.choices("abcdeilmnorst", k=8)), "".join(chance.choices("abcdeilmnorst", k=9)))
        for _ in range(517)
    ]
    files, first = Lines(), 0
    for part, count in PARTS.items():
        files[f"{part}.en"], files[f"{part}.es"] = map(list, zip(*words[first : first + count], strict=True))
        first += count
    return files, {}


def same_length() -> tuple[Lines, Mapping[str, Any]]:
    """Digits and their names: all lines of a corpus are equally long, and neighbours resemble each other."""
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    files, first = Lines(), 100
    for part, count in PARTS.items():
        numbers = [str(n) for n in range(first, first + count)]
        files[f"{part}.en"] = [" ".join("abcdefghij"[int(digit)] for digit in number) for number in numbers]
        files[f"{part}.es"] = [" ".join(names[int(digit)] for digit in number) for number in numbers]
        first += count
    return files, {}


# --- classification -------------------------------------------------------------------------------------------------


def labelled(label: Callable[[int, random.Random], str]) -> Lines:
    chance = random.Random(5)
    return {
        f"{part}.tsv": [f"{text}\t{label(n, chance)}" for n, (text, _) in enumerate(distinct_pairs(part, count))]
        for part, count in PARTS.items()
    }


def unbalanced() -> tuple[Lines, Mapping[str, Any]]:
    """Nine of ten texts are of one class."""
    return labelled(lambda n, chance: "spam" if n % 10 == 3 else "ham"), {}


def signed() -> tuple[Lines, Mapping[str, Any]]:
    """Labels that differ in their sign."""
    return labelled(lambda n, chance: chance.choice(["1", "-1", "0"])), {}


def names_of_columns() -> tuple[Lines, Mapping[str, Any]]:
    """Classes that are called like columns."""
    return labelled(lambda n, chance: chance.choice(["text", "title", "label"])), {}


def text_pairs() -> tuple[Lines, Mapping[str, Any]]:
    """Premises and hypotheses in JSON: one premise has three hypotheses."""
    files: Lines = {}
    for part, count in PARTS.items():
        texts = [english for english, _ in distinct_pairs(part, count)]
        rows = [{"a": texts[n // 3], "b": texts[-1 - n], "gold": n % 3} for n in range(count // 2)]
        files[f"{part}.jsonl"] = [json.dumps(row) for row in rows]
    columns = {"text": "a", "second": "b", "label": "gold"}
    return files, {"data": {part: [{"jsonl": f"{part}.jsonl", **columns}] for part in PARTS}}


def several_labels() -> tuple[Lines, Mapping[str, Any]]:
    """Texts with none, one or all of three labels."""
    files = labelled(lambda n, chance: ", ".join(chance.sample(CLASSES, n % 4)) if n % 4 else "")
    return files, {"model": {"labels": "several"}}


# --- running text ---------------------------------------------------------------------------------------------------


def one_long_document() -> tuple[Lines, Mapping[str, Any]]:
    """A book: no blank lines, and no next-sentence prediction."""
    files = CORPORA["fill"]()
    return {name: [line for line in lines if line] for name, lines in files.items()}, {
        "model": {"next_sentence": False}
    }


def headings() -> tuple[Lines, Mapping[str, Any]]:
    """Articles whose sections have the same titles, one paragraph per line."""
    files: Lines = {}
    for part, count in PARTS.items():
        texts = [english for english, _ in distinct_pairs(part, count)]
        lines = []
        for n in range(0, count, 10):
            lines += [
                f" = The year {1900 + n} = ",
                "",
                " ".join(texts[n : n + 5]),
                " = = References and further reading = = ",
            ]
            lines += [" ".join(texts[n + 5 : n + 10])]
        files[f"{part}.txt"] = lines
    return files, {"data": {part: [{"text": f"{part}.txt", "documents": "heading"}] for part in PARTS}}


def paragraphs() -> tuple[Lines, Mapping[str, Any]]:
    """A document per line, far longer than an input."""
    files: Lines = {}
    for part, count in PARTS.items():
        texts = [english for english, _ in distinct_pairs(part, count)]
        files[f"{part}.txt"] = [" ".join(texts[n : n + 20]) for n in range(0, count, 20)]
    return files, {"data": {part: [{"text": f"{part}.txt", "documents": "line"}] for part in PARTS}}


def verse() -> tuple[Lines, Mapping[str, Any]]:
    """Short lines without punctuation at their ends."""
    files = CORPORA["fill"]()
    return {name: [line.rstrip(".?!").lower() for line in lines] for name, lines in files.items()}, {}


def play() -> tuple[Lines, Mapping[str, Any]]:
    """A play: names of speakers and short lines recur all the time, and lines end in the middle of sentences."""
    files: Lines = {}
    for part, count in PARTS.items():
        words = " ".join(english for english, _ in distinct_pairs(part, count)).split()
        lines = []
        for n in range(0, len(words), 24):
            speech = [" ".join(words[start : start + 8]) for start in range(n, min(n + 24, len(words)), 8)]
            lines += ["", ("KING:", "QUEEN:", "FOOL:")[n % 5 % 3], "Ay, my lord.", *speech]
        files[f"{part}.txt"] = lines
    data = {part: [{"text": f"{part}.txt", "documents": "file"}] for part in PARTS}
    return files, {"data": {**data, "borders": "open"}, "tokenizer": {"kind": "char"}}


def long_texts() -> tuple[Lines, Mapping[str, Any]]:
    """Books in JSON, each far longer than a window."""
    files: Lines = {}
    for part, count in PARTS.items():
        texts = [english for english, _ in distinct_pairs(part, count)]
        files[f"{part}.jsonl"] = [json.dumps({"body": "\n".join([text, *texts] * 3)}) for text in texts[:2]]
    return files, {"data": {part: [{"jsonl": f"{part}.jsonl", "text": "body"}] for part in PARTS}}


SOUND: Mapping[str, tuple[str, Sound]] = {
    "translations": ("translate", lambda: (CORPORA["translate"](), {})),
    "short lines": ("translate", short_lines),
    "templates": ("translate", templates),
    "two scripts": ("translate", two_scripts),
    "a dictionary": ("translate", dictionary),
    "lines of one length": ("translate", same_length),
    "balanced classes": ("classify", lambda: (CORPORA["classify"](), {})),
    "90 to 10": ("classify", unbalanced),
    "signed labels": ("classify", signed),
    "classes called like columns": ("classify", names_of_columns),
    "pairs of texts": ("classify", text_pairs),
    "several labels": ("classify", several_labels),
    "documents of three sentences": ("fill", lambda: (CORPORA["fill"](), {})),
    "a book": ("fill", one_long_document),
    "articles with headings": ("fill", headings),
    "a document per line": ("fill", paragraphs),
    "verse": ("fill", verse),
    "documents": ("generate", lambda: (CORPORA["generate"](), {})),
    "a play": ("generate", play),
    "long texts": ("generate", long_texts),
    "paragraphs on lines": ("generate", paragraphs),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_corpus_has_no_findings(name: str, tmp_path: Path) -> None:
    task, sound = SOUND[name]
    files, tables = sound()
    write(tmp_path, files)
    recipe = recipe_of(task, tmp_path, **tables)
    assert [f"{finding.severity} {finding.kind}: {finding.what}" for finding in findings(recipe)] == []
    assert [line for line in warnings_at_start(recipe, "my.toml") if not line.startswith("note: ")] == []


@pytest.mark.parametrize("task", CORPORA)
def test_the_whole_report_of_a_sound_corpus_has_no_findings(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    write(tmp_path, CORPORA[task]())
    report = examine(recipe_of(task, tmp_path))
    assert [finding.what for finding in report.findings if finding.kind != "start"] == []
    assert report.memory.activations
    assert sum(report.run.tokens_per_epoch.values()) > 1000
    assert [corpus.part for corpus in report.corpora] == ["train", "valid", "test"]


@pytest.mark.parametrize("name", shipped_recipes())
def test_shipped_recipes_have_schedules_that_fit_their_runs(name: str) -> None:
    assert [finding.what for finding in find_schedule_problems(load_recipe(name))] == []
