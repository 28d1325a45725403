"""Make golden bundles: tiny trained models with what they answer, for the test that old models still work.

    python -m tests.golden.make_bundles NAME...

A golden is made once and stays for ever: it stands for the models that people have on their disks, and the code that
wrote it is history. A new family, tokenizer or format adds a row to a table in `cases` and one golden; the old ones are
never made again, and this program refuses to. Where a test of an old golden fails, the code is wrong, not the golden.

bundles/NAME/        the bundle, as training wrote it
bundles/NAME.json    {"asked": questions, "answered": what the model said on the day it was made}
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.golden.answers import answers
from tests.golden.cases.golden import Golden
from tests.golden.cases.parsers import PARSERS
from tests.golden.cases.pictures import PICTURES
from tests.golden.cases.text_models import TEXT_MODELS
from tests.golden.cases.texts import (
    column,
    noun_phrases,
    ratings,
    reviews,
    running_text,
    similarities,
    topic_pairs,
    topics,
    translated,
    trees,
    tsv,
)
from tests.golden.cases.translators import TRANSLATORS

import heedful

HERE: Final = Path(__file__).parent / "bundles"
BUNDLES: Final[Mapping[str, Golden]] = {**TRANSLATORS, **PARSERS, **TEXT_MODELS, **PICTURES}
QUANTIZED: Final = {"transformer-int8": "transformer"}  # copies in int8, and the goldens that they are of
_CLEAR: Final = 1e-4  # how far apart what is ranked must be, so that no other machine ranks it otherwise


def write_texts(folder: Path) -> None:
    """Write the files that the recipes name."""
    pairs = translated()
    for part, rows in (("train", [row for number, row in enumerate(pairs) if number % 5]), ("valid", pairs[::5])):
        for number, language in enumerate(("en", "de", "es")):
            (folder / f"{part}.{language}").write_text(column(rows, number))
    for name, labelled in (("reviews", reviews()), ("topics", topics()), ("pairs", topic_pairs())):
        (folder / f"{name}.tsv").write_text(tsv(labelled))
    for name, numbered in (("ratings", ratings()), ("similarities", similarities())):
        (folder / f"{name}.tsv").write_text(tsv(numbered))
    (folder / "running.txt").write_text(running_text())
    (folder / "phrases.conll").write_text(noun_phrases())
    (folder / "sentences.trees").write_text(trees())


def make(name: str) -> None:
    """Train a model in a folder that is thrown away, and keep its bundle and its answers."""
    kept, record = HERE / name, HERE / f"{name}.json"
    if kept.exists() or record.exists():
        raise SystemExit(f"{kept} is there: a golden is made once and stays for ever. Give a new one a new name.")
    golden, before = BUNDLES[name], Path.cwd()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["HEEDFUL_CACHE"] = str(Path(scratch) / "cache")
        os.chdir(scratch)  # so that the bundle names files by themselves, and nothing of this machine
        try:
            write_texts(Path())
            Path("recipe.toml").write_text(golden.recipe)
            run = heedful.train("recipe.toml", name)
            for extra in ("checkpoints", "tensorboard"):
                shutil.rmtree(run / extra, ignore_errors=True)
            for extra in ("metrics.jsonl", "report.html", ".lock"):
                (run / extra).unlink(missing_ok=True)
            answered = answers(run.folder, golden.asked)
            refuse_close_calls(name, answered)
            shutil.copytree(run, kept)
        finally:
            os.chdir(before)
    record.write_text(json.dumps({"asked": golden.asked, "answered": answered}, ensure_ascii=False) + "\n")


def make_quantized(name: str) -> None:
    """Quantize a golden, and keep the copy and its answers."""
    kept, record, original = HERE / name, HERE / f"{name}.json", HERE / QUANTIZED[name]
    asked = json.loads(original.with_name(f"{original.name}.json").read_text())["asked"]
    heedful.quantize(original, kept)
    answered = answers(kept, asked)
    refuse_close_calls(name, answered)
    record.write_text(json.dumps({"asked": asked, "answered": answered}, ensure_ascii=False) + "\n")


def refuse_close_calls(name: str, answered: Mapping[str, Any]) -> None:
    """Refuse answers whose order may be another on another machine: ask something else, or train otherwise."""
    for first, second in _ranked(answered):
        if abs(first - second) < _CLEAR:
            raise SystemExit(f"{name}: {first} and {second} are too close to be ranked on every machine.")


def _ranked(answered: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    for parsed in answered.get("parsed", ()):
        yield from pairwise(one["score"] for one in parsed)
    for found in answered.get("beam", ()):
        yield from pairwise(one["score"] for one in found)
    for said in answered.get("classified", ()):
        yield from pairwise(sorted(said["probabilities"].values()))
        yield from ((share, 0.5) for share in said["probabilities"].values())
    for about in answered.get("answers", ()):
        yield tuple(sorted(about["probabilities"].values())[-2:])
    for one in answered.get("answered", ()):
        yield from pairwise([span["probability"] for span in one["spans"]])
        yield from ((span["probability"], one["no_answer"]) for span in one["spans"])
    for said in answered.get("tagged", ()):
        yield from ((share, 0.5) for share in said["probabilities"])
    for filled in answered.get("filled", ()):
        for candidates in filled["masks"]:
            yield from pairwise(one["probability"] for one in candidates)


def main(names: Sequence[str]) -> None:
    """Make the goldens of these names."""
    unknown = [name for name in names if name not in (*BUNDLES, *QUANTIZED)]
    if unknown or not names:
        raise SystemExit(f"Name some of: {', '.join((*BUNDLES, *QUANTIZED))}")
    for name in names:
        (make_quantized if name in QUANTIZED else make)(name)


if __name__ == "__main__":
    main(sys.argv[1:])
