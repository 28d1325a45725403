"""Laws of a state that is carried over a text: exact across cuts, checkpoints and borders."""

import random
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from tests.models.language import CELLS, WORDS, language_model

from heedful.base.notes import show_nothing
from heedful.config.corpora.containers import PlainText
from heedful.config.data import Data
from heedful.config.model.language import LanguageModelTable
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import Characters
from heedful.config.train.schedules import Constant
from heedful.config.train.table import Train, Validation
from heedful.data.batches.windows import SlidingWindows, Streams
from heedful.data.token_store import TokenStore
from heedful.models.bundle import read_bundle
from heedful.models.networks import LanguageModel
from heedful.runs.training_run import train
from heedful.tasks.generate.evaluation import evaluate_language
from heedful.tasks.generate.predicted_text import CarriedText, WindowedText
from heedful.training.truncated import TruncatedBackPropagation

LETTERS = random.Random(0)
TEXT = [LETTERS.randrange(4, WORDS) for _ in range(90)]
kinds = pytest.mark.parametrize("kind", [*CELLS, "output-feedback"])


def whole_loss(kind: str, text: list[int], rows: int) -> float:
    """The loss of one long segment per stream."""
    model = language_model(kind)
    with torch.no_grad():
        return float(TruncatedBackPropagation()(model, Streams.of(text, rows, len(text)).segment(0)).loss)


@kinds
@pytest.mark.parametrize("length", [1, 7, 30])
def test_the_loss_over_segments_is_that_of_one_long_segment(kind: str, length: int) -> None:
    streams, objective = Streams.of(TEXT, 3, length), TruncatedBackPropagation()
    with torch.no_grad():
        cut = sum(float(objective(language_model(kind), streams.segment(i)).loss) for i in range(len(streams)))
    assert cut == pytest.approx(whole_loss(kind, TEXT, 3), rel=1e-12)


@kinds
def test_evaluation_carries_the_state_and_predicts_every_token_once(kind: str) -> None:
    model, store = language_model(kind), TokenStore.of(text=[TEXT])
    for length, streams in ((9, 9), (40, 2), (80, 1), (500, 1)):
        found = CarriedText.of([store], length).likelihood(model, show_nothing, "")
        assert found.tokens == len(TEXT) - 1
        assert found.total == pytest.approx(whole_loss(kind, TEXT, streams), rel=1e-9)
    both = CarriedText.of([store, TokenStore.of(text=[TEXT[:20]])], 80).likelihood(model, show_nothing, "")
    assert both.total == pytest.approx(whole_loss(kind, TEXT, 1) + whole_loss(kind, TEXT[:20], 1), rel=1e-9)


def test_part_of_an_evaluation_is_the_first_segments_of_every_text() -> None:
    model, text = language_model("gru"), CarriedText.of([TokenStore.of(text=[TEXT])], 10)
    assert text.likelihood(model, show_nothing, "", most=1).tokens == 8 * 10
    assert text.likelihood(model, show_nothing, "", most=1000).tokens == len(TEXT) - 1


@kinds
def test_closed_borders_let_nothing_of_a_document_reach_the_next(kind: str) -> None:
    model, documents = language_model(kind), [TEXT[:30], TEXT[30:42], TEXT[42:]]

    def total(stores: list[TokenStore]) -> float:
        windows = SlidingWindows(stores, 16, 16, "closed", 64)
        return WindowedText(windows).likelihood(model, show_nothing, "").total

    alone = sum(total([TokenStore.of(text=[document])]) for document in documents)
    assert total([TokenStore.of(text=documents)]) == pytest.approx(alone, rel=1e-9)


# --- runs -------------------------------------------------------------------------------------------------------------

Make = Callable[..., Recipe]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A recipe of a number of steps, with keys of its decoder."""
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    lines = ["".join(LETTERS.choice("abcde ") for _ in range(30)) for _ in range(12)]
    (tmp_path / "text").write_text("".join(line + "\n" for line in lines))
    corpus = PlainText(text="text", documents="file")

    def made(steps: int, borders: Any = "open", **keys: Any) -> Recipe:
        decoder = {"family": "recurrent", "width": 12, "embedding": 8, "last_width": 8, "layers": 2, **keys}
        return Recipe(
            data=Data(
                folder=str(tmp_path), train=(corpus,), valid=(corpus,), batch_tokens=40, max_length=10, borders=borders
            ),
            tokenizer=Characters(kind="char"),
            model=LanguageModelTable.model_validate({"family": "language", "decoder": decoder}),
            train=Train(
                steps=steps, device="cpu", precision="float32", schedule=Constant(kind="constant", lr=0.01),
                log_every=1, checkpoint_every=1, validation=Validation(every=100),
            ),
        )  # fmt: skip

    return made


AWD = {
    "dropout": 0.2,
    "dropout_input": 0.4,
    "dropout_weights": 0.5,
    "dropout_words": 0.1,
    "variational": True,
    "penalty_activation": 2.0,
    "penalty_change": 1.0,
}


@pytest.mark.parametrize("keys", [{"cell": "gru"}, AWD], ids=["plain", "regularised"])
def test_a_run_in_two_halves_ends_with_the_bits_of_a_whole_one(
    make: Make, tmp_path: Path, keys: dict[str, Any]
) -> None:
    """There are nine segments: the run stops within an epoch, with a state that is carried."""

    def run(steps: int, folder: str, resume: bool = False) -> Path:
        return train(make(steps, **keys), tmp_path / folder, resume=resume, console=Console(file=StringIO()))

    whole = run(12, "whole")
    halves = run(4, "halves")
    assert (halves / "checkpoints" / "step-00000004" / "objective.safetensors").exists()
    run(12, "halves", resume=True)
    assert (halves / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_evaluation_of_a_run_says_how_it_read_the_text(make: Make, tmp_path: Path) -> None:
    for borders, stride in (("open", None), ("closed", 10)):
        run = train(make(1, borders), tmp_path / borders, console=Console(file=StringIO()))
        found = evaluate_language(read_bundle(run, LanguageModel), make(1).data.valid[0], str(tmp_path))
        assert found.to_json()["stride"] == stride
        assert found.likelihood.tokens == 12 * 31
