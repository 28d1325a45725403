"""`heedful demo`: train, evaluate and try out a translator in minutes, on sentences that ship with Heedful."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from heedful.base.errors import Stopped, UserError
from heedful.base.files import output_folder, write_bytes
from heedful.cli import image_demo, messages
from heedful.cli.options import SetOption
from heedful.cli.verbs.explain import PAGE
from heedful.config.reading.load import load_recipe
from heedful.data.builtin.english_spanish import EXAMPLES, sentence_pairs

if TYPE_CHECKING:
    from heedful.tasks.translate.model import Translator

RECIPE: Final = "demo-en-es"
INTRODUCTION: Final = """\
Heedful trains a small Transformer from scratch to translate English into Spanish.
The sentences are built in: articles, gender and number, adjectives, verbs, questions, numbers, negation.
The test set has combinations of words that never occur in training.
"""
NEXT: Final = """
Next, with your own files, one sentence per line, the same number of lines in both:

    heedful recipes copy {recipe} my.toml      then name your files in [data]:
        train = {{ source = "train.en", target = "train.es" }}
        valid = {{ source = "valid.en", target = "valid.es" }}
        test = {{ source = "test.en", target = "test.es" }}
    heedful train my.toml --dry-run            estimates the time and memory of the run
    heedful train my.toml --out runs/mine
    heedful translate runs/mine < text.en
"""


def command(
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="Run folder; by default runs/demo, or runs/demo-images."),
    ] = None,
    images: Annotated[
        bool, typer.Option("--images", help="Train a classifier of images instead, and show what it says of some.")
    ] = False,
    set_: SetOption = None,
) -> None:
    """Train a small English-Spanish translator, evaluate it on unseen combinations of words, and try it out."""
    if any(override.startswith(("data", "task", "model.family")) for override in set_ or ()):
        raise UserError("--set: the demo has data and a task of its own: use `heedful train` for others.")
    out = out or Path("runs/demo-images" if images else "runs/demo")
    recipe = load_recipe(image_demo.RECIPE if images else RECIPE, set_ or ())
    with messages.busy("loading PyTorch"):
        from heedful.runs.run import CHECKPOINTS
        from heedful.runs.training_run import train
        from heedful.tasks.translate.model import load

    print(image_demo.INTRODUCTION if images else INTRODUCTION, flush=True)
    try:
        train(recipe, out, resume=(output_folder(out) / CHECKPOINTS).exists())
    except Stopped as stopped:
        raise Stopped(
            "Stopped, checkpoint saved. Run the demo again to continue.", stopped.exit_code - 128
        ) from stopped
    if images:
        image_demo.show_images(recipe, out)
        return
    model = load(out)
    _evaluate(model, recipe.data.test[0].count)  # type: ignore[union-attr]  # the demo's own recipe names a builtin
    _show_examples(model)
    page = _write_page(model, output_folder(out))
    if sys.stdin.isatty():
        _converse(model)
    print(f"\nWhat the model attends to, on a page: open {page.resolve().as_uri()} in a browser.")
    print(NEXT.format(recipe=RECIPE))


def _evaluate(model: "Translator", count: int) -> None:
    from heedful.tasks.translate.evaluation import evaluate

    sources, references = zip(*sentence_pairs("test", count), strict=True)
    found = evaluate(model, sources, references)
    print(
        f"\nHeld-out sentences: {found.exact:,} of {count:,} exactly right ({found.exact / count:.1%}), "
        f"BLEU {found.bleu.score:.1f}; {count / found.seconds:,.0f} sentences/s\n"
    )


def _show_examples(model: "Translator") -> None:
    for source, output in zip(EXAMPLES, model.translate(list(EXAMPLES)), strict=True):
        print(f"  {source}\n      {output}")


def _write_page(model: "Translator", folder: Path) -> Path:
    """Write the explorer's page of the examples."""
    from heedful.explain.pages.page import explorer_page

    page = folder / PAGE
    explained = [model.explain(text, gradients=True, search=True) for text in EXAMPLES]
    write_bytes(page, explorer_page(explained, folder.name).encode())
    return page


def _converse(model: "Translator") -> None:
    """Translate what the user types, until an empty line."""
    print("\nYour turn: type an English sentence with words like these (an empty line ends).")
    while line := _typed():
        print(f"      {model.translate(line)}")


def _typed() -> str:
    try:
        return input("  ").strip()
    except (EOFError, KeyboardInterrupt):
        return ""
