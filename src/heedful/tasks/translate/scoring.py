"""Log probabilities of given translations, for filtering corpora and for rescoring n-best lists."""

from collections.abc import Sequence
from dataclasses import dataclass

from heedful.data.batches.pairs import collate, pair_costs
from heedful.data.epochs.plan import batches_by_length
from heedful.data.token_store import TokenStore
from heedful.metrics.language.perplexity import token_log_probabilities
from heedful.models.networks import EncoderDecoder
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.shared.sequences.token_scores import TokenScores


@dataclass(frozen=True)
class PairScore(TokenScores):
    """The log probability that a model gives to each token of a target, given its source."""


def score_tokens(
    networks: Sequence[EncoderDecoder],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    batch_tokens: int,
) -> list[list[float]]:
    """Return the log probabilities of each target's tokens, then of `</s>`, by the mean probability of the networks."""
    store = TokenStore.of(source=sources, target=targets)
    plan = batches_by_length(pair_costs([store]), batch_tokens=batch_tokens)
    found: dict[int, list[float]] = {}
    with evaluation_mode(*networks):
        scored = token_log_probabilities(networks, (collate([store], indices) for indices in plan))
        for indices, batch in zip(plan, scored, strict=True):
            found.update(zip(indices.tolist(), batch, strict=True))
    return [found[row] for row in range(len(sources))]
