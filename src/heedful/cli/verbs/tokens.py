"""`heedful tokens MODEL|RECIPE [FILE|TEXT...]`: the pieces and ids of texts, or a batch as the model sees it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from heedful.base.errors import UserError
from heedful.cli import messages
from heedful.cli.input import open_inputs
from heedful.cli.options import InputsArgument, OutputOption, SetOption, TextOption
from heedful.cli.output import check_output, line_writer
from heedful.config.reading.load import load_recipe

if TYPE_CHECKING:
    from heedful.config.recipe import Recipe
    from heedful.data.tokenize.vocabularies import Vocabularies


def command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL|RECIPE", help="Folder of a model, or a recipe, whose tokenizer is used.")
    ],
    inputs: InputsArgument = None,
    text: TextOption = None,
    side: Annotated[
        Literal["source", "target"] | None,
        typer.Option("--side", help="Which vocabulary of a translator to use (default: source)."),
    ] = None,
    batch: Annotated[
        bool, typer.Option("--batch", help="Show the first training batch as the model sees it, markers included.")
    ] = False,
    set_: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object per line: pieces and ids.")] = False,
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
        if batch:
            for line in _batch_lines(*_described(model, recipe), as_json):
                write(line)
            return
        described, vocabularies = _described(model, recipe)
        from heedful.data.text_form import TextForm

        form, tokenizer = TextForm.of(described.data), _choose(vocabularies, side, model)
        for entry in entries:
            for number, line in enumerate(entry.lines(), start=1):
                form.check([line], entry.name, number)
                ids = tokenizer.encode(form(line))
                pieces = tokenizer.pieces(ids)
                write(_object(line, pieces, ids) if as_json else f"{' '.join(pieces)}\t{' '.join(map(str, ids))}")


def _described(model: str, recipe: "Recipe | None") -> "tuple[Recipe, Vocabularies]":
    """Return the recipe and the vocabularies of a model or of a recipe."""
    if recipe is not None:
        _refuse_without_tokens(recipe, model)
    with messages.busy("loading PyTorch"):
        from heedful.models.bundle import read_description
        from heedful.runs.fine_tuning import read_start
        from heedful.tasks.table import find_task
    if recipe is None:
        described, vocabularies = read_description(Path(model))
        _refuse_without_tokens(described, model)
        return described, vocabularies
    if recipe.train.start_from:
        start = read_start(recipe)
        return start.recipe, start.vocabularies
    return recipe, find_task(recipe).prepare(recipe, None, messages.note).vocabularies


def _refuse_without_tokens(recipe: "Recipe", model: str) -> None:
    if recipe.rules.images:
        raise UserError(f"{model} reads images, which have no tokens: `heedful tokens` is for texts.")


def _choose(vocabularies: "Vocabularies", side: str | None, model: str) -> Any:
    if side is not None and side not in vocabularies.tokenizers:
        raise UserError(f"--side is for translators, which {model} is not: leave it out.")
    return vocabularies.tokenizers[side] if side else next(iter(vocabularies.tokenizers.values()))


def _object(text: str, pieces: list[str], ids: list[int]) -> str:
    return json.dumps({"text": text, "pieces": pieces, "ids": ids}, ensure_ascii=False)


def _batch_lines(recipe: "Recipe", vocabularies: "Vocabularies", as_json: bool) -> Iterator[str]:
    """Yield the first training batch, row by row."""
    from heedful.cli.reports.batch import rows_of
    from heedful.tasks.table import find_task

    task = find_task(recipe)
    feed = task.feed(recipe, task.prepare(recipe, vocabularies, messages.note))
    batch = feed.batch(next(iter(feed.plan(0))))
    for number, row in enumerate(rows_of(batch, vocabularies), start=1):
        if as_json:
            parts = {name: {"pieces": part.pieces, "ids": part.ids} for name, part in row.items()}
            yield json.dumps({"row": number, **parts}, ensure_ascii=False)
            continue
        for place, (name, part) in enumerate(row.items()):
            label = f"{number:,}" if place == 0 else ""
            yield f"{label}\t{name}\t{' '.join(part.pieces)}\t{' '.join(map(str, part.ids))}"
