"""Scores of a model of pairs during training: loss and perplexity on the validation corpora."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from heedful.base.errors import UserError
from heedful.base.progress import ShowProgress, show_nothing
from heedful.data.batch_layout import CPU_MULTIPLE
from heedful.data.batches.pairs import PairBatch, collate, pair_costs
from heedful.data.epochs.plan import Indices, batches_by_length
from heedful.data.token_store import TokenStore
from heedful.metrics.language.perplexity import likelihood
from heedful.models.bundle import Bundle
from heedful.models.limits import source_limit
from heedful.models.networks import EncoderDecoder
from heedful.tasks.shared.sequences.token_scores import LONGEST_SCORED
from heedful.tasks.shared.validation import metric_first, refuse_diverged


class SequenceValidator:
    """Scores a model of pairs during training: loss and perplexity, and what a subclass finds by a search."""

    def __init__(self, bundle: Bundle[EncoderDecoder], stores: Sequence[TokenStore]) -> None:
        self._bundle, self._stores = bundle, stores
        _refuse_too_long(bundle, stores)
        self._settings = bundle.recipe.train.validation
        self.show: ShowProgress = show_nothing
        self._shares = _shares([len(store) for store in stores], self._settings.max_sentences)

    def __call__(self) -> Mapping[str, float]:
        """Return all scores, the recipe's metric first; none without validation corpora."""
        if not self._stores:
            return {}
        scores = self._likelihood()
        refuse_diverged(scores["loss"])  # before it searches
        return metric_first({**scores, **self._of_outputs()}, self._settings.metric)

    def _of_outputs(self) -> Mapping[str, float]:
        """Return scores of outputs, if the recipe asks for them: they take a search."""
        return {}

    def _likelihood(self) -> dict[str, float]:
        ends = np.cumsum([len(store) for store in self._stores])
        firsts = ends - [len(store) for store in self._stores]
        rows = np.concatenate([first + np.arange(share) for first, share in zip(firsts, self._shares, strict=True)])
        costs = [cost[rows] for cost in pair_costs(self._stores)]
        plan = batches_by_length(costs, batch_tokens=self._bundle.recipe.data.batch_tokens)
        with self.show("validating", len(rows)) as advance:
            found = likelihood(self._bundle.model, self._batches([rows[indices] for indices in plan], advance))
        return {"loss": found.loss, "perplexity": found.perplexity}

    def _batches(self, plan: Sequence[Indices], advance: Callable[[int], None]) -> Iterator[PairBatch]:
        """Yield the batches of these rows, and count those that were evaluated."""
        for rows in plan:
            yield collate(self._stores, rows, multiple=CPU_MULTIPLE)
            advance(len(rows))


def _shares(sizes: Sequence[int], most: int | None) -> list[int]:
    """Return the number of pairs of each corpus to evaluate: as even as their sizes allow, `most` in all."""
    if most is None or most >= sum(sizes):
        return list(sizes)
    shares, left = [0] * len(sizes), most
    for index, corpora in zip(sorted(range(len(sizes)), key=sizes.__getitem__), range(len(sizes), 0, -1), strict=True):
        shares[index] = min(sizes[index], left // corpora)  # the smallest first: what it lacks goes to the others
        left -= shares[index]
    return shares


def _refuse_too_long(bundle: Bundle[EncoderDecoder], stores: Sequence[TokenStore]) -> None:
    """Refuse a pair that needs more positions than the model has, before training and not at its first validation."""
    limits = [limit for limit in (source_limit(bundle.model), bundle.model.decoder.longest) if limit is not None]
    limit = min(limits, default=None)
    longest = max((int(cost.max()) for cost in pair_costs(stores)), default=0) if stores else 0
    if longest > LONGEST_SCORED:
        raise UserError(
            f"`data.valid` has a sentence of {longest:,} tokens with its end marker, but at most {LONGEST_SCORED:,} "
            "are scored: leave the pair out."
        )
    if limit is not None and longest > limit:
        key = (bundle.recipe.model.longest or (0, ""))[1]
        way_out = "raise it" if key.endswith("max_places") else 'use `model.positions = "sinusoidal"`'
        raise UserError(
            f"`data.valid` has a sentence of {longest:,} tokens with its end marker, but the model has positions for "
            f"{limit:,} (`model.{key}`): leave the pair out, or {way_out}."
        )
