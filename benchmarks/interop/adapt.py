"""What adapting a trained model is worth: full fine-tuning, adapters, and back-translation.

    python -m benchmarks.interop.adapt --data MULTI30K --base runs/europarl --parts scratch,full,lora --jobs 3
    python -m benchmarks.interop.adapt --imdb IMDB --bert runs/bert-english --parts bert_full,bert_lora --jobs 3
    python -m benchmarks.interop.adapt --tatoeba deu-eng.zip --parts plain,back --jobs 3
    python -m benchmarks.interop.adapt --data MULTI30K --imdb IMDB --tatoeba deu-eng.zip --tiny --seeds 1

MULTI30K holds the publisher's raw files (train, val, test_2016_flickr).(en, de).gz, IMDB the reviews that
recipes/imdb.toml describes, and deu-eng.zip is that of manythings.org. The base is recipes/europarl-en-de.toml,
trained, and the masked model recipes/bert-english.toml. Each part with each seed is trained in a process of its own;
what is ready is not trained again.

scratch    English to German on 10,000 captions, by a recipe that sets nothing but its data
full       the same pairs, from the base, all of whose weights are trained
lora       the same pairs, an adapter of rank 8
bert_full  film reviews, from 500 labels, by the masked model, all of whose weights are trained
bert_lora  the same, an adapter of rank 8
plain      English to German on 10,000 of Tatoeba's pairs, by a recipe that sets nothing but its data
back       the same pairs, and all other German sentences with what a model of the other direction translates them to

Records adapt.json: `scratch`, `full`, `lora`, `plain` and `back` in BLEU and `bert_full` and `bert_lora` as accuracies,
means over seeds with their deviations (`_sd`); `gain_full`, `ratio_lora`, `share_lora` (weights of the adapter, of
those of its base), `gap_bert` and `gain_backtranslation`. --tiny takes a few steps of tiny models on a CPU, to see that
it works, and records nothing.
"""

import argparse
import tomllib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from io import TextIOWrapper
from math import prod
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

from benchmarks.shared import cells
from benchmarks.shared.detailed_results import Detailed, recorded, save
from safetensors import safe_open

import heedful
from heedful.base.errors import UserError
from heedful.cli.main import run as run_command
from heedful.config.reading.bundle_config import read_recipe
from heedful.config.reading.shipped_recipes import shipped_recipe
from heedful.metrics.recorded_results import machine
from heedful.tasks.evaluate import evaluate

NAME: Final = "adapt"
CAPTIONS: Final = ("scratch", "full", "lora")
REVIEWS: Final = ("bert_full", "bert_lora")
SENTENCES: Final = ("plain", "back")
PARTS: Final = (*CAPTIONS, *REVIEWS, *SENTENCES)
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {  # options of each part
    "scratch": ("data",),
    **dict.fromkeys(("full", "lora"), ("data", "base")),
    **dict.fromkeys(REVIEWS, ("imdb", "bert")),
    **dict.fromkeys(SENTENCES, ("tatoeba",)),
}
PAIRS: Final = 10_000
HELD_OUT: Final = 1_000  # English sentences, each, for validation and test
ADAPTER: Final = {"kind": "lora", "rank": 8}
TINY: Final = (
    "train.device=cpu", "train.precision=float32", "train.threads=1", "train.steps=4", "train.checkpoint_every=4",
    "train.validation.every=4", "train.validation.max_sentences=5", "data.batch_tokens=256", "train.report=false",
)  # fmt: skip
TINY_MODEL: Final = {"width": 16, "heads": 2, "layers": 1, "inner": 32}


class Cell(cells.Cell):
    """A part with a seed."""

    program = f"interop.{NAME}"
    passed = ("data", "base", "imdb", "bert", "tatoeba")

    def measure(self) -> dict[str, Any]:
        """Train and evaluate."""
        if self.part in CAPTIONS:
            made = self._train("run", self._captions())
        elif self.part in REVIEWS:
            made = self._train("run", self._reviews())
        else:
            made = self._train("run", self._sentences())
        scores = {score.name: score.value for score in next(iter(evaluate(made).values())).scores()}
        own = {"share": _share(made)} if self.part == "lora" else {}
        return {"score": scores["accuracy" if self.part in REVIEWS else "bleu"], **own, "machine": machine()}

    def _train(self, name: str, tables: dict[str, Any]) -> Path:
        given = [f"train.seed={self.seed}", *(TINY if self.options.tiny else ()), *self.options.set]
        if self.options.tiny:
            made = {key: value for key, value in tables.get("train", {}).items() if key != "average"}
            tables = {**tables, "train": made}
            if not made.get("start_from"):
                tables["model"] = {**tables.get("model", {}), **TINY_MODEL}
        return heedful.train(tables, self.folder / name, given, resume=True).folder

    # --- captions -----------------------------------------------------------------------------------------------------

    def _captions(self) -> dict[str, Any]:
        """Return the recipe of a part of captions."""
        lines = "1-40" if self.options.tiny else f"1-{PAIRS}"
        few = {"lines": "1-10"} if self.options.tiny else {}
        tables: dict[str, Any] = {
            "data": {
                "folder": str(self.options.data),
                "train": {"source": "train.en.gz", "target": "train.de.gz", "lines": lines},
                "valid": {"source": "val.en.gz", "target": "val.de.gz", **few},
                "test": {"source": "test_2016_flickr.en.gz", "target": "test_2016_flickr.de.gz", **few},
            },
            "decode": {"beam": 5},
        }
        if self.part == "scratch":
            return tables
        rate, adapter = (0.0003, {}) if self.part == "full" else (0.002, {"adapter": ADAPTER})
        tables["data"]["batch_tokens"] = 8192
        return {
            **tables,
            "train": {
                "start_from": str(self._tiny_base(tables) if self.options.tiny else self.options.base), **adapter,
                "steps": 2000, "schedule": {"kind": "cosine", "lr": rate, "warmup": 2 if self.options.tiny else 200},
                "clip_norm": 1.0, "checkpoint_every": 500,
                "validation": {"every": 200, "metric": "bleu", "max_sentences": 500},
            },
        }  # fmt: skip

    def _tiny_base(self, tables: Mapping[str, Any]) -> Path:
        """Train a tiny model that stands in for the base."""
        made = {"data": tables["data"], "tokenizer": {"kind": "byte_bpe", "size": 300}, "train": {}}
        return self._train("base", made)

    # --- film reviews -------------------------------------------------------------------------------------------------

    def _reviews(self) -> dict[str, Any]:
        """Return the recipe of a part of film reviews."""
        tables = tomllib.loads(shipped_recipe("imdb-few").read_text(encoding="utf-8"))
        finetune = tomllib.loads(shipped_recipe(tables.pop("extends")).read_text(encoding="utf-8"))
        merged: dict[str, Any] = {key: {**finetune.get(key, {}), **tables.get(key, {})} for key in finetune | tables}
        merged["data"] |= {"folder": str(self.options.imdb), "max_length": 128}
        if self.options.tiny:
            merged["data"]["train"] |= {"sample": 40}
            for split in ("valid", "test"):
                merged["data"][split] = {**merged["data"][split], "sample": 20}
        merged["train"]["start_from"] = str(self._tiny_bert() if self.options.tiny else self.options.bert)
        if self.part == "bert_lora":
            merged["train"] |= {"adapter": ADAPTER, "schedule": {"kind": "linear", "lr": 0.001, "warmup": 30}}
        return merged

    def _tiny_bert(self) -> Path:
        """Train a tiny model that stands in for the masked one."""
        corpus = {"tsv": "train.tsv.gz", "text": 3, "sample": 30}
        made = {
            "data": {"folder": str(self.options.imdb), "train": corpus, "valid": corpus, "max_length": 128},
            "tokenizer": {"kind": "wordpiece", "size": 400},
            "model": {"family": "bert", "next_sentence": False, "segments": 0},
            "train": {},
        }
        return self._train("bert", made)

    # --- sentences ----------------------------------------------------------------------------------------------------

    def _sentences(self) -> dict[str, Any]:
        """Return the recipe of a part of sentences; for back-translation, make the pairs first."""
        few = 60 if self.options.tiny else PAIRS
        split, alone = split_sentences(self.options.tatoeba, few, 10 if self.options.tiny else HELD_OUT)
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, pairs in split.items():
            _write(self.folder / f"{name}.tsv", ["\t".join(pair) for pair in pairs])
        forward = self._tables({"source": 1, "target": 2})
        if self.part == "plain":
            return forward
        mono, made = self.folder / "mono.txt", self.folder / "made.tsv"
        _write(mono, alone[: 30 if self.options.tiny else None])
        reverse = self._train("reverse", self._tables({"source": 2, "target": 1}))
        if not made.exists() and run_command(["augment", "backtranslate", str(reverse), str(mono), "-o", str(made)]):
            raise UserError("`heedful augment backtranslate` failed: see the log.")
        own = forward["data"]["train"] | {"weight": 5.0}  # what people wrote, five times as often
        forward["data"]["train"] = [own, {"tsv": "made.tsv", "source": 1, "target": 2}]
        return forward

    def _tables(self, columns: Mapping[str, int]) -> dict[str, Any]:
        corpora = {name: {"tsv": f"{name}.tsv", **columns} for name in ("train", "valid", "test")}
        return {"data": {"folder": str(self.folder.absolute()), **corpora}, "decode": {"beam": 5}}


def split_sentences(file: Path, pairs: int, held_out: int) -> tuple[dict[str, list[tuple[str, str]]], list[str]]:
    """Return pairs of English and German for training, validation and test, and all other German sentences.

    An English sentence has several translations, so sentences are chosen by a hash of the English one.
    """
    with ZipFile(file) as archive:
        name = next(name for name in archive.namelist() if not name.startswith("_"))
        with TextIOWrapper(archive.open(name), encoding="utf-8") as lines:
            rows = [(english, german) for english, german, *_ in (line.rstrip("\n").split("\t") for line in lines)]
    order = sorted({english for english, _ in rows}, key=lambda english: sha256(english.encode()).digest())
    chosen = {"valid": {*order[:held_out]}, "test": {*order[held_out : 2 * held_out]}}
    split = {name: _first_of_each(rows, wanted) for name, wanted in chosen.items()}
    known = {german for some in split.values() for _, german in some}
    rest = [(english, german) for english, german in rows if not any(english in some for some in chosen.values())]
    rest = [pair for pair in rest if pair[1] not in known]
    rest.sort(key=lambda pair: sha256("\t".join(pair).encode()).digest())
    split["train"] = rest[:pairs]
    seen = known | {german for _, german in split["train"]}
    return split, [german for german in dict.fromkeys(german for _, german in rest[pairs:]) if german not in seen]


def _first_of_each(rows: Sequence[tuple[str, str]], wanted: set[str]) -> list[tuple[str, str]]:
    """Return one pair for each of some English sentences."""
    found: dict[str, str] = {}
    for english, german in rows:
        if english in wanted:
            found.setdefault(english, german)
    return [*found.items()]


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _share(adapter: Path) -> float:
    """Return the weights of an adapter as a share of those of its base."""
    base, sizes = Path(read_recipe(adapter).train.start_from), list[int]()
    for file in (adapter / "adapter.safetensors", base / "model.safetensors"):
        with safe_open(file, "pt") as weights:
            shapes = (weights.get_slice(name).get_shape() for name in weights.keys())  # noqa: SIM118 - no mapping
            sizes.append(sum(prod(shape) for shape in shapes))
    return sizes[0] / sizes[1]


def figures_of(known: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Return the means of all parts, and what they say of each other."""
    figures: dict[str, float] = {}
    for part, found in known.items():
        figures |= cells.mean_over_seeds(part, [one["score"] for one in found])
    if "lora" in known:
        figures["share_lora"] = round(max(one["share"] for one in known["lora"]), 5)
    differences = {"gain_full": ("full", "scratch"), "gap_bert": ("bert_full", "bert_lora")}
    differences["gain_backtranslation"] = ("back", "plain")
    for name, (one, other) in differences.items():
        if one in figures and other in figures:
            figures[name] = round(figures[one] - figures[other], 4)
    if figures.get("full") and "lora" in figures:
        figures["ratio_lora"] = round(figures["lora"] / figures["full"], 4)
    return figures


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Train and evaluate every cell that is not known yet; return an exit code."""
    failed: dict[str, str] = {}
    asked = [Cell(part, seed, options) for part in parts for seed in seeds]
    every = [Cell(part, seed, options) for part in PARTS for seed in seeds]  # also those of earlier calls

    def summarise() -> dict[str, float]:
        known = cells.known_by_part(every)
        figures = figures_of(known)
        if not options.tiny:
            before = recorded(NAME, options.results)
            figures = {**before.figures, **figures}
            save(NAME, Detailed(figures, {**before.details, **known}, dict(failed)), options.results, seeds)
        return figures

    cells.measure_cells(asked, options, failed, summarise)
    return cells.show(summarise(), failed)


def check(options: argparse.Namespace, parts: Sequence[str]) -> str | None:
    """Return which option is missing."""
    made = ("base", "bert") if options.tiny else ()  # which a tiny run trains itself
    needed = dict.fromkeys(need for part in parts for need in NEEDS[part] if need not in made)
    missing = next((need for need in needed if getattr(options, need) is None), None)
    return None if missing is None else f"these parts need --{missing}"


if __name__ == "__main__":
    parser = cells.make_parser(__doc__, NAME, PARTS)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="Multi30k's raw files")
    parser.add_argument("--base", type=Path, metavar="FOLDER", help="the trained recipes/europarl-en-de.toml")
    parser.add_argument("--imdb", type=Path, metavar="FOLDER", help="IMDB's reviews")
    parser.add_argument("--bert", type=Path, metavar="FOLDER", help="the trained recipes/bert-english.toml")
    parser.add_argument("--tatoeba", type=Path, metavar="FILE", help="deu-eng.zip of manythings.org")
    cells.run_program(parser, PARTS, Cell, run, check)
