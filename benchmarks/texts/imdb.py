"""Film reviews classified by every kind of model that a recipe names, and by logistic regression.

    python -m benchmarks.texts.imdb --data FOLDER --wikitext FOLDER [--parts A,B] [--seeds 1,2,3] [--jobs 8] [--merge]

FOLDER holds IMDB's reviews as described in recipes/imdb.toml, and WikiText-2's files. Accuracy is on the 25,000 test
reviews; nothing of them is used before. Each chain of recipes is trained and evaluated in a process of its own, by the
functions behind `heedful train` and `heedful evaluate`.

tfidf         logistic regression on tf-idf of words, and of words and pairs of words (scikit-learn, which must be
              installed beside Heedful): the whole training set, and of four regularisations the best on the test set,
              in its favour
scratch       recipes/imdb.toml: a Transformer encoder
lstm          recipes/imdb-lstm.toml
han           recipes/imdb-han.toml: the hierarchical attention network
pretrained    recipes/imdb-mlm.toml, then recipes/imdb-finetune.toml: a masked language model of the training reviews,
              without their labels, then fine-tuned
few           recipes/bert-wikitext2.toml, recipes/bert-reviews.toml, recipes/imdb-few.toml: a BERT that read an
              encyclopedia, then the training reviews without their labels, fine-tuned with 500 labelled ones
few_wikitext  without bert-reviews: from the encyclopedia directly to the 500, reusing the pre-training of `few`
few_reviews   without the encyclopedia, but with its vocabulary
few_scratch   without either; these four with the learning rate, out of three, that is the best on validation

Records imdb.json (accuracy_PART, the mean over seeds; in `details` the 95% interval over reviews and seeds, and the
machine, as parts may be measured on several) and bert-few.json (of the last four accuracy_pretrained,
accuracy_wikitext_alone, accuracy_reviews_alone, accuracy_scratch).
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.shared.cells import Cell, known_by_part, make_parser, measure_cells, run_program
from benchmarks.shared.detailed_results import Detailed, recorded, save

from heedful.cli.verbs.evaluate import describe_training
from heedful.config.reading.load import load_recipe
from heedful.data.corpora.texts import read_texts
from heedful.metrics.recorded_results import machine
from heedful.runs.training_run import train
from heedful.tasks.loading import load

NAME, FEW = "imdb", "bert-few"
FEW_RATES = (0.0001, 0.0003, 0.001)

Settings = tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """A recipe of a chain, with what is set otherwise; `reads` is the data folder it is given."""

    recipe: str
    settings: Settings = ()
    reads: str = "data"


UNTRAINED = Step("bert-wikitext2", ("train.steps=1", "train.schedule.lr=1e-9"), reads="wikitext")  # its vocabulary

CHAINS: Mapping[str, tuple[Step, ...]] = {
    "scratch": (Step("imdb"),),
    "lstm": (Step("imdb-lstm"),),
    "han": (Step("imdb-han"),),
    "pretrained": (Step("imdb-mlm"), Step("imdb-finetune")),
    "few": (Step("bert-wikitext2", reads="wikitext"), Step("bert-reviews"), Step("imdb-few")),
    "few_wikitext": (Step("imdb-few"),),
    "few_reviews": (UNTRAINED, Step("bert-reviews"), Step("imdb-few")),
    "few_scratch": (UNTRAINED, Step("imdb-few")),
}
PARTS = ("tfidf", *CHAINS)
BORROWED = {"few_wikitext": ("few", "bert-wikitext2")}  # chains that go on from a step of another one
SHOWN = {  # in bert-few.json; their last step is tried with several learning rates
    "few": "pretrained",
    "few_wikitext": "wikitext_alone",
    "few_reviews": "reviews_alone",
    "few_scratch": "scratch",
}


class Chain(Cell):
    """A part with a seed."""

    program = f"texts.{NAME}"
    passed = ("data", "wikitext")

    def measure(self) -> dict[str, Any]:
        """Train step after step, and classify the test reviews."""
        lender, lent = BORROWED.get(self.part, ("", ""))
        start = Chain(lender, self.seed, self.options).folder / lent if lender else None
        steps = CHAINS[self.part]
        minutes: dict[str, float | None] = {}
        for step in steps[:-1]:
            start = self._train(step, start, step.recipe)
            minutes[step.recipe] = describe_training(start).get("minutes")
        last = steps[-1]
        rates = FEW_RATES if self.part in SHOWN else (None,)
        runs = [self._train(last, start, last.recipe + (f"-{rate:g}" if rate else ""), rate) for rate in rates]
        valid = {run.name: self._accuracy(run, "valid")[0] for run in runs}
        best = max(runs, key=lambda run: valid[run.name])
        accuracy, right = self._accuracy(best, "test")
        minutes[last.recipe] = describe_training(best).get("minutes")
        return {"accuracy": accuracy, "valid": valid, "best": best.name, "minutes": minutes, "right": right}

    def _train(self, step: Step, start: Path | None, name: str, rate: float | None = None) -> Path:
        data = self.options.data if step.reads == "data" else self.options.wikitext
        started = [f"train.start_from={start}"] if start else []
        rated = [f"train.schedule.lr={rate}"] if rate else []
        given = [f"data.folder={data}", f"train.seed={self.seed}", "train.threads=1", *started, *rated]
        run = self.folder / name
        train(load_recipe(step.recipe, [*step.settings, *given, *self.options.set]), run, resume=True)
        return run

    def _accuracy(self, run: Path, split: str) -> tuple[float, str]:
        """The accuracy, and of each review 1 or 0."""
        classifier: Any = load(run)
        data = classifier.recipe.data
        texts = [text for corpus in getattr(data, split) for text in read_texts(corpus, data.folder)]
        judged = classifier.evaluate_rows(texts).result
        right = (judged.true == judged.said).all(axis=1)
        return judged.accuracy, "".join("1" if one else "0" for one in right)


# --- logistic regression ----------------------------------------------------------------------------------------------


def tfidf(folder: Path) -> Iterator[tuple[str, float]]:
    """The test accuracy of words, and of words and pairs of words."""
    import numpy as np

    # Not imported by name: it is no dependency, and a type checker that does not find it would say so.
    TfidfVectorizer: Any = import_module("sklearn.feature_extraction.text").TfidfVectorizer
    LogisticRegression: Any = import_module("sklearn.linear_model").LogisticRegression
    data = load_recipe("imdb", [f"data.folder={folder}"]).data
    splits = {
        split: [text for part in parts for corpus in getattr(data, part) for text in read_texts(corpus, data.folder)]
        for split, parts in (("train", ("train", "valid")), ("test", ("test",)))
    }
    labels = {split: np.array([text.labels[0] for text in rows]) for split, rows in splits.items()}
    for name, longest in (("unigram", 1), ("bigram", 2)):
        vectors = TfidfVectorizer(ngram_range=(1, longest), min_df=2, sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
        known = vectors.fit_transform([text.text for text in splits["train"]])
        asked = vectors.transform([text.text for text in splits["test"]])
        yield (
            name,
            max(
                float(LogisticRegression(C=c, max_iter=1000).fit(known, labels["train"]).score(asked, labels["test"]))
                for c in (1.0, 3.0, 10.0, 30.0)
            ),
        )


# --- what is found ----------------------------------------------------------------------------------------------------


def interval(rights: Sequence[str]) -> tuple[float, float]:
    """The 95% interval of the mean accuracy, by the bootstrap over reviews, and over seeds where there are several."""
    import numpy as np

    right = np.array([[letter == "1" for letter in run] for run in rights])
    random = np.random.default_rng(0)
    drawn = []
    for _ in range(1000):
        seeds = random.integers(0, len(right), len(right))
        reviews = random.integers(0, right.shape[1], right.shape[1])
        drawn.append(right[np.ix_(seeds, reviews)].mean())
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def figures_of(part: str, found: Sequence[Mapping[str, Any]]) -> tuple[dict[str, float], dict[str, Any]]:
    accuracies = [known["accuracy"] for known in found]
    figures = {f"accuracy_{part}": mean(accuracies)}
    if len(accuracies) > 1:
        figures[f"accuracy_{part}_sd"] = stdev(accuracies)
    details = {"by_seed": accuracies, "interval": interval([known["right"] for known in found]), "machine": machine()}
    return figures, details | {key: [known[key] for known in found] for key in ("valid", "best", "minutes")}


class Board:
    """Both results as they come in."""

    def __init__(self, folder: Path, merge: bool, seeds: Sequence[int]) -> None:
        self.folder, self.seeds = folder, seeds
        self.before = {name: recorded(name, folder) if merge else Detailed() for name in (NAME, FEW)}
        self.figures: dict[str, dict[str, float]] = {NAME: {}, FEW: {}}
        self.details: dict[str, dict[str, Any]] = {NAME: {}, FEW: {}}
        self.failed: dict[str, str] = {}

    def add(self, part: str, found: Sequence[Mapping[str, Any]]) -> None:
        name = FEW if part in SHOWN else NAME
        shown = SHOWN.get(part, part)
        figures, details = figures_of(shown, found)
        self.figures[name] |= figures
        self.details[name][shown] = details
        print(f"{part}: " + ", ".join(f"{key} {figure:.4f}" for key, figure in figures.items()), flush=True)

    def save(self) -> None:
        for name, before in self.before.items():
            if self.figures[name]:
                figures = {**before.figures, **self.figures[name]}
                details = {**before.details, **self.details[name]}
                save(name, Detailed(figures, details, {**before.failed, **self.failed}), self.folder, self.seeds)


# --- the program ------------------------------------------------------------------------------------------------------


def check(options: argparse.Namespace, parts: Sequence[str]) -> str | None:
    """Return what is wrong with the options for these parts."""
    if options.tiny:
        return "--tiny: this benchmark has no tiny form: leave it out, or take fewer steps with --set train.steps=N"
    if options.wikitext is None and set(parts) & set(SHOWN):
        return "--wikitext: say where WikiText-2's files are, or leave the parts that begin with few out"
    return None


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Train and evaluate what is not ready yet; return the exit code."""
    chains = [Chain(part, seed, options) for part in parts if part in CHAINS for seed in seeds]
    board = Board(options.results, options.merge, seeds if chains else [])

    def take() -> None:
        for part, found in known_by_part(chains).items():
            board.add(part, found)
        board.save()

    for borrowed in (False, True):  # first those that others go on from
        some = [chain for chain in chains if (chain.part in BORROWED) is borrowed]
        measure_cells(some, options, board.failed, take)
    take()
    if "tfidf" in parts:
        for name, accuracy in tfidf(options.data):
            board.figures[NAME][f"accuracy_tfidf_{name}"] = accuracy
            print(f"tfidf, {name}: {accuracy:.4f}", flush=True)
    board.save()
    return 1 if board.failed else 0


if __name__ == "__main__":
    parser = make_parser(__doc__, NAME, PARTS)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="IMDB's reviews")
    parser.add_argument("--wikitext", type=Path, metavar="FOLDER", help="WikiText-2, for the parts that begin with few")
    parser.add_argument("--merge", action="store_true", help="keep what is recorded of other parts")
    run_program(parser, PARTS, Chain, run, check)
