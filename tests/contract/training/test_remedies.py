"""Laws of remedies around any objective: they equal their definitions, and resumed runs have the bits of whole ones."""

import shutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from tests.contract.families import classifier_of, config_of, masked_of, tagger_of
from tests.shared.refusals import refuses
from tests.shared.taggers import LABELS
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, kl_divergence

from heedful.base.errors import UserError
from heedful.base.packed import IGNORED, Packed
from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import Characters, Words
from heedful.config.train.table import Distillation, Masking, Train
from heedful.data.batches.masked import MaskedFeed
from heedful.data.batches.pairs import collate
from heedful.data.batches.questions import QuestionCollator
from heedful.data.batches.tagged import TaggedCollator
from heedful.data.batches.texts import TextCollator
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import read_description, write_description, write_weights
from heedful.models.from_recipe.encoder_only import build_classifier, build_masked_model, build_reader, build_tagger
from heedful.models.from_recipe.network import build_model, build_network
from heedful.models.networks import set_precision
from heedful.nn.decoding.spans import log_ends
from heedful.nn.losses.predictions import JointPrediction, TokenPrediction
from heedful.runs.training_run import train
from heedful.tasks.answer.objective import AnswerEnds
from heedful.tasks.classify.objective import OneLabel, SeveralLabels, WithLanguageLoss, next_tokens
from heedful.tasks.fill.objective import MaskedTokens
from heedful.tasks.tag.objective import LabelSequences, WordLabels
from heedful.training.objectives import NextToken, PredictiveObjective
from heedful.training.remedies import read_teacher, with_remedies

WORDS, CLASSES = 14, 3
STORE = TokenStore.of(
    source=[[4, 5, 6, 7], [7, 4], [6, 6, 5]],
    target=[[8, 9, 10], [11], [12, 13, 8, 9]],
    text=[[5, 6, 7, 8, 9], [10, 4], [11, 12, 13]],
    label=[[0], [2], [1]],
    question=[[5, 6], [7], [5, 6, 8]],
    answer=[[1, 2], [0, 0], []],
)
ROWS = np.arange(3)
Kind = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A network with dropout, what it minimises, a batch, and the distributions that it predicts, each weighed."""

    model: nn.Module
    objective: PredictiveObjective[Any, Any]
    batch: Any
    distributions: Callable[[], list[tuple[float, Any, Tensor]]]  # weight, distribution of each unit, whether it counts


def _translating() -> Case:
    model, batch = build_model(config_of("post-sinusoidal", 0.3), WORDS, WORDS), collate([STORE], ROWS, multiple=8)
    return Case(
        model,
        NextToken(0.1),
        batch,
        lambda: [(1.0, Categorical(logits=model(batch.source, batch.target)), batch.labels != IGNORED)],
    )


def _classifying() -> Case:
    model = build_classifier(classifier_of("first", 0.3), WORDS, CLASSES)
    batch = TextCollator(20).batch([STORE], ROWS, multiple=16)
    return Case(
        model,
        OneLabel(0.1),
        batch,
        lambda: [(1.0, Categorical(logits=model(batch.inputs)), batch.labels != IGNORED)],
    )


def _several() -> Case:
    model = build_classifier(classifier_of("several", 0.3), WORDS, CLASSES)
    batch = TextCollator(20, classes=CLASSES).batch([STORE], ROWS, multiple=16)
    return Case(
        model, SeveralLabels(0.1), batch, lambda: [(1.0, Bernoulli(logits=model(batch.inputs)), batch.labels >= 0)]
    )


def _with_language() -> Case:
    model = build_classifier(classifier_of("gpt-pairs", 0.3), WORDS, CLASSES)
    batch = TextCollator(20).batch([STORE], ROWS, multiple=16)
    assert isinstance(batch.inputs, Packed)
    labels = next_tokens(batch.inputs)

    def distributions() -> list[tuple[float, Any, Tensor]]:
        encoded = model.encoder(batch.inputs)
        tokens = model.encoder.decoder.output(encoded.values)  # type: ignore[operator, union-attr]
        share = 0.5 * len(ROWS) / int((labels != IGNORED).sum())
        return [
            (share, Categorical(logits=tokens), labels != IGNORED),
            (1.0, Categorical(logits=model.scores(encoded)), batch.labels != IGNORED),
        ]

    return Case(model, WithLanguageLoss(OneLabel(0.0), 0.5), batch, distributions)


def _tagging() -> Case:
    model = build_tagger(tagger_of("transformer", 0.3), WORDS, LABELS)
    store = TokenStore.of(text=[[5, 6, 7], [10, 4]], words=[[2, 1], [1, 1]], label=[[0, 1], [2, 0]], part=[[0], [0]])
    batch = TaggedCollator(most_words=6).batch([store], np.arange(2), multiple=8)
    return Case(
        model, WordLabels(0.1), batch, lambda: [(1.0, Categorical(logits=model(batch)), batch.labels != IGNORED)]
    )


def _filling() -> Case:
    model = build_masked_model(masked_of("next-sentence", 0.3), WORDS)
    store = TokenStore.of(text=[[5, 6, 7, 8, 9, 10, 11], [12, 13, 5, 6]], sentences=[[3, 2, 2], [2, 2]])
    feed = MaskedFeed([store], [1.0], 3, 64, 12, True, Masking(share=0.4), 4, range(5, WORDS))
    batch = feed.batch(next(iter(feed.plan(0))))

    def distributions() -> list[tuple[float, Any, Tensor]]:
        encoded = model(batch.text)
        tokens = model.head.output(model.masked(encoded, batch.places))
        return [
            (1.0, Categorical(logits=tokens), batch.labels != IGNORED),
            (float(batch.balance), Categorical(logits=model.following(encoded)), batch.next != IGNORED),
        ]

    return Case(model, MaskedTokens(), batch, distributions)


def _answering() -> Case:
    from heedful.config.model.encoder_only import ReaderModel

    encoder = {"width": 16, "heads": 2, "layers": 1, "inner": 16, "segments": 2, "family": "transformer"}
    table = {"family": "reader", "encoder": encoder | {"dropout": 0.3}, "dropout": 0.3}
    model = build_reader(ReaderModel.model_validate(table), WORDS)
    batch = QuestionCollator().batch([STORE], ROWS, multiple=16)

    def distributions() -> list[tuple[float, Any, Tensor]]:
        logs = log_ends(model(batch.text), batch.possible, batch.text.layout)
        return [(0.5, Categorical(logits=log), batch.starts != IGNORED) for log in logs]

    return Case(model, AnswerEnds(), batch, distributions)


CASES: dict[str, Callable[[], Case]] = {
    "translate": _translating,
    "classify": _classifying,
    "several": _several,
    "with-language": _with_language,
    "tag": _tagging,
    "fill": _filling,
    "answer": _answering,
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    """What every kind of task minimises, with dropout, in float64."""
    made = CASES[request.param]()
    made.model.double().train()
    set_precision(made.model, torch.float64)
    return made


# --- R-Drop -----------------------------------------------------------------------------------------------------------


def test_r_drop_is_the_mean_of_two_passes_and_the_divergence_between_them(case: Case) -> None:
    """The definition of the paper, halved: both losses, and alpha times the mean of the divergences both ways."""
    alpha = 3.0
    remedied = with_remedies(case.objective, Train(r_drop=alpha))
    torch.manual_seed(7)
    found = remedied(case.model, case.batch)
    torch.manual_seed(7)
    losses = [case.objective(case.model, case.batch) for _ in range(2)]
    torch.manual_seed(7)
    first, second = case.distributions(), case.distributions()
    total = losses[0].loss + losses[1].loss
    divergence = torch.zeros((), dtype=torch.float64)
    for (weight, one, counts), (_, other, _) in zip(first, second, strict=True):
        both = kl_divergence(one, other) + kl_divergence(other, one)
        divergence = divergence + weight * (both.nan_to_num() * counts).sum() / 2
    assert divergence.detach() > 1e-4
    expected = (total + alpha * divergence) / 2
    torch.testing.assert_close(found.loss.double(), expected.double(), rtol=2e-6, atol=1e-7)
    torch.testing.assert_close(found.likelihood, (losses[0].likelihood + losses[1].likelihood) / 2)
    assert remedied.units(case.batch) == case.objective.units(case.batch)
    assert remedied.tokens(case.batch) == case.objective.tokens(case.batch)


def test_gradients_of_r_drop_are_those_of_its_definition(case: Case) -> None:
    remedied, weights = with_remedies(case.objective, Train(r_drop=2.0)), list(case.model.parameters())

    def gradients(loss: Tensor) -> Tensor:
        found = torch.autograd.grad(loss, weights, allow_unused=True)
        return torch.cat(
            [(torch.zeros_like(w) if g is None else g).flatten() for w, g in zip(weights, found, strict=True)]
        )

    torch.manual_seed(7)
    ours = gradients(remedied(case.model, case.batch).loss)
    torch.manual_seed(7)
    passes = [case.objective.predict(case.model, case.batch) for _ in range(2)]
    losses = [case.objective.score(predicted, case.batch).loss for predicted in passes]
    torch.manual_seed(7)
    pairs = zip(case.distributions(), case.distributions(), strict=True)
    divergence = torch.stack([
        weight * ((kl_divergence(one, other) + kl_divergence(other, one)).nan_to_num() * counts).sum() / 2
        for (weight, one, counts), (_, other, _) in pairs
    ]).sum()  # fmt: skip
    theirs = gradients((losses[0] + losses[1]) / 2 + divergence)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_an_objective_without_predictions_is_refused() -> None:
    with refuses("...`train.r_drop` compares predictions, which the objective of this task..."):
        with_remedies(LabelSequences(), Train(r_drop=1.0))


# --- distillation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_distillation_mixes_the_loss_of_the_data_and_the_divergence_from_the_teacher(
    case: Case, temperature: float
) -> None:
    """KL(teacher || student) at a temperature t, times t^2; the teacher reads without dropout."""
    student = deepcopy(case.model)
    with torch.no_grad():
        for parameter in student.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    settings = Distillation(teacher="big", weight=0.3, temperature=temperature)
    remedied = with_remedies(case.objective, Train(distill=settings), case.model)
    torch.manual_seed(7)
    found = remedied(student, case.batch)
    torch.manual_seed(7)
    predicted = case.objective.predict(student, case.batch)
    of_data = case.objective.score(predicted, case.batch)
    assert not case.model.training
    taught = case.distributions()
    divergence = torch.zeros((), dtype=torch.float64)
    for (weight, one, counts), other in zip(sorted_parts(taught), scores_of(predicted), strict=True):
        kind = type(one)
        teacher, pupil = kind(logits=one.logits / temperature), kind(logits=other / temperature)
        divergence = divergence + weight * (kl_divergence(teacher, pupil).nan_to_num() * counts).sum()
    expected = 0.7 * of_data.loss + 0.3 * temperature**2 * divergence
    torch.testing.assert_close(found.loss.double(), expected.double(), rtol=1e-5, atol=1e-6)
    found.loss.backward()
    assert all(parameter.grad is None for parameter in case.model.parameters())
    assert any(parameter.grad is not None for parameter in student.parameters())


def sorted_parts(parts: list[tuple[float, Any, Tensor]]) -> list[tuple[float, Any, Tensor]]:
    return parts if len(parts) < 2 or parts[0][1].logits.shape[1] != WORDS or parts[1][0] != 1.0 else parts[::-1]


def scores_of(predicted: Any) -> list[Tensor]:
    if isinstance(predicted, JointPrediction):
        return [scores for _, part in predicted.parts for scores in scores_of(part)]
    if isinstance(predicted, TokenPrediction):
        return [predicted.output(predicted.states_NE)]
    return [predicted.scores_BC]


# --- runs -------------------------------------------------------------------------------------------------------------

TINY = {"width": 16, "heads": 2, "layers": 1, "inner": 16, "dropout": 0.3}


def recipe_of(folder: Path, kind: str, steps: int, **keys: Any) -> Recipe:
    lines = ["abc bcd cda", "dcba", "bb aa", "cab dab", "abc", "dd cc abc"] * 3
    (folder / "a").write_text("".join(line + "\n" for line in lines))
    (folder / "b").write_text("".join(line[::-1] + "\n" for line in lines))
    (folder / "c").write_text("".join(f"{line[0]}\t{line}\n" for line in lines))
    corpus, model = {
        "translate": ({"source": "a", "target": "b"}, {"family": "transformer", **TINY}),
        "classify": ({"tsv": "c", "label": 1, "text": 2}, {"family": "classifier", "encoder": TINY}),
        "generate": ({"text": "a"}, {"family": "language", "decoder": TINY}),
    }[kind]
    return recipe_from_json(
        {
            "data": {"folder": str(folder), "train": [corpus], "batch_tokens": 40, "max_length": 20},
            "tokenizer": {"kind": "byte_bpe", "size": 300},
            "model": model,
            "train": {
                "steps": steps, "device": "cpu", "precision": "float32", "checkpoint_every": 1,
                "schedule": {"kind": "constant", "lr": 0.01}, "accumulate": 2, **keys,
            },
        },
        "recipe",
    )  # fmt: skip


def without_tokenizer(recipe: Recipe) -> Recipe:
    """Leave the vocabulary to the teacher."""
    tables = {name: table for name, table in recipe_to_json(recipe).items() if name != "tokenizer"}
    return recipe_from_json(tables, "recipe")


def run(recipe: Recipe, folder: Path, resume: bool = False) -> bytes:
    train(recipe, folder, resume=resume, console=Console(file=StringIO()))
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    "kind", ["translate", *(pytest.param(kind, marks=pytest.mark.wide) for kind in ("classify", "generate"))]
)
def test_a_remedied_run_in_two_halves_ends_with_the_bits_of_a_whole_one(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    keys = {"r_drop": 2.0} if kind == "generate" else {"r_drop": 2.0, "bpe_dropout": 0.3}
    whole = run(recipe_of(tmp_path, kind, 2, **keys), tmp_path / "whole")
    run(recipe_of(tmp_path, kind, 1, **keys), tmp_path / "halves")
    assert run(recipe_of(tmp_path, kind, 2, **keys), tmp_path / "halves", resume=True) == whole
    assert run(recipe_of(tmp_path, kind, 2), tmp_path / "plain") != whole
    taught: dict[str, Any] = {"distill": {"teacher": str(tmp_path / "whole"), "weight": 0.4}, "r_drop": 1.0}
    once = run(without_tokenizer(recipe_of(tmp_path, kind, 2, **taught)), tmp_path / "student")
    run(without_tokenizer(recipe_of(tmp_path, kind, 1, **taught)), tmp_path / "halved")
    assert run(without_tokenizer(recipe_of(tmp_path, kind, 2, **taught)), tmp_path / "halved", resume=True) == once
    assert read_description(tmp_path / "student")[0].tokenizer == recipe_of(tmp_path, kind, 2).tokenizer
    other = recipe_of(tmp_path, kind, 1, **taught).model_copy(update={"tokenizer": Words(kind="word")})
    with refuses("[tokenizer] differs from that of the teacher ... leave the table out..."):
        train(other, tmp_path / "mismatch", console=Console(file=StringIO()))
    shutil.rmtree(tmp_path / "whole")
    with refuses("`train.distill.teacher` is ...whole, which is not a folder: train that..."):
        train(recipe_of(tmp_path, kind, 1, **taught), tmp_path / "none", console=Console(file=StringIO()))


def test_a_teacher_that_does_not_fit_its_student_is_refused_in_one_line(tmp_path: Path) -> None:
    letters = train_tokenizer(Characters(kind="char"), ["abcd"])
    others = train_tokenizer(Characters(kind="char"), ["abcde"])

    def bundle(kind: str, name: str, labels: tuple[str, ...] = (), **data: Any) -> Vocabularies:
        recipe = recipe_of(tmp_path, kind, 1)
        recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update=data)})
        if "max_length" in data:
            learned = {"positions": "learned", "max_positions": data["max_length"] + 1}
            recipe = recipe.model_copy(update={"model": recipe.model.model_copy(update=learned)})
        made = Vocabularies(dict.fromkeys(recipe.rules.vocabularies, letters), labels)
        write_description(tmp_path / name, recipe, made)
        write_weights(tmp_path / name, build_network(recipe.model, made))
        return made

    def refused(kind: str, teacher: str, given: Vocabularies, several: bool = False) -> str:
        recipe = recipe_of(tmp_path, kind, 1, distill={"teacher": str(tmp_path / teacher)})
        if several:
            recipe = recipe.model_copy(update={"model": recipe.model.model_copy(update={"labels": "several"})})
        with pytest.raises(UserError) as caught:
            read_teacher(recipe, given, torch.device("cpu"))
        line = str(caught.value)
        assert "\n" not in line
        return line.replace(str(tmp_path / teacher), "TEACHER")

    pairs, classes = bundle("translate", "pairs"), bundle("classify", "classes", ("a", "b"))
    bundle("translate", "lower", lowercase=True)
    assert refused("classify", "pairs", classes) == "The teacher TEACHER translates, but the student is a classifier."
    assert refused("translate", "lower", pairs) == (
        "`data.lowercase` is false, but must be that of the teacher TEACHER, as both read the same texts: true."
    )
    other = Vocabularies(dict.fromkeys(("source", "target"), others))
    assert refused("translate", "pairs", other) == (
        "The source vocabulary of the teacher TEACHER is not that of the student, so their probabilities cannot be "
        "compared: train the student with the teacher's vocabulary, or on its translations."
    )
    assert refused("classify", "classes", replace(classes, labels=("a", "c"))) == (
        "The classes of the teacher TEACHER are not those of the student: train both on data with the same classes."
    )
    bundle("translate", "short", max_length=11)
    assert refused("translate", "short", pairs) == (
        "`data.max_length` is 20, but the teacher TEACHER has positions for 12 tokens, markers included: lower it."
    )
    assert refused("classify", "classes", classes, several=True).startswith(
        "The teacher TEACHER reads texts in another form than the student: both must be hierarchical or not"
    )
