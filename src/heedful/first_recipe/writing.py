"""The text of a proposed recipe: keys with the reasons for them, and as comments what training chooses itself."""

import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from heedful.base.errors import counted
from heedful.config.reading.draft import draft_of, overrides_of, with_overrides
from heedful.config.reading.load import load_recipe
from heedful.config.reading.toml import toml_item, toml_key, toml_value
from heedful.config.recipe import Recipe
from heedful.data.corpora.formats.detection import Detected
from heedful.data.corpora.formats.lines import count_lines, locate
from heedful.defaults.apply import BY_TASK, with_followed_defaults
from heedful.defaults.facts import count
from heedful.defaults.split import part_to_hold_out
from heedful.first_recipe.corpora import Corpus
from heedful.first_recipe.names import Split
from heedful.first_recipe.proposal import Proposal

_WIDTH: Final = 110
_PARTS_OF_FEW: Final = (("0/4", "1-3/4"), ("0/3", "1-2/3"), ("0/2", "1/2"))  # the first that leaves none empty
_SHARES: Final[Mapping[str, str]] = {  # of all parts but one, by their number
    **{"2": "one half", "3": "two thirds", "4": "three quarters", "5": "four fifths", "6": "five sixths"},
    **{"7": "six sevenths", "8": "seven eighths", "9": "eight ninths", "10": "nine tenths"},
}
_NOUNS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("conll", "conllu"), "sentence"),
    **dict.fromkeys(("image_folder", "idx", "npz"), "image"),
    "trees": "tree",
    "text": "line",
}
_TABLES: Final = ("data", "tokenizer", "model", "train", "decode", "evaluate")
_TOO_FEW: Final = "too few rows to hold some out: `valid = { ... }` would name others, which choose the best model"
_SPLITS: Final[Mapping[Split, str]] = {
    "train": "For training",
    "valid": "For validation, which chooses the best model",
    "test": "For the final score, by `heedful evaluate`",
}


@dataclass(frozen=True)
class WrittenRecipe:
    """A recipe that was checked, with its text and its name."""

    recipe: Recipe  # with the defaults that follow its data
    text: str
    name: str  # of the run


def write(proposal: Proposal, output: Path, overrides: list[str]) -> WrittenRecipe:
    """Return the recipe of a proposal, to be written to a file; `overrides` are set in it."""
    here, told = Path.cwd(), proposal.corpora.reasons
    values, divided = _divided(proposal)
    if output.parent.resolve() != here.resolve():
        values["data"] = {"folder": str(here), **values["data"]}
        told = {**told, "data.folder": "names of files start here, wherever the recipe is"}
    parsed, unread = overrides_of(overrides)
    load_recipe(values, overrides)  # says what is wrong with the recipe
    values = dict(with_overrides(draft_of("the recipe", values), parsed)[0].values) if not unread else values
    recipe = with_followed_defaults(load_recipe(values))
    text = "\n".join(_lines(proposal, output, values, {**divided, **told}, recipe)) + "\n"
    return WrittenRecipe(recipe, text, proposal.stem)


def _divided(proposal: Proposal) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of the recipe, with a validation set that is a part of the training set where there is none."""
    corpora = proposal.corpora
    splits = dict(corpora.splits)
    if "train" not in splits:  # files are called by other splits alone
        splits["train"] = splits.pop(next(iter(splits)))
    if "valid" in splits:
        return _values(proposal, splits), {}
    if corpora.divided == "lines":
        return _divided_by_lines(proposal, splits)
    held = None if corpora.more else part_to_hold_out(load_recipe(_values(proposal, splits)))
    if held is not None or corpora.more:  # a long file is not read as a whole for this
        part, rest, rows = held or ("0/10", "1-9/10", [1] * len(splits["train"]))
        return _with_parts(proposal, splits, part, rest, rows)
    for part, rest in _PARTS_OF_FEW:
        values, reasons = _with_parts(proposal, splits, part, rest, [1] * len(splits["train"]))
        if _has_rows(values):
            return values, reasons
    return _values(proposal, splits), {"data.train": _TOO_FEW}


def _with_parts(
    proposal: Proposal, splits: dict[Split, list[Corpus]], part: str, rest: str, held: Sequence[int]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of a recipe with one part of the rows for validation; `held` are how many each corpus has."""
    train = [{**corpus, "part": rest} for corpus in splits["train"]]
    valid = [{**corpus, "part": part} for corpus, rows in zip(splits["train"], held, strict=True) if rows]
    count = part.partition("/")[2]
    share = _SHARES.get(count, f"{int(count) - 1} of {count} parts")
    reasons = {
        "data.train": f"{share} of the rows, chosen by the hash of their content: equal rows stay together",
        "data.valid": "the other rows",
    }
    return _values(proposal, {**splits, "train": train, "valid": valid}), reasons


def _divided_by_lines(proposal: Proposal, splits: dict[Split, list[Corpus]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of a recipe for long texts: the last tenth of the lines of each is for validation."""
    train, valid = [], []
    for corpus in splits["train"]:
        lines = count_lines(locate(corpus["text"]))
        last = max(1, 9 * lines // 10)
        train.append({**corpus, "lines": f"1-{last}"} if lines > 1 else corpus)
        valid += [{**corpus, "lines": f"{last + 1}-{lines}"}] if lines > 1 else []
    if not valid:
        return _values(proposal, splits), {"data.train": _TOO_FEW}
    reasons = {"data.train": "the first nine tenths of the lines", "data.valid": "the last tenth"}
    return _values(proposal, {**splits, "train": train, "valid": valid}), reasons


def _values(proposal: Proposal, splits: Mapping[Split, list[Corpus]]) -> dict[str, Any]:
    data: dict[str, Any] = {split: splits[split] if len(splits[split]) > 1 else splits[split][0]
                            for split in _SPLITS if split in splits}  # fmt: skip
    values: dict[str, Any] = {"task": proposal.task.name, "data": data, "model": {"family": proposal.task.families[0]}}
    for key, value in {**proposal.keys, **proposal.corpora.keys}.items():
        table, _, name = key.partition(".")
        values[table][name] = value
    return values


def _has_rows(values: Mapping[str, Any]) -> bool:
    """Whether training and validation sets have rows, as far as that can be told."""
    rules = BY_TASK.get(values["task"])
    if rules is None:
        return True
    data = values["data"]
    recipes = (load_recipe({**values, "data": {**data, "train": data[split]}}) for split in ("train", "valid"))
    return all(count(rules.rows(recipe)) is not None for recipe in recipes)


# --- text -------------------------------------------------------------------------------------------------------------


def describe(file: Detected) -> Iterator[str]:
    """Yield what a file is, and what its columns hold, in lines."""
    rows = counted(file.rows, _NOUNS.get(file.container, "row"))
    how = [f"{rows} were looked at" if file.more else rows] if file.rows else []
    if file.encoding != "UTF-8":
        how.append(file.encoding)
    if file.container == "csv" and file.separator != ",":
        how.append(f"separated by {toml_value(file.separator)}")
    details = f" ({', '.join(how)})" if how else ""
    yield f"{file.path} is {file.words}{details}."
    width = max((len(column.name) for column in file.columns), default=0)
    for column in file.columns:
        yield f"  {column.name:{width}}  {column.kind:6}  {column.evidence}"


def _lines(
    proposal: Proposal, output: Path, values: Mapping[str, Any], reasons: Mapping[str, str], recipe: Recipe
) -> Iterator[str]:
    files = [shlex.quote(file.path) for file in proposal.files]
    yield from _comment(f"Written by `heedful init {' '.join(files)}`.")
    for file in proposal.files[:1]:
        yield from (_plain(f"# {line}") for line in describe(file))
    yield from _comment(
        f"Names of files are relative to the folder in which heedful is run. `heedful config explain KEY` explains a "
        f"key, `heedful config show {shlex.quote(str(output))}` shows all."
    )
    yield ""
    yield from _comment(f"{proposal.task.learner}: {proposal.why}")
    yield f"task = {toml_value(values['task'])}"
    followed = _followed(recipe)
    for table in _TABLES:
        if table not in values and table not in followed:
            continue
        yield ""
        # An empty table sets nothing: as a comment it shows where its keys belong.
        yield f"[{table}]" if values.get(table) or table == "train" else f"# [{table}]"
        yield from _comment(reasons.get(table, ""))
        for key, value in values.get(table, {}).items():
            path = f"{table}.{key}"
            purpose = _SPLITS.get(key, "") if table == "data" else ""
            yield from _comment(": ".join(filter(None, (purpose, reasons.get(path, "")))))
            yield f"{toml_key(key)} = {toml_item(value)}"
        if table == "data" and "test" not in values["data"]:
            yield from _comment("test = { ... } would name data that training never sees, for the final score.")
        if table in followed:
            yield from _comment(f"Training chooses for {followed[table].pop('', 'this run')}:")
            yield from (_plain(f"# {key} = {toml_value(value)}") for key, value in followed[table].items())


def _followed(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """Return the defaults that follow the data, by table."""
    found: dict[str, dict[str, Any]] = {}
    values = recipe.model_dump(mode="json", exclude_unset=True)
    for path in recipe.followed.keys if recipe.followed else ():
        value: Any = values
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        table, _, key = path.partition(".")
        if value is not None:
            keys = {key: value} if key else value  # a rule may decide a whole table
            found.setdefault(table, {"": recipe.followed.corpus} if recipe.followed else {}).update(keys)
    return found


def _comment(text: str) -> Iterator[str]:
    yield from (f"# {line}" for line in textwrap.wrap(_plain(text), _WIDTH, break_on_hyphens=False))


def _plain(text: str) -> str:
    """Return a text without characters that TOML does not allow in comments."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
