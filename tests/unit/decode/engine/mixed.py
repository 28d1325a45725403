"""Searches of all kinds at once, with tiny random models of every family, and what each finds alone."""

import random
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np
import pytest
import torch
from tests.contract.families import FAMILIES, config_of, open_branches
from tests.models.language import EVEN_PROMPTS, LANGUAGE_MODELS, WORDS, language_model
from tests.unit.decode.slots.small_searches import DEVICE
from torch import nn

from heedful.base.packed import Packed
from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.constraints.tokens import NoRepeat, PenaliseRepetition
from heedful.decode.constraints.trees import Trees, TreeTokens
from heedful.decode.engine import BUDGET, Engine
from heedful.decode.hypothesis import Hypothesis, Shifted, Wu
from heedful.decode.query import Query, Source
from heedful.decode.scorer import Ensemble, Scorer, SingleModel
from heedful.decode.settings import SearchSettings
from heedful.decode.shortlist import SPECIAL
from heedful.decode.ticket import Ticket
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, LanguageModel, set_precision

_MORE: Final = 5  # tokens that a target may have more than its source

# --- models -----------------------------------------------------------------------------------------------------------


class Patches(nn.Module):
    """The smallest encoder of vectors."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(6, width)

    def forward(self, source: Packed) -> Packed:
        """Read one vector per patch."""
        return source.with_values(self.linear(source.values).tanh())


SCORERS: Final = (
    *FAMILIES,
    *(f"language-{name}" for name in LANGUAGE_MODELS),
    "patches",
    "ensemble",
    "language-ensemble",
)
FEW: Final = ("post-sinusoidal", "post-alibi", "bahdanau-gru", "language-pre-learned", "ensemble", "patches")
FEW_IN_SLOTS: Final = ("post-sinusoidal", "llama", "language-rope")
IN_SLOTS: Final = (*FEW_IN_SLOTS, "pre-learned-swiglu", "patches", "language-pre-learned", "language-post-sinusoidal")
KINDS: Final = [
    pytest.param(name, in_slots, marks=() if name in few else pytest.mark.wide)
    for names, few, in_slots in ((SCORERS, FEW, False), (IN_SLOTS, FEW_IN_SLOTS, True))
    for name in names
]  # of models, and whether slots are used where they can be


@cache
def scorer_of(name: str) -> Scorer:
    """A model, or an ensemble, in float32, whose scores differ clearly, so that rounding decides nothing."""
    match name:
        case "ensemble":
            return Ensemble([_translator("post-sinusoidal"), _translator("vector-gru", seed=2)]).eval()
        case "language-ensemble":
            return Ensemble([_language_model("pre-learned"), _language_model("lstm")]).eval()
        case "patches":
            model = _translator("post-sinusoidal")
            return SingleModel(EncoderDecoder(Patches(16).to(DEVICE), model.decoder).eval())  # type: ignore[arg-type]
        case _ if name.startswith("language-"):
            return SingleModel(_language_model(name.removeprefix("language-")))
        case _:
            return SingleModel(_translator(name))


def _translator(family: str, seed: int = 1) -> EncoderDecoder:
    torch.manual_seed(seed)
    model = build_model(config_of(family, dropout=0.0), WORDS, WORDS).eval().to(DEVICE)
    open_branches(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        model.decoder.output.weight.mul_(2)
        model.decoder.output.weight[END].mul_(2)  # half of all targets end before their limits
    return model


def _language_model(family: str) -> LanguageModel:
    model = deepcopy(language_model(family)).float().to(DEVICE)
    set_precision(model, torch.float32)
    return model


# --- what they are asked ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A query, how to search for it, and the budget of a batch that it may share."""

    query: Query
    settings: SearchSettings
    batch_tokens: int = BUDGET


TREES: Final = (Trees(TreeTokens(opening=[4, 5, 6], closing=[7, 8, 9], words=[10, 11]), WORDS),)
OPTIONS: Final[Sequence[dict[str, Any]]] = (
    {"beam": 1},
    {"beam": 1, "min_length": 4, "penalty": Wu(2.0)},
    {"beam": 3, "nbest": 2},
    {"beam": 3, "nbest": 2, "penalty": Wu(1.5), "min_length": 3},
    {"beam": 2, "penalty": Shifted(1.0), "never": (7, 8, 9)},
    {"beam": 1, "sampling": Sampling(seed=3)},
    {"beam": 1, "sampling": Sampling(0.7, seed=2**40, min_p=0.05), "min_length": 2},
    {"beam": 1, "sampling": Sampling(1.4, top_k=9, top_p=0.9)},
    {"beam": 1, "sampling": Sampling(top_p=0.6, seed=8)},
    {"beam": 1, "sampling": Sampling(0.9, samples=3)},
    {"beam": 3, "no_repeat": 1},
    {"beam": 2, "constraints": TREES},
    {"beam": 1, "constraints": (NoRepeat(2),)},
)
OF_TOKENS: Final[Sequence[dict[str, Any]]] = ({"beam": 3, "constraints": (PenaliseRepetition(1.7), NoRepeat(2))},)
ATTENTIVE: Final[Sequence[dict[str, Any]]] = (
    {"beam": 1, "aligned": True},
    {"beam": 3, "nbest": 3, "coverage": 0.4, "aligned": True},
    {"beam": 1, "sampling": Sampling(seed=1, samples=2), "aligned": True, "coverage": 0.2},
)


def asked_of(name: str, seed: int, repeated: int = 1) -> list[Asked]:
    """Queries with all options, `repeated` times; some have prefixes or shortlists, and budgets differ."""
    chance, scorer = random.Random(seed), scorer_of(name)
    options = [
        *OPTIONS,
        *(() if name == "patches" else OF_TOKENS),
        *(() if scorer.continues else ATTENTIVE),
    ] * repeated
    found = []
    for number, some in enumerate(options):
        settings = SearchSettings(**{"max_extra": _MORE, **some})
        query = _query(name, chance, number)
        if not settings.constraints and chance.random() < 0.3:
            query = replace(query, prefix=[chance.randrange(12, WORDS) for _ in range(chance.randint(1, 3))])
        if name != "patches" and not scorer.continues and not settings.constraints and chance.random() < 0.2:
            query = replace(query, shortlist=np.array([*SPECIAL, *range(7, WORDS)]))
        found.append(Asked(query, settings, chance.choice((1, 60, BUDGET))))
    chance.shuffle(found)
    return found


def _query(name: str, chance: random.Random, number: int) -> Query:
    length = 4 if name.removeprefix("language-") in EVEN_PROMPTS else chance.randint(1, 6)
    tokens = [chance.randrange(4, WORDS) for _ in range(length)]
    source: Source
    match name:
        case "patches":
            source = torch.tensor([[chance.gauss(0, 1) for _ in range(6)] for _ in range(length)])
        case _ if scorer_of(name).continues:
            source = [BEGIN, *tokens]
        case _:
            source = [*tokens, END]
    return Query(source, length + _MORE, (), number, words=chance.randint(1, 3))


# --- what is found ----------------------------------------------------------------------------------------------------


def engine_of_kind(name: str, in_slots: bool) -> Engine:
    """An engine of a model, in slots where they can be used, or in waves alone."""
    return Engine(scorer_of(name), in_slots)


def found_alone(scorer: Scorer, asked: Asked) -> list[Hypothesis]:
    """The reference: one wave of one query."""
    return Engine(scorer, in_slots=False).run([asked.query], asked.settings)[0]


@cache
def all_alone(name: str, seed: int, repeated: int = 1) -> list[list[Hypothesis]]:
    """What is found for `asked_of` with the same arguments."""
    return [found_alone(scorer_of(name), asked) for asked in asked_of(name, seed, repeated)]


def add(engine: Engine, asked: Asked, **options: Any) -> Ticket:
    """Ask for it."""
    return engine.add(asked.query, asked.settings, asked.batch_tokens, **options)


def finish(engine: Engine, ticks: int = 2000) -> None:
    """Tick until nothing is under way."""
    for _ in range(ticks):
        if engine.idle:
            return
        engine.tick()
    raise AssertionError("the engine does not come to an end")


def assert_finds(ticket: Ticket, expected: Sequence[Hypothesis]) -> None:
    """Token for token, whatever the settings."""
    assert ticket.error is None
    assert ticket.found is not None
    assert_same(ticket.found, expected)


def assert_same(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    """Compare what was found."""
    assert [(h.tokens, h.complete, h.alignment) for h in found] == [
        (h.tokens, h.complete, h.alignment) for h in expected
    ]
    for mine, wanted in zip(found, expected, strict=True):
        assert mine.score == pytest.approx(wanted.score, abs=1e-4)
        assert mine.log_probability == pytest.approx(wanted.log_probability, abs=1e-4)
