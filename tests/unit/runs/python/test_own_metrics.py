"""Metrics of one's own: they score validations and evaluations, and can decide which model is best."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.shared.refusals import like, refuses
from tests.unit.runs.python.test_train import PAIRS, TINY
from tests.unit.runs.run_folders import same_bits

import heedful

TEXTS = [("ant bee", "pos"), ("cat dog", "neg"), ("ant", "pos"), ("dog", "neg")] * 5
CLASSIFIER: dict[str, Any] = {
    **TINY,
    "model": {"family": "classifier", "encoder": {"family": "recurrent", "width": 4, "embedding": 4}},
}
BY_LENGTH = {"train.validation.metric": "shortness", "train.validation.max_sentences": 3}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


class Counter:
    """A metric that grows with every call, and remembers what it was given."""

    def __init__(self, *values: float) -> None:
        self.values, self.calls = list(values), list[tuple[Sequence[Any], Sequence[Any]]]()

    def __call__(self, outputs: Sequence[Any], references: Sequence[Any]) -> float:
        self.calls.append((outputs, references))
        return self.values[len(self.calls) - 1]


@pytest.mark.parametrize(("better", "best"), [("higher", 2), ("lower", 4)])
def test_a_metric_of_ones_own_decides_which_model_is_best(better: Any, best: int) -> None:
    own = Counter(0.9, 0.2)
    metrics = {"shortness": heedful.Metric(own, better)}
    run = heedful.train(TINY, "run", BY_LENGTH, train=PAIRS, valid=PAIRS[:5], metrics=metrics, quiet=True)
    assert [entry["shortness"] for entry in run.validations] == [0.9, 0.2]
    assert (run.metric, run.best_step) == ("shortness", best)
    assert '"shortness": 0.9' in (run / "metrics.jsonl").read_text()
    outputs, references = own.calls[0]
    assert references == [PAIRS[row][1] for row in (0, 1, 3)], "at equal distances"
    assert len(outputs) == 3
    assert all(isinstance(text, str) for text in outputs)
    assert isinstance(heedful.load(run, device="cpu"), heedful.Translator), "a model is used without its metrics"
    assert isinstance(heedful.Run("run").model, heedful.Translator)


def test_a_run_with_a_metric_of_ones_own_resumes_exactly(tmp_path: Path) -> None:
    def length(outputs: Sequence[str], references: Sequence[str]) -> float:
        return float(sum(map(len, outputs)))

    given: dict[str, Any] = {"train": PAIRS, "valid": PAIRS[:5], "quiet": True}
    whole = heedful.train(TINY, "whole", BY_LENGTH, metrics={"shortness": length}, **given)
    heedful.train(TINY, "run", {**BY_LENGTH, "train.steps": 2}, metrics={"shortness": length}, **given)
    with refuses('..."shortness", which is not a metric: use ...own is passed in Python, by `metr...'):
        heedful.train(TINY, "run", BY_LENGTH, resume=True, **given)
    lower = {"shortness": heedful.Metric(length, "lower")}
    with refuses('...metric` = "shortness (higher is better)", but the recipe says "short...'):
        heedful.train(TINY, "run", BY_LENGTH, resume=True, metrics=lower, **given)
    rest = heedful.train(TINY, "run", BY_LENGTH, resume=True, metrics={"shortness": length}, **given)
    same_bits(whole / "model.safetensors", rest / "model.safetensors")
    assert rest.validations == whole.validations


def test_a_classifier_is_scored_by_its_labels() -> None:
    own = Counter(1.0, 2.0, 7.0, 8.0)
    run = heedful.train(CLASSIFIER, "run", train=TEXTS, valid=TEXTS[:4], metrics={"mine": own}, quiet=True)
    assert [entry["mine"] for entry in run.validations] == [1.0, 2.0]
    assert own.calls[0][1] == ["pos", "neg", "pos", "neg"]
    assert set(own.calls[0][0]) <= {"pos", "neg"}
    model = heedful.TextClassifier.load(run, device="cpu")
    found = model.evaluate(TEXTS[:2], metrics={"mine": own})
    assert found.own == {"mine": 7.0}
    assert found.scores()[-1].value == 7.0
    assert found.to_json()["metrics"] == {"mine": 7.0}
    assert own.calls[2] == ([one.label for one in model.classify(["ant bee", "cat dog"])], ["pos", "neg"])
    (of_corpus,) = heedful.evaluate(model, split="valid", metrics={"mine": own}).values()
    assert of_corpus.scores()[-1].value == 8.0


def test_a_translator_is_evaluated_by_metrics_of_ones_own() -> None:
    run = heedful.train(TINY, "run", train=PAIRS, quiet=True)
    own = Counter(3.0, 4.0)
    found = heedful.evaluate(run, PAIRS[:2], device="cpu", metrics={"mine": own}, max_extra=3)
    assert {score.name: score.value for score in found.scores()}["mine"] == 3.0
    assert own.calls[0][1] == [target for _, target in PAIRS[:2]]
    json.dumps(found.to_json())


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ([len], "`metrics` is [<built-in function len>], but must be a dictionary of functions by name."),
        ({"bleu": max}, '`metrics["bleu"]`: the name is one of Heedful\'s own: choose another.'),
        ({"step": max}, like('`metrics["step"]`: the name is one of ...')),
        ({"my metric": max}, "`metrics` has the name 'my metric', but a name must be letters, digits and `_`."),
        ({"mine": 3}, '`metrics["mine"]` is 3, but must be a function of two lists, outputs and references.'),
        (
            {"mine": heedful.Metric(max, "more")},  # type: ignore[arg-type]
            '`metrics["mine"]`: `better` is \'more\', but must be "higher" or "lower".',
        ),
    ],
)
def test_what_cannot_be_a_metric_is_refused_before_training(metrics: Any, message: str) -> None:
    with refuses(message):
        heedful.train(TINY, "run", train=PAIRS, valid=PAIRS[:5], metrics=metrics, quiet=True)
    assert not Path("run").exists()


def test_a_function_of_one_argument_is_refused_before_training() -> None:
    with refuses('`metrics["mine"]` is <function ...must be a function of two lists...'):
        heedful.train(TINY, "run", train=PAIRS, metrics={"mine": lambda outputs: 1.0}, quiet=True)  # type: ignore[misc, dict-item]


@pytest.mark.parametrize(("value", "shown"), [(None, "None"), (float("nan"), "nan"), ("1", "'1'")])
def test_a_metric_returns_a_finite_number(value: Any, shown: str) -> None:
    with refuses(f"The metric `mine` returned {shown}, but must return a finite number."):
        heedful.train(TINY, "run", train=PAIRS, valid=PAIRS[:5], metrics={"mine": lambda *_: value}, quiet=True)


def test_masked_language_models_have_no_outputs_to_score() -> None:
    recipe = {"model": {"family": "bert", "width": 8, "heads": 2, "layers": 1, "inner": 8}}
    with refuses("`metrics` score outputs, which a masked language model does not have: leave..."):
        heedful.train(recipe, "run", train=["a b"], metrics={"mine": lambda outputs, references: 1.0}, quiet=True)


def test_a_damaged_config_is_refused() -> None:
    run = heedful.train(TINY, "run", train=PAIRS, quiet=True)
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "metrics": {"mine": "more"}}))
    with refuses('...`metrics` must say "higher" or "lower" for each name: restore it from a co...'):
        heedful.load(run)
