"""Files as people have them: over thirty kinds, made by small functions, in several alphabets and encodings.

Each kind says what it is, which task it is for, and what `heedful init` must be told because no file can tell it.
"""

import gzip
import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.shared.people_rows import (
    BAD,
    CHINESE,
    COLOURS,
    GERMAN,
    GOOD,
    ROWS,
    RUSSIAN,
    THINGS,
    draw,
    drawn,
    json_lines,
    opinions,
    stars,
    table,
    translations,
    written,
)  # fmt: skip


@dataclass(frozen=True)
class PeopleFile:
    """A kind of file: how it is made, what it is, and the task that it is for."""

    name: str
    make: Callable[[Path], list[str]]  # writes into a folder, and returns what to give to `heedful init`
    container: str  # of the first file
    task: str
    options: tuple[str, ...] = ()  # of `heedful init`
    rows: int = ROWS  # in the file that `--data` is tried with, which is the first one

    def __str__(self) -> str:
        return self.name


# --- tables -----------------------------------------------------------------------------------------------------------


def comma(folder: Path) -> list[str]:
    return written(folder, "reviews.csv", table([("text", "label"), *opinions()]))


def semicolon(folder: Path) -> list[str]:
    rows = [(text, str(number).replace(".", ","), f"0{1 + i % 9}.11.2026") for i, (text, number) in enumerate(stars())]
    return written(folder, "Bewertungen.csv", table([("Text", "Bewertung", "Datum"), *rows], ";", "\r\n"))


def bar(folder: Path) -> list[str]:
    rows = [(i, text, label) for i, (text, label) in enumerate(opinions(), start=1)]
    return written(folder, "with bar.txt", table([("id", "comment", "sentiment"), *rows], "|"))


def quoted_tabs(folder: Path) -> list[str]:
    rows = [(f'{text} "quoted"', label) for text, label in opinions()]
    return written(folder, "tabs.csv", table([("text", "label"), *rows], "\t"))


def headless(folder: Path) -> list[str]:
    return written(folder, "headless.csv", table((label, text) for text, label in opinions()))


def utf16(folder: Path) -> list[str]:
    things = ([*CHINESE.values()] * 8)[:ROWS]
    rows = [
        (f"{thing}{'很好' if i % 2 else '太差'}，第{i}次", "好评" if i % 2 else "差评")
        for i, thing in enumerate(things)
    ]
    return written(folder, "导出.txt", "\ufeff" + table([("评论", "标签"), *rows], "\t", "\r\n"), "utf-16-le")


def windows(folder: Path) -> list[str]:
    rows = [(f"Das Café – «{text}» – kostete 5 €", label) for text, label in opinions()]
    return written(folder, "meinungen.csv", table([("Kommentar", "Klasse"), *rows], ";", "\r\n"), "cp1252")


def excel(folder: Path) -> list[str]:
    rows = [(i, text.replace(", ", ",\n"), label, "") for i, (text, label) in enumerate(opinions(), start=1)]
    text = "\ufeff" + table([("No", "Review text", "Sentiment", "Remarks"), *rows], ",", "\r\n")
    return written(folder, "My Excel export.csv", text)


def headless_tsv(folder: Path) -> list[str]:
    lines = "".join(f"{label}\t{text}\n" for text, label in opinions())
    path = folder / "reviews.tsv.gz"
    path.write_bytes(gzip.compress(lines.encode()))
    return [str(path)]


def pairs_tsv(folder: Path) -> list[str]:
    lines = [f"{english}\t{german}\n" for english, german in [("English", "Deutsch"), *translations(GERMAN)]]
    return written(folder, "pairs.tsv", "".join(lines))


def labelled_pairs(folder: Path) -> list[str]:
    texts = opinions()
    rows = [
        (first, second, "entails" if one == other else "contradicts")
        for (first, one), (second, other) in zip(texts, opinions(seed=9)[1:] + opinions(seed=9)[:1], strict=True)
    ]
    rows = [(first, second, "entails" if i % 3 else label) for i, (first, second, label) in enumerate(rows)]
    return written(folder, "nli.csv", table([("premise", "hypothesis", "gold_label"), *rows]))


def jsonl(folder: Path) -> list[str]:
    return json_lines(folder, "reviews.jsonl", [{"id": f"r{i}", "review": text, "label": label == "positive"}
                                                for i, (text, label) in enumerate(opinions())])  # fmt: skip


def nested(folder: Path) -> list[str]:
    return json_lines(folder, "nested.jsonl", [{"meta": {"id": i, "lang": "en"}, "review": {"text": t, "verdict": v}}
                                               for i, (t, v) in enumerate(opinions())])  # fmt: skip


def array(folder: Path) -> list[str]:
    rows = [{"text": text, "stars": number} for text, number in stars()]
    return written(folder, "ratings.json", json.dumps(rows, indent=2, ensure_ascii=False))


def three_parts(folder: Path) -> list[str]:
    parts = {"train": opinions(), "dev": opinions(12, seed=5), "test": opinions(14, seed=6)}
    return [
        name
        for part, rows in parts.items()
        for name in json_lines(folder, f"sst.{part}.jsonl", [{"sentence": t, "label": v} for t, v in rows])
    ]


def token_lists(folder: Path) -> list[str]:
    rows = [{"tokens": words, "ner_tags": tags} for words, tags in _tagged()]
    return json_lines(folder, "ner.jsonl", rows)


# --- words and trees --------------------------------------------------------------------------------------------------


def _tagged(count: int = ROWS) -> list[tuple[list[str], list[str]]]:
    chance = random.Random(4)
    people, places = ("Anna", "Боб", "Zoë", "李雷"), ("Paris", "Köln", "Осло", "東京")
    found = []
    for number in range(count):
        words = [chance.choice(people), "went", "to", chance.choice(places), "on", "day", str(number), "."]
        found.append((words, ["B-PER", "O", "O", "B-LOC", "O", "O", "O", "O"]))
    return found


def conll(folder: Path) -> list[str]:
    pos = ("NNP", "VBD", "TO", "NNP", "IN", "NN", "CD", ".")
    lines = ["-DOCSTART- -X- -X- O", ""]
    for words, tags in _tagged():
        lines += [f"{word} {p} I-NP {tag}" for word, p, tag in zip(words, pos, tags, strict=True)] + [""]
    return written(folder, "eng.train", "\n".join(lines) + "\n")


def conllu(folder: Path) -> list[str]:
    pos, lines = ("PROPN", "VERB", "ADP", "PROPN", "ADP", "NOUN", "NUM", "PUNCT"), list[str]()
    for number, (words, _) in enumerate(_tagged()):
        lines += [f"# sent_id = {number}", f"# text = {' '.join(words)}"]
        lines += [f"{i}\t{w}\t{w.lower()}\t{p}\t_\t_\t{max(0, i - 1)}\tdep\t_\t_"
                  for i, (w, p) in enumerate(zip(words, pos, strict=True), start=1)] + [""]  # fmt: skip
    return written(folder, "en_ewt-ud-train.conllu", "\n".join(lines) + "\n")


def _sentences(count: int = ROWS) -> list[tuple[str, str, str]]:
    chance = random.Random(5)
    nouns = ("dog", "boat", "farmer", "Häuschen", "река")
    return [
        (chance.choice(nouns), chance.choice(("sees", "likes")), f"{chance.choice(nouns)}{i}") for i in range(count)
    ]


def mrg(folder: Path) -> list[str]:
    trees = [
        f"\n( (S \n    (NP-SBJ (DT The) (NN {one}) )\n    (VP (VBZ {verb}) \n      (NP (DT a) (NN {two}) )\n"
        f"      (NP (-NONE- *T*-1) ))\n    (. .) ))\n"
        for one, verb, two in _sentences()
    ]
    return written(folder, "wsj_0001.mrg", "".join(trees))


def rooted(folder: Path) -> list[str]:
    trees = [f"(ROOT\n  (S\n    (NP (NN {one}))\n    (VP (VBZ {verb})\n      (NP (NN {two})))))\n"
             for one, verb, two in _sentences()]  # fmt: skip
    return written(folder, "parsed by corenlp.txt", "".join(trees))


def one_line_trees(folder: Path) -> list[str]:
    trees = [f"(TOP (S (NP (NN {one})) (VP (VBZ {verb}) (NP (NN {two})))))\n" for one, verb, two in _sentences()]
    return written(folder, "train.trees", "".join(trees))


# --- pairs ------------------------------------------------------------------------------------------------------------


def aligned(folder: Path) -> list[str]:
    pairs = translations(GERMAN)
    return [*written(folder, "train.en", "".join(f"{one}\n" for one, _ in pairs)),
            *written(folder, "train.de", "".join(f"{other}\n" for _, other in pairs))]  # fmt: skip


def moses(folder: Path) -> list[str]:
    found = []
    for part, count in (("News-Commentary", ROWS), ("dev", 12), ("newstest2020", 14)):
        pairs = translations(RUSSIAN, count, seed=count)
        for language, side in (("en", 0), ("ru", 1)):
            found += written(folder, f"{part}.en-ru.{language}", "".join(f"{pair[side]}\n" for pair in pairs))
    return found


def tmx(folder: Path) -> list[str]:
    units = "".join(
        f'  <tu><tuv xml:lang="en"><seg>{one} &amp; so on</seg></tuv><tuv xml:lang="de"><seg>{other}</seg></tuv></tu>\n'
        for one, other in translations(GERMAN)
    )
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n  <header srclang="en" datatype="plaintext"/>\n'
    )
    return written(folder, "memory.tmx", f"{head}  <body>\n{units}  </body>\n</tmx>\n")


def xliff(folder: Path) -> list[str]:
    units = "".join(
        f'   <trans-unit id="{i}"><source>{one}</source><target>{other}</target></trans-unit>\n'
        for i, (one, other) in enumerate(translations(RUSSIAN))
    )
    head = '<?xml version="1.0"?>\n<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n'
    file = '  <file original="a" source-language="en" target-language="ru" datatype="plaintext"><body>\n'
    return written(folder, "project.xlf", f"{head}{file}{units}  </body></file>\n</xliff>\n")


# --- questions --------------------------------------------------------------------------------------------------------


def _questions(count: int = ROWS) -> list[tuple[str, str, str]]:
    chance = random.Random(7)
    found = []
    for number in range(count):
        thing, place = chance.choice(THINGS), chance.choice(("Paris", "Köln", "Oslo", "Rome"))
        text = f"Report {number}: the {thing} was found in {place} by the police, and nobody knew why."
        found.append((f"Where was the {thing} found?", text, place))
    return found


def _squad(folder: Path, name: str, version: str) -> list[str]:
    paragraphs = []
    for number, (question, text, answer) in enumerate(_questions()):
        entry: dict[str, Any] = {"id": f"q{number}", "question": question}
        entry["answers"] = [{"text": answer, "answer_start": text.index(answer)}]
        if version != "1.1":
            entry["is_impossible"] = number % 4 == 3
            entry["answers"] = [] if entry["is_impossible"] else entry["answers"]
        paragraphs.append({"context": text, "qas": [entry]})
    return written(folder, name, json.dumps({"version": version, "data": [{"title": "x", "paragraphs": paragraphs}]}))


def squad(folder: Path) -> list[str]:
    return _squad(folder, "train-v1.1.json", "1.1")


def squad2(folder: Path) -> list[str]:
    return _squad(folder, "train-v2.0.json", "v2.0")


def squad_rows(folder: Path) -> list[str]:
    return json_lines(folder, "squad_hf.jsonl", [
        {"id": str(i), "title": "x", "context": text, "question": question,
         "answers": {"text": [answer], "answer_start": [text.index(answer)]}}
        for i, (question, text, answer) in enumerate(_questions())
    ])  # fmt: skip


# --- images -----------------------------------------------------------------------------------------------------------


def image_folder(folder: Path) -> list[str]:
    for number in range(ROWS):
        colour = [*COLOURS][number % 3]
        draw(folder / "flowers" / colour / f"{number}.jpg", colour, 0.8, number)
    return [str(folder / "flowers")]


def image_labels(folder: Path) -> list[str]:
    return written(folder, "labels.csv", table([("filename", "species"), *((n, c) for n, c, _ in drawn(folder))]))


def image_numbers(folder: Path) -> list[str]:
    rows = [(name, number) for name, _, number in drawn(folder)]
    return written(folder, "brightness.tsv", table([("image", "brightness"), *rows], "\t"))


def captions(folder: Path) -> list[str]:
    rows = [
        {"file_name": name, "text": f"a {colour} field number {i}"} for i, (name, colour, _) in enumerate(drawn(folder))
    ]
    return json_lines(folder, "metadata.jsonl", rows)


def image_questions(folder: Path) -> list[str]:
    rows = [
        (name, "what colour is it?", colour) if i % 2 else (name, "is it red?", "yes" if colour == "red" else "no")
        for i, (name, colour, _) in enumerate(drawn(folder))
    ]
    return written(folder, "vqa.csv", table([("image_path", "question", "answer"), *rows]))


def idx(folder: Path) -> list[str]:
    pixels = np.random.default_rng(0).integers(0, 255, (ROWS, 8, 8), np.uint8)
    labels = np.arange(ROWS, dtype=np.uint8) % 3
    images_path, labels_path = folder / "train-images-idx3-ubyte.gz", folder / "train-labels-idx1-ubyte.gz"
    images_path.write_bytes(gzip.compress(struct.pack(">4B3I", 0, 0, 8, 3, ROWS, 8, 8) + pixels.tobytes()))
    labels_path.write_bytes(gzip.compress(struct.pack(">4BI", 0, 0, 8, 1, ROWS) + labels.tobytes()))
    return [str(images_path), str(labels_path)]


def npz(folder: Path) -> list[str]:
    pixels = np.random.default_rng(0).integers(0, 255, (ROWS, 8, 8), np.uint8)
    np.savez(folder / "digits.npz", x_train=pixels, y_train=np.arange(ROWS) % 3)
    return [str(folder / "digits.npz")]


# --- running text -----------------------------------------------------------------------------------------------------


def novel(folder: Path) -> list[str]:
    chance = random.Random(8)
    lines = ["THE LONG VOYAGE", "", "CHAPTER I", ""]
    for _ in range(60):
        for _ in range(chance.randint(2, 5)):
            text, _ = chance.choice(opinions())
            lines.append(f"{text} He said that {chance.choice(THINGS)} and {chance.choice(THINGS)} were")
        lines.append("")
    return written(folder, "novel.txt", "\r\n".join(lines))


def wikitext(folder: Path) -> list[str]:
    lines = []
    for number in range(20):
        lines += ["", f" = Article {number} = ", "", f" The {THINGS[number % 8]} is a <unk> of year {number} . ", ""]
        lines += [" = = History = = ", "", f" It was {GOOD[number % 4]} and then {BAD[number % 4]} . ", ""]
    return written(folder, "wiki.train.tokens", "\n".join(lines) + "\n")


PEOPLE_FILES = (
    PeopleFile("commas", comma, "csv", "classify"),
    PeopleFile("semicolons and decimal commas", semicolon, "csv", "regress"),
    PeopleFile("bars in a .txt", bar, "csv", "classify"),
    PeopleFile("tabs with quotes", quoted_tabs, "csv", "classify"),
    PeopleFile("no header", headless, "csv", "classify"),
    PeopleFile("Unicode text of Excel, UTF-16, Chinese", utf16, "tsv", "classify"),
    PeopleFile("Windows-1252", windows, "csv", "classify"),
    PeopleFile("line breaks in cells", excel, "csv", "classify"),
    PeopleFile("packed TSV without header", headless_tsv, "tsv", "classify"),
    PeopleFile("TSV of pairs", pairs_tsv, "tsv", "translate"),
    PeopleFile("labelled pairs", labelled_pairs, "csv", "classify"),
    PeopleFile("JSON lines", jsonl, "jsonl", "classify"),
    PeopleFile("nested fields", nested, "jsonl", "classify"),
    PeopleFile("JSON array", array, "json", "regress"),
    PeopleFile("three parts", three_parts, "jsonl", "classify"),
    PeopleFile("lists of tokens", token_lists, "jsonl", "tag"),
    PeopleFile("CoNLL-2003", conll, "conll", "tag"),
    PeopleFile("CoNLL-U", conllu, "conllu", "tag"),
    PeopleFile("Penn Treebank", mrg, "trees", "parse"),
    PeopleFile("trees with a root", rooted, "trees", "parse"),
    PeopleFile("trees on one line", one_line_trees, "trees", "parse"),
    PeopleFile("two aligned files", aligned, "text", "translate"),
    PeopleFile("Moses names", moses, "text", "translate"),
    PeopleFile("TMX", tmx, "tmx", "translate"),
    PeopleFile("XLIFF", xliff, "xliff", "translate"),
    PeopleFile("SQuAD 1.1", squad, "squad", "answer"),
    PeopleFile("SQuAD 2.0", squad2, "squad", "answer"),
    PeopleFile("rows of SQuAD", squad_rows, "squad_rows", "answer"),
    PeopleFile("folder of class folders", image_folder, "image_folder", "classify_images"),
    PeopleFile("images with labels", image_labels, "csv", "classify_images"),
    PeopleFile("images with numbers", image_numbers, "tsv", "regress_images"),
    PeopleFile("images with captions", captions, "jsonl", "caption"),
    PeopleFile("questions about images", image_questions, "csv", "answer_images"),
    PeopleFile("idx", idx, "idx", "classify_images"),
    PeopleFile("npz", npz, "npz", "classify_images"),
    PeopleFile("novel", novel, "text", "generate", rows=0),
    PeopleFile("novel for BERT", novel, "text", "fill", ("--task", "fill"), rows=0),
    PeopleFile("WikiText", wikitext, "text", "generate", rows=0),
)
