"""Trains a small model of every family on data of our own, and photographs its page: the images of the docs.

    python -m scripts.gallery                   # all families, in about half an hour on one core
    python -m scripts.gallery captions tags     # some of them; models that are there already are not trained again
    python -m scripts.gallery --page runs/demo/explain.html     # images of the README, of the page of `heedful demo`

Needs Chromium (apt-get install chromium) and the `dev` extra. Models and training data are kept in runs/gallery.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from typing import Final

from scripts.gallery.corpora import write_corpora
from scripts.gallery.families import FAMILIES, Family
from scripts.gallery.photographs import ROOT, Shot, open_browser, photograph

from heedful.cli.main import run

HERE: Final = Path(__file__).parent
WORD: Final = ("#queries button >> nth=3",)
README: Final = (
    Shot("explorer/translator.png", width=1080),
    Shot("explorer/translator-dark.png", width=1080, theme="dark"),
    Shot("explorer/translator-narrow.png", width=390, height=760),
    Shot("explorer/attention.png", ["attention-title"], WORD, width=1080, result=False),
    Shot("explorer/attention-dark.png", ["attention-title"], WORD, theme="dark", width=1080, result=False),
)


def main() -> None:
    """Train what is missing, write the pages, and take the images."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="NAME", help=f"of {', '.join(FAMILIES)}; all, if none is named")
    parser.add_argument("--page", type=Path, help="page of a translator, which is photographed instead")
    parser.add_argument("--runs", type=Path, default=Path("runs/gallery"), help="folder of the models and their data")
    given = parser.parse_args()
    if unknown := set(given.families) - {*FAMILIES}:
        parser.error(f"no family is named {', '.join(sorted(unknown))}")
    if given.page is not None:
        take(given.page, README)
        return
    if not (given.runs / "data").exists():
        write_corpora(given.runs / "data")
    for name in given.families or FAMILIES:
        take(explain(name, FAMILIES[name], given.runs), FAMILIES[name].shots)


def explain(name: str, family: Family, runs: Path) -> Path:
    """Write the page of a family; train its model if there is none yet."""
    data, model, page = (runs.resolve() / each for each in ("data", name, f"{name}.html"))
    recipe = HERE / family.model
    if (ROOT / family.model).is_dir():
        model = ROOT / family.model
    elif not (model / "config.json").exists():
        train = ["train", str(recipe) if recipe.exists() else family.model, "--out", str(model)]
        train += ["--set", "train.device=cpu", "--set", "train.precision=float32"]
        train += ["--set", f"data.folder={data}"] if recipe.exists() else []
        _run(train)
    with chdir(data):  # where the images are
        _run(["explain", str(model), *family.explained, "--device", "cpu", "-o", str(page)])
    return page


def take(page: Path, shots: Sequence[Shot]) -> None:
    """Take all images of a page."""
    with open_browser() as browser:
        for shot in shots:
            photograph(browser, page, shot)


def _run(arguments: Sequence[str]) -> None:
    if code := run(list(arguments)):
        sys.exit(code)


if __name__ == "__main__":
    main()
