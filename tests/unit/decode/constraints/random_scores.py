"""A scorer with random scores, and searches with constraints over it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from heedful.base.packed import Packed
from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.protocol import Constraint
from heedful.decode.frontiers.beam import Beam
from heedful.decode.frontiers.independent import IndependentRows
from heedful.decode.frontiers.rows import Frontier
from heedful.decode.frontiers.token_scores import Draws
from heedful.decode.query import DrawStart
from heedful.decode.settings import SearchSettings

SAMPLES = 3


@dataclass(frozen=True)
class Noise:
    """A translator with random scores, and its own state: sentences leave it, and rows change places unnoticed."""

    sentences: int = 0
    beams: int = 1
    ends: bool = True
    vocabulary: int = 8
    attention_RL: None = None

    def begin(self, sources: Packed, beams: int = 1, aligned: bool = False) -> "Noise":
        return replace(self, sentences=sources.layout.sentences, beams=beams)

    def step(self, tokens_R: Tensor, state: "Noise") -> tuple[Tensor, "Noise"]:
        assert len(tokens_R) == state.sentences * state.beams
        logits_RV = torch.randn(len(tokens_R), self.vocabulary, dtype=torch.float64)
        logits_RV[:, END] += 0 if self.ends else -50
        return logits_RV, state

    def reorder(self, parents_BK: Tensor) -> "Noise":
        return self

    def narrow(self, sentences: Tensor) -> "Noise":
        return replace(self, sentences=len(sentences))


def frontier(kind: str, settings: SearchSettings, limits: list[int], constraints: tuple[Constraint, ...]) -> Frontier:
    """A search of this kind, at its start."""
    device = torch.device("cpu")
    if kind == "beam":
        return Beam.begin(limits, settings, constraints, device)
    if kind == "greedy":
        return IndependentRows.begin(limits, settings, constraints, device)
    sampling = Sampling(samples=SAMPLES)
    draws = Draws.of(sampling, [DrawStart(number) for number in range(len(limits))], max(limits), device)
    return IndependentRows.begin(limits, replace(settings, sampling=sampling), constraints, device, chooser=draws)


def search_of(kind: str, beam: int, limits: list[int], constraints: tuple[Constraint, ...]) -> Frontier:
    """A search of this kind with an n-best list as long as its beam."""
    return frontier(kind, SearchSettings(beam=beam, nbest=beam), limits, constraints)
