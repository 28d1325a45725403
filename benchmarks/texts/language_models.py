"""Language models from their recipes: WikiText-2 and Shakespeare, each trained on its own text alone.

    python -m benchmarks.texts.language_models --data FOLDER [--parts gpt,lstm,shakespeare,shakespeare_cpu]
                                               [--runs FOLDER] [--merge]

FOLDER holds WikiText-2's wiki.(train, valid, test).tokens.gz, and Shakespeare's text as train.txt (the first nine
tenths) and test.txt (the rest). A part whose run is finished in the folder of runs is evaluated without training again.

gpt               recipes/wikitext2-gpt.toml; windows of the test text overlap by all but 32 tokens
lstm              recipes/wikitext2-lstm.toml; the state is carried over the test text
shakespeare       recipes/shakespeare-char.toml, and windows of 256 characters that do not overlap
shakespeare_cpu   recipes/shakespeare-char-cpu.toml, on a CPU

Records wikitext2.json (ppl_gpt and ppl_lstm: perplexity over the 245,569 words and line ends of the test text, whatever
the model's pieces are) and shakespeare.json (loss_gpu, loss_cpu: nats per character; minutes_cpu). The model at the end
of WikiText-2's training is the best on its validation text; Shakespeare's is the last one, as nothing is held out.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.shared.detailed_results import Detailed, recorded, save

from heedful.cli.verbs.evaluate import describe_training
from heedful.config.reading.load import load_recipe
from heedful.metrics.recorded_results import RESULTS, machine
from heedful.runs.training_run import train
from heedful.tasks.generate.evaluation import LanguageEvaluation, evaluate_language
from heedful.tasks.generate.model import TextGenerator


@dataclass(frozen=True)
class Part:
    """A recipe, and what is recorded of its model."""

    recipe: str
    result: str  # the name of the file
    figure: str
    score: str  # the name of the evaluation's score
    device: str = "auto"
    stride: int | None = None


PARTS = {
    "gpt": Part("wikitext2-gpt", "wikitext2", "ppl_gpt", "word_perplexity", stride=32),
    "lstm": Part("wikitext2-lstm", "wikitext2", "ppl_lstm", "word_perplexity"),
    "shakespeare": Part("shakespeare-char", "shakespeare", "loss_gpu", "loss"),
    "shakespeare_cpu": Part("shakespeare-char-cpu", "shakespeare", "loss_cpu", "loss", device="cpu"),
}


def run(part: Part, data: Path, runs: Path) -> tuple[LanguageEvaluation, dict[str, float]]:
    """Train, unless that is done, and evaluate on the test text."""
    recipe = load_recipe(f"recipes/{part.recipe}.toml", [f"data.folder={data}", f"train.device={part.device}"])
    folder = runs / part.recipe
    train(recipe, folder, resume=folder.exists())
    model = TextGenerator.load(folder, device=part.device)
    found = evaluate_language(model.bundle, recipe.data.test[0], str(data), part.stride)
    return found, describe_training(folder)


def main(names: Sequence[str], data: Path, runs: Path, results: Path, merge: bool) -> None:
    """Run the parts and record what they found."""
    fresh = {PARTS[name].result for name in names} if not merge else set()
    for name in names:
        part = PARTS[name]
        found, trained = run(part, data, runs)
        before = Detailed() if part.result in fresh else recorded(part.result, results)
        fresh.discard(part.result)
        scores = {score.name: score.value for score in found.scores()}
        figures = {part.figure: scores[part.score]}
        if part.device == "cpu":
            figures["minutes_cpu"] = trained["minutes"]
        details = {name: {**found.to_json(), **trained, "machine": machine()}}
        both = Detailed({**before.figures, **figures}, {**before.details, **details}, before.failed)
        print(f"{name}: {figures}", save(part.result, both, results, [1]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the texts")
    parser.add_argument("--parts", default="gpt,lstm,shakespeare", help="what to train and evaluate")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="the folder of the runs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--merge", action="store_true", help="keep what is recorded and not measured again")
    options = parser.parse_args()
    chosen = options.parts.split(",")
    unknown = next((name for name in chosen if name not in PARTS), None)
    if unknown:
        parser.error(f"--parts: `{unknown}` is not one of {', '.join(PARTS)}")
    main(chosen, options.data, options.runs, options.results, options.merge)
