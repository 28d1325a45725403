"""The proposal of a recipe for files: what they are, the task that they are for, corpora, splits and reasons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from heedful.base.errors import UserError, suggestion
from heedful.config.corpora.roles import ROLES, role_noun
from heedful.config.task_rules import TaskRules
from heedful.config.tasks import TASKS
from heedful.data.corpora.formats.column_kinds import Column
from heedful.data.corpora.formats.detection import Detected, detect
from heedful.data.corpora.formats.lines import check_exists, locate
from heedful.first_recipe.choices import Answer, Ask, ask_for
from heedful.first_recipe.corpora import (
    Corpora,
    aligned,
    of_arrays,
    of_files,
    of_folder,
    of_idx,
    of_pairs,
    of_running_text,
    of_tables,
    of_trees,
)
from heedful.first_recipe.names import split_of, stem_of
from heedful.first_recipe.roles import Candidate, candidates

_SHOWN: Final = 6  # candidates or columns in a message
_MORE: Final = 1 << 26  # bytes of a table that are read where its first rows have one value in a column
_NAMES: Final = {",": "commas", ";": "semicolons", "|": "bars", "\t": "tabs"}


@dataclass(frozen=True)
class Wishes:
    """What the user said besides the files."""

    task: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)  # column by role, a name or a number
    separator: str | None = None
    header: bool | None = None


@dataclass(frozen=True)
class Proposal:
    """A recipe in parts, with the reasons for them."""

    task: TaskRules
    why: str  # the reason for the task
    files: tuple[Detected, ...]
    corpora: Corpora
    keys: Mapping[str, Any]  # other keys of the recipe, by dotted key
    unused: tuple[Column, ...] = ()  # columns without a role

    @property
    def stem(self) -> str:
        """A name for recipe and run."""
        return stem_of(self.files[0].path) or self.corpora.sides or self.task.name.replace("_", "-")


def propose(paths: Sequence[str], wishes: Wishes, ask: Ask) -> Proposal:
    """Look at files and propose a recipe; `ask` is called for what they do not tell."""
    if wishes.task is not None and wishes.task not in TASKS:
        raise UserError(f"--task {wishes.task}: there is no such task.{suggestion(wishes.task, list(TASKS))}")
    files = [_clear(file, wishes, ask) for path in paths for file in _look(path, wishes)]
    containers = {_group_of(file) for file in files}
    if len(containers) > 1:
        one, other = (next(file for file in files if _group_of(file) == group) for group in sorted(containers)[:2])
        raise UserError(
            f"{one.path} is {one.words}, but {other.path} is {other.words}: give the files of one corpus, which may be "
            "split into training, validation and test files."
        )
    group = containers.pop()
    if group in ("table", "questions"):
        return _of_tables(files, wishes, ask)
    if wishes.columns and group not in ("conll", "conllu"):
        raise UserError(f"--column: {files[0].path} is {files[0].words}, which has no columns: leave it out.")
    if group == "text":
        return _of_texts(files, wishes)
    return _of_others(group, files, wishes)


# --- looking at files -------------------------------------------------------------------------------------------------


def _look(path: str, wishes: Wishes) -> list[Detected]:
    """Return what a file is, or the files of a folder."""
    file = locate(path)
    if not file.path.is_dir():
        check_exists(replace(file, hint=""))  # there is no recipe yet that could name a folder
    found = _detect(path, wishes.separator, wishes.header)
    match found.container:
        case "empty":
            raise UserError(f"{path} is empty: give a file with data.")
        case "csv" | "tsv" if found.header and not found.rows:
            raise UserError(f"{path} has the names of columns, but no rows: give a file with data.")
        case "image":
            raise UserError(
                f"{path} is an image: give the folder of all images, with one folder for each class in it, or a table "
                "(CSV, TSV or JSON lines) with the path of each image and what is to be learned about it."
            )
        case "folder":
            names: list[str] = found.facts["files"]  # type: ignore[assignment]
            inside = [found for name in sorted(names) for found in _inside(str(Path(path) / name), wishes)]
            tables = [file for file in inside if file.is_table]
            if found.rows:
                inside = [file for file in tables if any(column.kind == "image" for column in file.columns)]
            if not inside:
                has = found.words.removeprefix("a folder with ")
                raise UserError(
                    f"{path} has {has}, but nothing that says what is to be learned about them: put images into one "
                    "folder for each class, or add a table (CSV, TSV or JSON lines) with their paths."
                )
            return inside
        case _:
            return [found]


def _detect(path: str, separator: str | None, header: bool | None) -> Detected:
    """Return what a file is; more is read of a table whose first rows have one value in a column, as sorted ones do."""
    found = detect(path, separator=separator, header=header)
    if found.is_table and found.more and any(column.distinct == 1 for column in found.columns):
        return detect(path, separator=separator, header=header, size=_MORE)
    return found


def _inside(path: str, wishes: Wishes) -> list[Detected]:
    """Return what a file in a folder is; one that is not data, such as a README or a licence, is not."""
    name = Path(path).name.casefold()
    if name.startswith(("readme", "license", "licence", "copying")) or name.endswith((".md", ".py", ".toml", ".html")):
        return []
    try:
        found = _detect(path, wishes.separator, wishes.header)
    except UserError:
        return []
    return [found] if found.container not in ("empty", "folder", "image") else []


def _clear(file: Detected, wishes: Wishes, ask: Ask) -> Detected:
    """Return a file whose separator and header are known: those in doubt are asked for."""
    options: list[str] = file.facts.get("separators", [])  # type: ignore[assignment]
    if wishes.separator is None and len(options) > 1:
        answers = [Answer(f"columns are separated by {_NAMES[each]}", f"--separator '{each}'") for each in options]
        chosen = options[ask_for(ask, file.path, "the separator of its columns is not clear.", answers)]
        file = _detect(file.path, chosen, wishes.header)
    if file.container in ("csv", "tsv") and file.header is None:
        first: list[str] = file.facts["first"]  # type: ignore[assignment]
        shown = ", ".join(f"`{cell[:40]}`" for cell in first[:_SHOWN])
        answers = [
            Answer("the first line has the names of columns", "--header"),
            Answer("the first line is data", "--no-header"),
        ]
        chosen_header = ask_for(ask, file.path, f"is its first line, {shown}, the names of columns?", answers) == 0
        file = _detect(file.path, file.separator, chosen_header)
    return file


def _group_of(file: Detected) -> str:
    """Return what files of one corpus have in common."""
    if file.container == "squad_rows":
        return "questions"
    return "table" if file.is_table else file.container


# --- tables -----------------------------------------------------------------------------------------------------------


def _of_tables(files: Sequence[Detected], wishes: Wishes, ask: Ask) -> Proposal:
    file = next((file for file in files if split_of(file.path) in (None, "train")), files[0])
    given = {role: _column(file, role, name) for role, name in wishes.columns.items()}
    if file.container == "squad_rows":
        by_name = {str(column.place): column for column in file.columns}
        given = {"question": by_name["question"], "text": by_name["context"], "answer": by_name["answers.text"]} | given
    found = candidates(file.columns, given, wishes.task)
    if not found:
        raise UserError(_no_task(file, wishes))
    answers = [_answer(each, found) for each in found[:_SHOWN]]
    chosen = found[ask_for(ask, file.path, "several things can be learned from it.", answers)]
    _refuse_other_columns(files, chosen)
    for column in chosen.roles.values():
        if column.missing:
            raise UserError(
                f"{file.path}: column `{column.place}` has {column.evidence}: paths are relative to the folder of the "
                "table. Move the table, or correct the paths."
            )
    keys: dict[str, Any] = {"model.labels": "several"} if chosen.several else {}
    if "answer" in chosen.roles and "text" in chosen.roles and chosen.roles["answer"].filled < file.rows:
        keys["model.no_answer"] = True
    unused = tuple(column for column in file.columns if column not in chosen.roles.values())
    return Proposal(chosen.task, _why(chosen), tuple(files), of_tables(files, chosen.roles), keys, unused)


def _refuse_other_columns(files: Sequence[Detected], chosen: Candidate) -> None:
    """Refuse a file that does not have the columns of another."""
    for file in files:
        for role, column in chosen.roles.items():
            if column.place not in [each.place for each in file.columns]:
                raise UserError(
                    f"{file.path} has no column `{column.place}`, which is the {role} in the other files: give files "
                    "with the same columns."
                )


def _column(file: Detected, role: str, name: str) -> Column:
    """Return the column that the user gave a role."""
    if role not in ROLES:
        raise UserError(f"--column {role}={name}: `{role}` is not a role of a column.{suggestion(role, list(ROLES))}")
    for number, column in enumerate(file.columns, start=1):
        if name in (str(column.place), str(number)):
            return column
    names = [str(column.place) for column in file.columns]
    raise UserError(f"--column {role}={name}: {file.path} has no such column.{suggestion(name, names)}")


def _answer(chosen: Candidate, others: Sequence[Candidate]) -> Answer:
    """Return a candidate in words, and the options that choose it."""
    options = []
    if any(other.task is not chosen.task for other in others):
        options.append(f"--task {chosen.task.name}")
    for role, column in chosen.roles.items():
        if any(other.roles.get(role, column) != column for other in others):
            name = str(column.place)
            options.append(f"--column {role}={name}" if name.isidentifier() else f"--column '{role}={name}'")
    return Answer(f"{chosen.task.learner}: {_why(chosen)}", " ".join(options) or f"--task {chosen.task.name}")


def _why(chosen: Candidate) -> str:
    """Return what is learned from which columns."""
    named = (
        (f"`{column.place}`" if isinstance(column.place, str) else column.name, role_noun(role))
        for role, column in chosen.roles.items()
    )
    return ", ".join(f"{name} is the {noun}" for name, noun in named)


def _no_task(file: Detected, wishes: Wishes) -> str:
    held = ", ".join(f"{column.name} ({column.kind})" for column in file.columns[:_SHOWN])
    if file.rows == 1:
        held += ", told from its only row"
    if wishes.task is not None:
        rules = TASKS[wishes.task]
        return (
            f"{file.path} has the columns {held}, which are not enough for --task {wishes.task}: {rules.needs}; name "
            f"columns with --column {rules.roles[0].needed[0]}=NAME."
        )
    return (
        f"{file.path} has the columns {held}, of which none is a text or an image that something can be learned from: "
        "name the columns with --column text=NAME and --column label=NAME, or --column source=NAME and --column "
        "target=NAME."
    )


# --- other files ------------------------------------------------------------------------------------------------------


def _task(name: str, wishes: Wishes, file: Detected) -> TaskRules:
    """Return the task of files that are for one only; refuse another."""
    if wishes.task not in (None, name):
        raise UserError(
            f"--task {wishes.task}: {file.path} is {file.words}, from which {TASKS[name].learner} learns (--task "
            f"{name}); {TASKS[wishes.task or name].needs}."
        )
    return TASKS[name]


def _of_texts(files: Sequence[Detected], wishes: Wishes) -> Proposal:
    """Propose a translator for files that are aligned by line, and a language model for running text."""
    labelled = next((file for file in files if file.facts["fasttext"]), None)
    if labelled:
        raise UserError(
            f"{labelled.path} has labels as fastText writes them (`__label__x text`): make a table of it with "
            f"`sed 's/^__label__\\([^ ]*\\) */\\1\\t/' {labelled.path} > {Path(labelled.path).stem}.tsv`."
        )
    pairs = aligned(files) if len(files) > 1 and wishes.task in (None, "translate") else None
    if pairs:
        return Proposal(TASKS["translate"], "two files are aligned by line", tuple(files), of_pairs(pairs), {})
    if wishes.task == "translate" or (wishes.task is None and len(files) == 2 and not any(map(_has_split, files))):
        first, second = files[0], files[-1]
        if len(files) == 2:
            return Proposal(TASKS["translate"], "two files", tuple(files), of_pairs([(first, second)]), {})
        raise UserError(
            f"{first.path} is {first.words}: a translator learns from pairs of files, or from a table with two columns "
            "of texts."
        )
    allowed = [name for name, rules in TASKS.items() if any(form.fit(["text"]) for form in rules.roles)]
    if wishes.task not in (None, *allowed):
        rules = TASKS[wishes.task or ""]
        raise UserError(f"--task {wishes.task}: {files[0].path} is {files[0].words}, but {rules.needs}.")
    rules = TASKS[wishes.task or next(name for name in allowed if TASKS[name].running)]
    return Proposal(rules, "running text", tuple(files), of_running_text(files, masked=not rules.running), {})


def _has_split(file: Detected) -> bool:
    return split_of(file.path) is not None


def _of_others(group: str, files: Sequence[Detected], wishes: Wishes) -> Proposal:
    """Propose what the container says: trees are for a parser, and so on."""
    first, keys = files[0], dict[str, Any]()
    match group:
        case "trees":
            task, why, corpora = "parse", "bracketed trees", of_trees(files)
        case "tmx" | "xliff":
            task, why, corpora = "translate", "a translation memory", of_files(files)
        case "squad":
            task, why, corpora = "answer", "questions about texts", of_files(files)
            if any(file.facts["version"] == "2.0" for file in files):
                keys["model.no_answer"] = True
        case "conll" | "conllu":
            task, why, corpora = "tag", "words with labels", of_files(files, _conll_columns(first, wishes))
        case "image_folder":
            task, why = _image_task("label"), "one folder of images for each class"
            corpora = of_folder(first) if len(files) == 1 else of_files(files)
        case "idx":
            task, why, corpora = _image_task("label"), "images with labels", of_idx(files)
        case _:
            arrays, role = of_arrays(first)
            task, why, corpora = _image_task(role), f"images with {role}s", arrays
    return Proposal(_task(task, wishes, first), why, tuple(files), corpora, keys)


def _image_task(role: str) -> str:
    """Return the task of images with a label or a number."""
    return next(name for name, rules in TASKS.items() if any(form.fit(["image", role]) for form in rules.roles))


def _conll_columns(file: Detected, wishes: Wishes) -> Mapping[str, Any]:
    """Return the columns of words and labels: the last column, and in CoNLL-U the first one that tells something."""
    places = [column.place for column in file.columns]
    if file.container == "conllu":
        told = [name for name in ("upos", "xpos", "deprel", "feats") if _told(file, name)]
        found: dict[str, int | str] = {"word": "form", "label": (told or ["upos"])[0]}
    else:
        found = {"word": places[int(str(file.facts["word"])) - 1], "label": places[-1]}
    for role, name in wishes.columns.items():
        if role not in found:
            raise UserError(f"--column {role}={name}: {file.path} has the roles `word` and `label`.")
        found[role] = _column(file, "label", name).place
    return {role: places.index(place) + 1 for role, place in found.items()}


def _told(file: Detected, name: str) -> bool:
    return any(column.place == name and column.distinct > 1 for column in file.columns)
