"""Log probabilities of given texts, token by token."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from heedful.base.packed import IGNORED
from heedful.data.batch_layout import CPU_MULTIPLE
from heedful.data.batches.windows import SlidingWindows
from heedful.data.token_store import TokenStore
from heedful.models.networks import LanguageModel
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.nn.losses.cross_entropy import label_log_probabilities
from heedful.tasks.shared.sequences.token_scores import TokenScores


@dataclass(frozen=True)
class TextScore(TokenScores):
    """The log probability that a language model gives to each token of a text, given the tokens before it."""


@torch.inference_mode()
def score_tokens(
    network: LanguageModel, sequences: Sequence[Sequence[int]], length: int, stride: int, batch_tokens: int
) -> list[list[float]]:
    """Return the log probability of each token of each sequence but the first, given the tokens before it.

    The network sees at most `length` tokens at once; a longer sequence is read in windows that begin every `stride`
    tokens.
    """
    if not sequences:
        return []
    store = TokenStore.of(text=sequences)
    windows = SlidingWindows([store], length, stride, "closed", batch_tokens, CPU_MULTIPLE)
    device, output = next(network.parameters()).device, network.output
    scored = np.zeros(store.tokens("text"))
    with evaluation_mode(network):
        for planned in windows.plan():
            batch = windows.batch(planned)
            placed = batch.to(device)
            states_NE = network.next_token_states(placed)
            log_p = label_log_probabilities(states_NE, output.weight, output.bias, placed.labels).double().cpu().numpy()
            labelled = batch.labels.numpy() != IGNORED
            starts = np.cumsum(planned.lengths) - planned.lengths
            for begin, start, count in zip(planned.begins, starts, planned.lengths, strict=True):
                here = np.arange(start, start + count)[labelled[start : start + count]]
                scored[begin + 1 + here - start] = log_p[here]
    ends = np.cumsum([len(sequence) for sequence in sequences])
    return [
        scored[end - len(sequence) + 1 : end].tolist() for sequence, end in zip(sequences, ends.tolist(), strict=True)
    ]
