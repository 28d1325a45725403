"""The programs that the texts print, trained by their recipes, with what the texts say of them.

    python -m benchmarks.texts.listings --data DATA [--parts tweets,vit] [--seeds 1] [--jobs 16]
    python -m benchmarks.texts.listings --only-count
    python -m benchmarks.texts.listings --data DATA --tiny

DATA holds the folders imdb, mnist, multi30k/tok, wikitext2 and tatoeba. A part is a printed program:

heads2, heads1   the Transformer classifier of film reviews, with two heads as printed and with one
unplaced         without positions
pre, rezero      with the printed layers whose norms come first, or that have none
tweets           the LSTM classifier of tweets, on film reviews
lstm, gru        its recurrent layers with the printed sizes: 10 inputs, 20 states, two layers
vit              the Vision Transformer with linear patches, on handwritten digits
transformer      torch.nn.Transformer as it is called, as a translator of captions
gpt, gpt_bad     its blocks as a language model, trained by the advice of the text, and as the text says that it fails
three_inputs     multi-head attention whose queries, keys and values have three widths, trained to look up values
distilbert       a masked model and one of half its layers that it teaches, both fine-tuned on film reviews
spanish          a Spanish masked model, which fills the blanks of the texts

Records listings.json: `weights_PART`, those of the recipe's model, and `text_weights_PART`, counted by hand from what
is printed; of a call that has no vocabulary, both without it. `listings` is the number of parts, `equal` of those where
both are equal, `trained` of those that were trained; these have a score on test data (`accuracy_PART`,
`perplexity_PART`, `bleu_PART`, `error_PART`). `text_PART` is the score of the text, if there is one.
`kept_distilbert` is the share of its teacher's accuracy that the student has, with `share_distilbert` of its weights.
In `details`: all scores, the weights of trained models, and the candidates for each blank.
"""

import argparse
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Final, Literal

import torch
import torch.nn.functional as F
from benchmarks.shared import cells
from benchmarks.shared.detailed_results import Detailed, recorded, save
from torch import nn

import heedful
from heedful.base.packed import Layout
from heedful.cli.verbs.evaluate import describe_training
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.metrics.recorded_results import machine
from heedful.nn.attention.three_inputs import ThreeInputAttention
from heedful.nn.layers.embedding import Embedding
from heedful.plots.recipes import recipe_network
from heedful.runs.training_run import train
from heedful.tasks.loading import load

NAME: Final = "listings"
_CLASSIFIER: Final = 50_002 * 32 + 2 * 32 + 3 * 32 * 32 + 33 * 32 + (33 * 128 + 129 * 32) + 33 * 2  # without its norms
_BLOCK: Final = 4 * 513 * 512 + 513 * 2048 + 2049 * 512 + 4 * 512  # attention, network and two norms
_CROSS: Final = 4 * 513 * 512 + 2 * 512
_VIT_BLOCK: Final = 4 * 257 * 256 + 257 * 512 + 513 * 256 + 4 * 256


def _recurrent(gates: int) -> int:
    """Count two layers of 20 states over inputs of 10, each with two biases, below the head of the tweets."""
    return 50_002 * 10 + sum(gates * 20 * (given + 20 + 2) for given in (10, 20)) + 21 * 257 + 258


@dataclass(frozen=True)
class Listing:
    """A printed program: its recipe, its data, its number of weights, and the score that its text reports."""

    recipe: str
    folder: str
    metric: str
    weights: int | None = None
    settings: tuple[str, ...] = ()
    says: float | None = None
    vocabulary: bool = True  # whether the printed program has the embedding of tokens


_SMALL: Final = ("model.encoder.embedding=10", "model.encoder.width=20")
_REVIEWS: Final = ("tutorial-transformer-classifier", "imdb", "accuracy")
PARTS: Final[Mapping[str, Listing]] = {
    "heads2": Listing(*_REVIEWS, _CLASSIFIER + 4 * 32, says=0.8221699617346938),
    "heads1": Listing(*_REVIEWS, _CLASSIFIER + 4 * 32, ("model.encoder.heads=1",)),
    "unplaced": Listing(*_REVIEWS, _CLASSIFIER + 4 * 32, ("model.encoder.positions=none",)),
    "pre": Listing(*_REVIEWS, _CLASSIFIER + 4 * 32, ("model.encoder.norm=pre", "model.encoder.final_norm=false")),
    # The printed layer has one factor for both sublayers, and the paper's one for each: see the text's erratum.
    "rezero": Listing(*_REVIEWS, _CLASSIFIER + 1, ("model.encoder.norm=rezero",)),
    "tweets": Listing(
        "tweets-lstm", "imdb", "accuracy", 50_002 * 128 + 2 * 4 * 128 * (128 + 128 + 2) + 129 * 257 + 258
    ),
    "lstm": Listing("tweets-lstm", "imdb", "accuracy", _recurrent(4), _SMALL),
    "gru": Listing("tweets-lstm", "imdb", "accuracy", _recurrent(3), (*_SMALL, "model.encoder.cell=gru")),
    "vit": Listing("mnist-vit-linear", "mnist", "accuracy", 17 * 256 + 51 * 256 + 6 * _VIT_BLOCK + 512 + 257 * 10),
    "transformer": Listing(
        "tutorial-transformer", "multi30k/tok", "bleu", 12 * _BLOCK + 6 * _CROSS + 2 * 1024, vocabulary=False
    ),
    "gpt": Listing("tutorial-gpt", "wikitext2", "perplexity", 6 * _BLOCK + 1024, vocabulary=False),
    "gpt_bad": Listing("tutorial-gpt-bad", "wikitext2", "perplexity", 6 * _BLOCK + 1024, vocabulary=False),
    "three_inputs": Listing("", "", "error", (10 + 20 + 30) * 64 + 65 * 64),
    "distilbert": Listing("distilbert", "imdb", "accuracy"),
    "spanish": Listing("bert-spanish", "tatoeba", "accuracy"),
}
_END: Final = ", después de que Alejandra vió el amanecer en la playa"
BLANKS: Final = {
    "thesis, whole": f"Ella estaba muy [MASK]{_END}",
    "thesis, beginning alone": "Ella estaba muy [MASK]",
    "transformers, cat": "el gato se [MASK] al ratón",
    "transformers, girl": "la niña [MASK] por la ventana",
}
WORDS: Final = ("contenta", "enojada", "maravillada", "miraba", "salta")  # that the texts name


class Cell(cells.Cell):
    """A printed program with a seed."""

    program = f"texts.{NAME}"

    def measure(self) -> dict[str, Any]:
        """Train it, and score it on its test data."""
        listing = PARTS[self.part]
        match self.part:
            case "three_inputs":
                return look_up(50 if self.options.tiny else 1500, self.seed)
            case "distilbert":
                return self._distilled()
        run = self._train(listing.recipe, "run", *listing.settings)
        found = {"weights": weights_of(load(run, "cpu").network, listing.vocabulary), **self._scored(run)}
        if self.part == "spanish":
            found["blanks"] = fill(run)
        self._clear()
        return found

    def _distilled(self) -> dict[str, Any]:
        """Train the teacher and its student, and fine-tune both; the teacher has twice as many layers to decay over."""
        teacher = self._train("distilbert-teacher", "teacher")
        student = self._train("distilbert", "student", f"train.distill.teacher={teacher}")
        tuned = {}
        for run, decay in ((teacher, 0.85), (student, 0.7)):
            given = (f"train.start_from={run}", f"train.layer_decay={decay}", "data.max_length=256")
            tuned[run.name] = self._train("imdb-finetune", f"{run.name}-imdb", *given)
        scores = {name: self._scored(run) for name, run in tuned.items()}
        masked = {run.name: self._scored(run, "valid")["scores"] for run in (teacher, student)}
        counts = {run.name: weights_of(load(run, "cpu").network) for run in (teacher, student)}
        kept = scores["student"]["scores"]["accuracy"] / scores["teacher"]["scores"]["accuracy"]
        self._clear()
        return {
            **scores["student"], "weights": counts["student"], "kept": kept, "of_teacher": scores["teacher"],
            "share": counts["student"] / counts["teacher"], "masked": masked,
        }  # fmt: skip

    def _train(self, name: str, run: str, *settings: str) -> Path:
        folder = self.options.data.absolute() / ("imdb" if name == "imdb-finetune" else PARTS[self.part].folder)
        given = [f"data.folder={folder}", f"train.seed={self.seed}", "train.threads=1"]
        recipe = load_recipe(name, [*settings, *given, *self.options.set])
        train(shortened(recipe) if self.options.tiny else recipe, self.folder / run, resume=True)
        return self.folder / run

    def _scored(self, run: Path, split: Literal["valid", "test"] = "test") -> dict[str, Any]:
        (found, *_) = heedful.evaluate(run, None, split=split).values()
        scores = {score.name: float(score.value) for score in found.scores()}
        return {"scores": scores, **describe_training(run), "machine": machine()}

    def _clear(self) -> None:
        if not self.options.keep:
            for run in self.folder.iterdir():
                shutil.rmtree(run)


def shortened(recipe: Recipe) -> Recipe:
    """Return the recipe with few rows and updates."""

    def few(corpora: Sequence[Any]) -> tuple[Any, ...]:
        rows = {"lines": "1-200"} if recipe.rules.name == "generate" else {"sample": 60}
        return tuple(corpus.model_copy(update=rows) for corpus in corpora)

    corpora: dict[str, Any] = {split: few(getattr(recipe.data, split)) for split in ("train", "valid", "test")}
    length: dict[str, Any] = {"steps": 2, "epochs": None, "checkpoint_every": 1, "average": None}
    validation = recipe.train.validation.model_copy(update={"every": 2})
    place = {"device": "cpu", "precision": "float32", "validation": validation}
    return recipe.model_copy(
        update={
            "data": recipe.data.model_copy(update={**corpora, "batch_tokens": max(600, recipe.data.max_length)}),
            "train": recipe.train.model_copy(update=length | place),
        }
    )


def weights_of(network: nn.Module, vocabulary: bool = True) -> int:
    """Return the number of a network's weights, or without those of its vocabulary and its learned positions."""
    embeddings = [] if vocabulary else [module for module in network.modules() if isinstance(module, Embedding)]
    besides = {weight for module in embeddings for weight in module.parameters()}
    return sum(weight.numel() for weight in network.parameters() if weight not in besides)


def counted(part: str) -> int:
    """Return the number of weights that a part has before any data is read."""
    listing = PARTS[part]
    if part == "three_inputs":
        return weights_of(three_inputs())
    recipe = load_recipe(listing.recipe, [*listing.settings])
    return weights_of(recipe_network(recipe, 10 if part == "vit" else 2), listing.vocabulary)


def three_inputs() -> ThreeInputAttention:
    """Return attention over queries that are 10 wide, keys that are 20 wide and values that are 30 wide."""
    return ThreeInputAttention(64, 4, (10, 20, 30), projection_bias=False)


def look_up(updates: int, seed: int) -> dict[str, Any]:
    """Train attention to return the value whose key a query asks for; return its error.

    Query and key are two linear views of one random direction, and what is asked for is a linear map of the value. The
    error is a share of its variance: 1 without any attention.
    """
    torch.manual_seed(seed)
    rows, asked, known = 32, 8, 16
    module, queries, keys = three_inputs(), Layout.of([asked] * rows), Layout.of([known] * rows)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.003)
    to_query, to_key, to_answer = (torch.randn(sizes) for sizes in ((6, 10), (6, 20), (30, 64)))
    shares = []
    for _ in range(updates):
        ideas = 4 * F.normalize(torch.randn(rows, known, 6), dim=2)
        values = torch.randn(rows, known, 30)
        chosen = torch.arange(rows).unsqueeze(1), torch.randint(known, (rows, asked))
        wanted = values[chosen] @ to_answer
        inputs = (part.flatten(0, 1) for part in (ideas[chosen] @ to_query, ideas @ to_key, values))
        read = module(next(inputs), queries, *inputs, keys)
        loss = (read - wanted.flatten(0, 1)).square().mean() / wanted.var()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shares.append(loss.item())
    error = mean(shares[-50:])
    return {"weights": weights_of(module), "scores": {"error": error}, "steps": updates, "machine": machine()}


def fill(run: Path) -> dict[str, Any]:
    """Return the candidates for each blank, and the probabilities of the named words that are single pieces."""
    filler: Any = load(run)
    found = {}
    for name, text in BLANKS.items():
        (candidates,) = filler.fill(text, top=filler.vocabularies["text"].size).masks
        known = {candidate.piece: candidate.probability for candidate in candidates}
        found[name] = {
            "text": text,
            "best": {candidate.piece: round(candidate.probability, 4) for candidate in candidates[:8]},
            "named": {word: known[word] for word in WORDS if word in known},
        }
    return found


def figures_of(part: str, found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the figures of a part that is trained."""
    metric, first = PARTS[part].metric, found[0]
    figures = cells.mean_over_seeds(f"{metric}_{part}", [one["scores"][metric] for one in found])
    figures |= {f"{key}_{part}": round(first[key], 4) for key in ("kept", "share", "minutes") if key in first}
    return figures


def printed() -> dict[str, float]:
    """Return the weights of all parts and what the texts say of them, which is known before anything is trained."""
    figures: dict[str, float] = {f"weights_{part}": counted(part) for part in PARTS}
    figures |= {f"text_weights_{part}": listing.weights for part, listing in PARTS.items() if listing.weights}
    figures |= {f"text_{part}": listing.says for part, listing in PARTS.items() if listing.says is not None}
    equal = [part for part, listing in PARTS.items() if figures[f"weights_{part}"] == listing.weights]
    return {"listings": len(PARTS), "equal": len(equal), **figures}


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Measure every cell that is not known yet, and record what is known; return an exit code."""
    asked = [Cell(part, seed, options) for seed in seeds for part in parts]
    known, failed = printed(), dict[str, str]()

    def summarise() -> dict[str, float]:
        before = Detailed() if options.tiny else recorded(NAME, options.results)
        details = {**before.details, **cells.known_by_part(asked)}
        figures = dict(known)
        for part, found in details.items():
            figures |= figures_of(part, found)
        figures["trained"] = len(details)
        if not options.tiny:
            save(NAME, Detailed(figures, details, dict(failed)), options.results, seeds)
        return figures

    if not options.only_count:
        cells.measure_cells(asked, options, failed, summarise)
    return cells.show(summarise(), failed)


if __name__ == "__main__":
    parser = cells.make_parser(__doc__, NAME, tuple(PARTS))
    parser.set_defaults(seeds="1")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="the folder of the folders of data")
    parser.add_argument("--only-count", action="store_true", help="train nothing, record numbers of weights")
    parser.add_argument("--keep", action="store_true", help="keep the folders of runs")
    cells.run_program(
        parser,
        tuple(PARTS),
        Cell,
        run,
        lambda options, parts: None if options.data or options.only_count else "--data is missing",
    )
