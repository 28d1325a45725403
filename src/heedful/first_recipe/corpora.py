"""Corpora of a recipe from files that were looked at: the table of each, and the reason for each of its keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from heedful.base.errors import UserError, counted
from heedful.data.corpora.formats.detection import Detected
from heedful.data.corpora.formats.lines import locate, read_lines
from heedful.defaults.running_text import FEW_DOCUMENTS
from heedful.first_recipe.names import Split, are_known, are_sides, in_order, sides_of, split_of
from heedful.first_recipe.roles import Roles

Corpus = dict[str, Any]  # its keys in a recipe
_PIXELS: Final = ("|u1", "u1", "uint8")
_PAGE: Final = 300  # characters: longer lines are documents


@dataclass
class Corpora:
    """The corpora of each split, keys that they ask for in other tables, and reasons for comments."""

    splits: dict[Split, list[Corpus]] = field(default_factory=dict)
    keys: dict[str, Any] = field(default_factory=dict)  # by dotted key
    reasons: dict[str, str] = field(default_factory=dict)  # by dotted key
    divided: str = "part"  # the key that divides a corpus: a part of its rows, or a range of its lines
    rows: int = 0  # of the first training corpus, as far as it was read
    more: bool = False
    sides: str = ""  # of pairs of files: "en-de"

    def add(self, path: str, corpus: Corpus) -> None:
        """Add a corpus to the split that its name says; without one, it is for training."""
        self.splits.setdefault(split_of(path) or "train", []).append(corpus)


def of_tables(files: Sequence[Detected], roles: Roles) -> Corpora:
    """Return the corpora of tables that have the same columns."""
    made = Corpora(rows=files[0].rows, more=files[0].more)
    for file in files:
        form = {"json": "jsonl", "squad_rows": "jsonl"}.get(file.container, file.container)
        corpus: Corpus = {form: file.path}
        if form == "csv":
            corpus["separator"] = file.separator
        corpus |= {role: column.place for role, column in roles.items()}
        if corpus.get("answer") == "answers.text":
            corpus["answer"] = "answers"  # the whole object: it also has the positions of the answers
        if form in ("csv", "tsv") and all(isinstance(column.place, int) for column in roles.values()):
            corpus["header"] = bool(file.header)
        made.add(file.path, corpus)
    return made


# --- plain text -------------------------------------------------------------------------------------------------------


def aligned(files: Sequence[Detected]) -> list[tuple[Detected, Detected]] | None:
    """Return pairs of files whose names differ in a language or a side; None where some file has no other.

    Files in more than two languages are refused: their names do not say which two of them a model translates.
    """
    left, found, odd = list(files), list[tuple[Detected, Detected]](), False
    while left:
        first = left.pop(0)
        named = [(sides_of(first.path, file.path) or ("", ""), file) for file in files if file is not first]
        known = [file for sides, file in named if are_known(*sides)]
        if len(known) > 1:
            listed = ", ".join(file.path for file in (first, *known[:2]))
            raise UserError(
                f"{listed}: which two of these are translations? Give the files of two languages, or add --task "
                "generate for a language model of all."
            )
        others = known or [file for sides, file in named if are_sides(*sides) and file in left]
        if others and others[0] in left:
            left.remove(others[0])
            by_path = {file.path: file for file in (first, others[0])}
            source, target = in_order(first.path, others[0].path)
            found.append((by_path[source], by_path[target]))
        else:
            odd = True
    return None if odd else found


def of_pairs(pairs: Sequence[tuple[Detected, Detected]]) -> Corpora:
    """Return the corpora of files that are aligned by line; files of different lengths are refused."""
    made = Corpora(rows=pairs[0][0].rows, more=pairs[0][0].more)
    for source, target in pairs:
        counts = [sum(1 for _ in read_lines(locate(file.path))) for file in (source, target)]
        if counts[0] != counts[1]:
            raise UserError(
                f"{source.path} has {counted(counts[0], 'line')} and {target.path} {counts[1]:,}, but line n of one "
                "must be the translation of line n of the other: correct the files."
            )
        made.add(source.path, {"source": source.path, "target": target.path})
    sides = sides_of(pairs[0][0].path, pairs[0][1].path) or ("", "")
    made.sides = "-".join(sides)
    made.reasons["data"] = (
        f"Line n of one file belongs to line n of the other. The model translates from {sides[0]} to {sides[1]}; "
        "for the other direction exchange `source` and `target` everywhere."
    )
    return made


def of_running_text(files: Sequence[Detected], masked: bool) -> Corpora:
    """Return the corpora of running text, for a language model, or for a masked one, which reads sentences."""
    first = files[0].facts
    made = Corpora(rows=files[0].rows, more=files[0].more)
    lines_are_texts = not first["blank"] and float(str(first["letters"])) > _PAGE
    if first["headings"]:
        documents, why = "heading", "a heading such as ` = Title = ` begins a document"
    elif lines_are_texts:
        documents, why = "line", "lines are long: each is a document"
    elif masked and first["blank"]:
        documents, why = "blank_line", "blank lines separate documents"
    else:
        documents, why = "file", "one long text"
    keys: Corpus = {"documents": documents}
    if masked and not first["blank"] and not lines_are_texts:
        keys["sentences"] = "line"
    made.rows = {"heading": first["headings"], "blank_line": first["paragraphs"]}.get(documents, made.rows)  # type: ignore[assignment]
    for file in files:
        made.add(file.path, {"text": file.path, **keys})
    made.reasons["data"] = f'documents = "{documents}": {why}.'
    few = made.rows < FEW_DOCUMENTS <= files[0].rows and not files[0].more
    if documents == "file" or few:
        made.divided = "lines"  # by position: so few documents cannot be divided evenly
    if documents == "file" and not masked:
        made.keys["data.borders"] = "open"
        made.reasons["data.borders"] = 'the text is read as one; "closed" would keep documents apart'
    return made


# --- other containers -------------------------------------------------------------------------------------------------


def of_files(files: Sequence[Detected], keys: Mapping[str, Any] | None = None) -> Corpora:
    """Return the corpora of files whose container says everything: trees, CoNLL, SQuAD, translation memories."""
    made = Corpora(rows=files[0].rows, more=files[0].more)
    form = {"conllu": "conll", "image_folder": "images"}.get(files[0].container, files[0].container)
    for file in files:
        made.add(file.path, {form: file.path, **(keys or {})})
    return made


def of_trees(files: Sequence[Detected]) -> Corpora:
    """Return the corpora of trees: where words have tags, a parser that writes them too is better with few trees."""
    if not all(file.facts["tagged"] for file in files):
        return of_files(files)
    made = of_files(files, {"leaves": "tag"})
    made.reasons["data"] = (
        'leaves = "tag": the parser also writes the part of speech of each word, which makes its brackets better. '
        'With "symbol" it writes brackets alone, and output is shorter.'
    )
    return made


def of_folder(file: Detected) -> Corpora:
    """Return the corpora of a folder with one folder of images per class, or with such a folder for each split."""
    made = of_files([file])
    classes: Mapping[str, int] = file.facts["classes"]  # type: ignore[assignment]
    splits = {name: split_of(name) for name in classes}
    if all(splits.values()):
        made.splits = {}
        for name in classes:
            made.add(name, {"images": f"{file.path.rstrip('/')}/{name}"})
    return made


def of_idx(files: Sequence[Detected]) -> Corpora:
    """Return the corpora of idx files: each file of images with the file of as many labels of its split."""
    images = [file for file in files if len(file.facts["shape"]) > 1]  # type: ignore[arg-type]
    labels = [file for file in files if file not in images]
    made = Corpora(rows=files[0].rows)
    for file in images:
        fitting = [other for other in labels if other.rows == file.rows and split_of(other.path) == split_of(file.path)]
        if not fitting:
            raise UserError(
                f"{file.path} has {counted(file.rows, 'image')}, but no file of as many labels is given with it: add "
                "its labels, such as train-labels-idx1-ubyte."
            )
        labels.remove(fitting[0])
        made.add(file.path, {"idx": file.path, "labels": fitting[0].path})
    if not images or labels:
        raise UserError(f"{(labels or files)[0].path} has labels, but no file of as many images is given with it.")
    return made


def of_arrays(file: Detected) -> tuple[Corpora, str]:
    """Return the corpora of arrays of NumPy, and the role of what images have: `label` or `number`."""
    arrays: Mapping[str, tuple[str, tuple[int, ...]]] = file.facts["arrays"]  # type: ignore[assignment]
    images = [name for name, (kind, shape) in arrays.items() if len(shape) in (3, 4) and kind in _PIXELS]
    made, role = Corpora(rows=file.rows), "label"
    for name in images:
        alike = [other for other, (_, shape) in arrays.items() if shape == arrays[name][1][:1]]
        of_split = [other for other in alike if split_of(other) == split_of(name)] or alike
        if not of_split:
            continue
        role = "number" if arrays[of_split[0]][0][1] == "f" else "label"
        made.add(name, {"npz": file.path, "image": name, role: of_split[0]})
    if not made.splits:
        shapes = ", ".join(f"`{name}` {kind.lstrip('<|>=')} {shape}" for name, (kind, shape) in arrays.items())
        raise UserError(
            f"{file.path} has the arrays {shapes}, but must have images of bytes (u1: images x height x width, or x 3) "
            "and an array with one label or number for each."
        )
    return made, role
