"""`heedful tokens MODEL|RECIPE [FILE|TEXT...]`: the pieces and ids of texts, or a batch as the model sees it."""

from collections.abc import Iterator
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from heedful.base.errors import UserError
from heedful.cli import messages
from heedful.cli.input import open_inputs
from heedful.cli.options import InputsArgument, OutputOption, SetOption, TextOption, json_option, option
from heedful.cli.output import Line, check_output, line_writer
from heedful.config.reading.load import load_recipe

if TYPE_CHECKING:
    from heedful.config.recipe import Recipe
    from heedful.data.tokenize.tokenizer import Tokenizer
    from heedful.data.tokenize.vocabularies import Vocabularies


def command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL|RECIPE", help="Folder of a model, or a recipe, whose tokenizer is used.")
    ],
    inputs: InputsArgument = None,
    text: TextOption = None,
    side: Annotated[
        Literal["source", "target"] | None, option("Which vocabulary of a translator to use (default: source).")
    ] = None,
    batch: Annotated[
        bool, option("Show the first training batch as the model sees it, markers included.", "--batch")
    ] = False,
    set_: SetOption = None,
    as_json: Annotated[bool, json_option("one object per line, with pieces and ids")] = False,
    output: OutputOption = None,
) -> None:
    """Show how texts are split: one line per text with its pieces, then a tab and their ids.

    `▁` is a space. Texts are normalised as in training; markers such as `</s>` are shown by --batch only. A recipe's
    tokenizer is taken from the cache, or trained first.
    """
    check_output(output)
    if batch and (inputs or text or side):
        raise UserError("--batch shows training data: leave out texts, files and --side.")
    is_model = Path(model).is_dir()
    if is_model and set_:
        raise UserError(f"--set is for recipes, but {model} is a model: leave it out.")
    recipe = None if is_model else load_recipe(model, set_ or ())
    entries = [] if batch else open_inputs(inputs, text)
    with line_writer(output) as write:
        described, vocabularies = _described(model, recipe)
        if batch:
            for line in _batch_lines(described, vocabularies, as_json):
                write(line)
            return
        from heedful.data.text_form import TextForm

        if side is not None and side not in vocabularies.tokenizers:
            raise UserError(f"--side is for translators, which {model} is not: leave it out.")
        form, tokenizer = TextForm.of(described.data), _tokenizer(vocabularies, side)
        for entry in entries:
            for number, line in enumerate(entry.lines(), start=1):
                form.check([line], entry.name, number)
                part = Part.of(tokenizer.encode(form(line)), tokenizer)
                write({"text": line, **part._asdict()} if as_json else part.columns())


def _described(model: str, recipe: "Recipe | None") -> "tuple[Recipe, Vocabularies]":
    """Return the recipe and the vocabularies of a model or of a recipe."""

    def refuse_without_tokens(described: "Recipe") -> None:
        if described.rules.images:
            raise UserError(f"{model} reads images, which have no tokens: `heedful tokens` is for texts.")

    if recipe is not None:
        refuse_without_tokens(recipe)
    with messages.busy("loading PyTorch"):
        from heedful.models.bundle import read_description
        from heedful.runs.fine_tuning import read_start
        from heedful.tasks.loading import find_task
    if recipe is None:
        described, vocabularies = read_description(Path(model))
        refuse_without_tokens(described)
        return described, vocabularies
    if recipe.train.start_from:
        start = read_start(recipe)
        return start.recipe, start.vocabularies
    return recipe, find_task(recipe).prepare(recipe, None, messages.note).vocabularies


# --- a training batch as a model sees it: of each sentence its pieces, markers included, and what is to be predicted --


class Part(NamedTuple):
    """One sequence of a row: its ids, and the pieces or names that they stand for."""

    pieces: list[str]
    ids: list[int]

    @classmethod
    def of(cls, ids: list[int], tokenizer: "Tokenizer") -> "Part":
        """Return ids with their pieces."""
        return cls(tokenizer.pieces(ids), ids)

    def columns(self) -> str:
        """Return the pieces, a tab, and the ids."""
        return f"{' '.join(self.pieces)}\t{' '.join(map(str, self.ids))}"


def _batch_lines(recipe: "Recipe", vocabularies: "Vocabularies", as_json: bool) -> Iterator[Line]:
    """Yield the first training batch, row by row; sentences that only fill up its shape are left out."""
    from heedful.base.packed import Nested, Packed
    from heedful.tasks.loading import find_task

    def rows(packed: Packed | Nested) -> Iterator[list[int]]:
        """Yield the ids of each row; a document is shown as its sentences, end to end."""
        if isinstance(packed, Packed):
            yield from (ids.tolist() for ids in packed.split())
            return
        sentences = iter(packed.words.split())
        for count in packed.sentences.lengths.tolist():
            yield [token for _ in range(count) for token in next(sentences).tolist()]

    task = find_task(recipe)
    feed = task.feed(recipe, task.prepare(recipe, vocabularies, messages.note))
    batch: Any = feed.batch(next(iter(feed.plan(0))))
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    columns = {
        name: [Part.of(ids, _tokenizer(vocabularies, name)) for ids in islice(rows(packed), batch.sentences)]
        for name, packed in values.items()
        if isinstance(packed, Packed | Nested)
    }
    labels, tokenizer = vocabularies.labels, _tokenizer(vocabularies, "target")  # what each row is to predict
    columns["labels"] = [
        Part([labels[number] for number in ids], ids) if labels else Part.of(ids, tokenizer)
        for ids in batch.labels_of_rows()
    ]
    for row in range(batch.sentences):
        parts = {name: column[row] for name, column in columns.items() if row < len(column)}
        if as_json:
            yield {"row": row + 1, **{name: part._asdict() for name, part in parts.items()}}
            continue
        for place, (name, part) in enumerate(parts.items()):
            yield f"{'' if place else f'{row + 1:,}'}\t{name}\t{part.columns()}"


def _tokenizer(vocabularies: "Vocabularies", name: str | None) -> "Tokenizer":
    found = vocabularies.tokenizers
    return found.get(name or "") or next(iter(found.values()))
