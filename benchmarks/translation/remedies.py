"""Remedies for training on Multi30k: the best recipe against the usual one, and deep models without a warm-up.

    python -m benchmarks.translation.remedies --data FOLDER --parts base,best --jobs 6
    python -m benchmarks.translation.remedies --data FOLDER --jobs 9
    python -m benchmarks.translation.remedies --data FOLDER --parts try_width,try_ema --seeds 1 --jobs 2
    python -m benchmarks.translation.remedies --data FOLDER --tiny --seeds 1 --parts base,best,deep_post

FOLDER holds Multi30k's files (train, val, test_2016_flickr, test_2017_flickr).lc.norm.tok.(en, de).gz. Each part with
each seed is trained and evaluated in a process of its own, `--jobs` of them side by side; what is ready is not trained
again.

base, best   recipes/multi30k-en-de-lc.toml and recipes/multi30k-en-de-lc-best.toml
try_...      other settings than those of the best recipe, scored on the validation pairs; only on request
deep_post    12 + 12 layers with norms after the residual sums, 2,000 updates without a warm-up
deep_...     the same with one remedy each; by default all of them are measured

Records multi30k-en-de-lc-best.json: `bleu` and `bleu_2017` of the best recipe and `base`, `base_2017` of the usual one,
means over seeds with their deviations (`_sd`); `bleu_mbr` with minimum Bayes risk decoding; `p_value` of a paired test
by randomisation on tests 2016 and 2017 together, pooled over seeds. Records remedies.json: as `bleu_...` test 2016 of
each deep model, and as `perplexity_...` that of its references. --tiny takes a few steps of tiny models on a CPU, to
see that it works, and records nothing.
"""

import argparse
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.shared import cells
from benchmarks.shared.detailed_results import Detailed, recorded, save

from heedful.cli.verbs.evaluate import describe_training
from heedful.config.reading.load import load_recipe
from heedful.config.reading.shipped_recipes import shipped_recipe
from heedful.metrics.recorded_results import machine
from heedful.metrics.significance import bootstrap, randomisation
from heedful.metrics.summed_metrics import bleu_of_sums, build_metric
from heedful.runs.training_run import train
from heedful.tasks.evaluate import evaluate
from heedful.tasks.translate.evaluation import TranslationEvaluation

NAME: Final = "remedies"
BEST_RESULT: Final = "multi30k-en-de-lc-best"
BASE, BEST = "base", "best"
RECIPES: Final[Mapping[str, str]] = {BASE: "multi30k-en-de-lc", BEST: "multi30k-en-de-lc-best"}
SAMPLES: Final = 10_000  # of the test by randomisation
MBR: Final = 32  # samples
TRIED: Final[Mapping[str, tuple[str, ...]]] = {  # what is set otherwise than in the best recipe
    "try_best": (),
    "try_narrow": ("model.width=128", "model.inner=256", "train.schedule.lr=0.005"),
    "try_plain": ("train.r_drop=0.0001", "train.bpe_dropout=0.0"),  # nearly no R-Drop: the same time for an update
    "try_no_bpe": ("train.bpe_dropout=0.0",),
    "try_bpe_05": ("train.bpe_dropout=0.05",),
    "try_alpha_1": ("train.r_drop=1.0",),
    "try_alpha_10": ("train.r_drop=10.0",),
    "try_dropout_4": ("model.dropout=0.4",),
    "try_layers_6": ("model.layers=6",),
    "try_ema": ("train.moving_average=0.999",),
    "try_wide": ("model.width=512", "model.heads=8", "model.inner=1024", "train.schedule.lr=0.0015"),
    "try_small_vocabulary": ("tokenizer.size=5000",),
}  # fmt: skip
DEEP: Final = (
    "model.layers=12", "model.norm=post", "train.steps=2000", "train.checkpoint_every=2000",
    'train.schedule={ kind = "cosine", lr = 0.001 }',
)  # fmt: skip
REMEDIES: Final[Mapping[str, tuple[str, ...]]] = {  # what is set otherwise than in DEEP
    "deep_post": (),
    "deep_warmup": ('train.warmup={ kind = "linear", steps = 600 }',),
    "deep_untuned": ('train.warmup={ kind = "untuned_linear" }',),
    "deep_pre": ("model.norm=pre",),
    "deep_rezero": ("model.norm=rezero",),
    "deep_tfixup": ("model.norm=tfixup",),
    "deep_deepnorm": ("model.norm=deepnorm",),
    "deep_radam": ('train.optimizer={ kind = "radam" }',),
    "deep_layer_drop": ("model.dropout_layers=0.2",),
}
PARTS: Final = (BASE, BEST, *TRIED, *REMEDIES)
TINY: Final = (
    "train.steps=3", "train.device=cpu", "train.precision=float32", "train.log_every=1", "train.validation.every=3",
    "train.checkpoint_every=3", "data.batch_tokens=512", "train.threads=1", "model.width=16", "model.heads=2",
    "model.inner=16", "decode.beam=2", "decode.max_extra=3", "train.validation.max_sentences=5",
    *(f"data.{split}.lines=1-40" for split in ("train", "valid", "test.0", "test.1")),
)  # fmt: skip


class Cell(cells.Cell):
    """A part with a seed."""

    program = f"translation.{NAME}"

    def measure(self) -> dict[str, Any]:
        """Train and evaluate."""
        made = self._train()
        if self.part in TRIED:
            (scored,) = evaluate(made, split="valid").values()
            return {**_scores(scored), **describe_training(made), "machine": machine()}
        first, second = evaluate(made).values()
        known: dict[str, Any] = {**_scores(first), **{f"{name}_2017": value for name, value in _scores(second).items()}}
        if self.part in RECIPES:
            known["counts"] = [*_counts(first), *_counts(second)]
        if self.part == BEST:
            samples = 4 if self.options.tiny else MBR
            known["bleu_mbr"] = _scores(next(iter(evaluate(made, mbr=samples, mbr_utility="bleu").values())))["bleu"]
        return {**known, **describe_training(made), "machine": machine()}

    def _train(self) -> Path:
        given = [f"data.folder={self.options.data}", f"train.seed={self.seed}"]
        if self.part in REMEDIES:
            given += [*DEEP, *REMEDIES[self.part]]
        given += TRIED.get(self.part, ())
        if self.options.tiny:
            given += [*TINY, *(("model.layers=2",) if self.part in REMEDIES else ("model.layers=1",))]
            given += ["train.schedule.warmup=1"] if self.part not in REMEDIES else []
        run, recipe = self.folder / "run", RECIPES[BEST if self.part in (BEST, *TRIED) else BASE]
        tables = tomllib.loads(shipped_recipe(recipe).read_text(encoding="utf-8"))
        if self.part in REMEDIES or self.part == "try_ema":
            del tables["train"]["average"]
        train(load_recipe(tables, [*given, *self.options.set]), run, resume=True)
        return run


def _scores(evaluation: Any) -> dict[str, float]:
    return {score.name: score.value for score in evaluation.scores()}


def _counts(evaluation: Any) -> list[list[float]]:
    """Return what each translation adds to the sums of BLEU."""
    assert isinstance(evaluation, TranslationEvaluation)
    metric = build_metric("bleu", evaluation.references, "none", lowercase=True)
    found: list[list[float]] = metric.counts(evaluation.translations).tolist()
    return found


def compared(known: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Return the figures of the best recipe and of the usual one, and how likely a difference like theirs is."""
    figures: dict[str, float] = {}
    for part, prefix in ((BEST, "bleu"), (BASE, "base")):
        for key, name in (("bleu", prefix), ("bleu_2017", f"{prefix}_2017"), ("bleu_mbr", f"{prefix}_mbr")):
            values = [one[key] for one in known.get(part, ()) if key in one]
            figures |= cells.mean_over_seeds(name, values) if values else {}
    if all(known.get(part) for part in (BASE, BEST)):
        base, best = (np.array([one["counts"] for one in known[part]], dtype=np.float64) for part in (BASE, BEST))
        figures["p_value"] = randomisation(bleu_of_sums, base, best, SAMPLES)
        drawn = bootstrap(bleu_of_sums, base, best)
        figures |= {"gain_low": round(drawn.low, 4), "gain_high": round(drawn.high, 4)}
    return figures


def summarise(
    options: argparse.Namespace, asked: Sequence[Cell], seeds: Sequence[int], failed: Mapping[str, str]
) -> dict[str, float]:
    """Record what is known of all parts; return the figures."""
    known = cells.known_by_part(asked)
    pairs = {part: found for part, found in known.items() if part in RECIPES}
    others = {part: found for part, found in known.items() if part not in RECIPES}
    shown: dict[str, float] = {}
    for name, parts in ((BEST_RESULT, pairs), (NAME, others)):
        if not parts:
            continue
        before = Detailed() if options.tiny else recorded(name, options.results)
        figures, details = dict(before.figures), dict(before.details)
        if name == BEST_RESULT:
            figures |= compared(parts)
        else:
            for part, found in parts.items():
                short = part.removeprefix("deep_")
                figures |= cells.mean_over_seeds(f"bleu_{short}", [one["bleu"] for one in found])
                figures |= cells.mean_over_seeds(f"perplexity_{short}", [one["perplexity"] for one in found])
        details |= {part: [_without_counts(one) for one in found] for part, found in parts.items()}
        shown |= figures
        if not options.tiny:
            own = {
                cell: why for cell, why in failed.items() if (cell.split(",")[0] in RECIPES) == (name == BEST_RESULT)
            }
            save(name, Detailed(figures, details, own), options.results, seeds)
    return shown


def _without_counts(one: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in one.items() if key != "counts"}


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Train and evaluate every cell that is not known yet; return an exit code."""
    failed: dict[str, str] = {}
    asked = [Cell(part, seed, options) for part in parts for seed in seeds]
    cells.measure_cells(asked, options, failed, lambda: summarise(options, asked, seeds, failed))
    return cells.show(summarise(options, asked, seeds, failed), failed)


if __name__ == "__main__":
    parser = cells.make_parser(__doc__, NAME, PARTS)
    parser.set_defaults(parts=",".join(REMEDIES))
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="Multi30k's tokenized files")
    cells.run_program(parser, PARTS, Cell, run)
