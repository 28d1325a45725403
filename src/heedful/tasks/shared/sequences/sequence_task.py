"""What tasks that map one sequence to another have in common: data, objective, batches of pairs, validation."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch

from heedful.base.errors import UserError
from heedful.config.model.transformer import TransformerModel
from heedful.config.recipe import Recipe
from heedful.data.batch_layout import CPU_MULTIPLE, StaticShape
from heedful.data.batches.pairs import PairCollator, pair_costs
from heedful.data.epochs.loader import Collator, RowFeed
from heedful.data.epochs.plan import batches_by_length, spread
from heedful.data.prepare.pairs import prepare
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.language.perplexity import Likelihood, likelihood
from heedful.models.bundle import Bundle
from heedful.models.limits import source_limit
from heedful.models.networks import EncoderDecoder
from heedful.tasks.shared.sequences.token_scores import LONGEST_SCORED
from heedful.tasks.shared.static_shapes import static_layout
from heedful.tasks.shared.task import Task
from heedful.tasks.shared.validation import Asked, Validator, refuse_diverged
from heedful.training.objectives import NextToken

_SHORTEST: Final = 8  # tokens: batches of sentences that are all shorter leave some of the budget unused


class SequenceTask(Task):
    """Learns the next token of a target from pairs of sequences."""

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; given vocabularies are kept."""
        return prepare(recipe, say, given)

    def objective(self, recipe: Recipe, prepared: Prepared) -> NextToken:
        """Make the objective that training minimises."""
        return NextToken(recipe.label_smoothing)

    def feed(self, recipe: Recipe, prepared: Prepared) -> RowFeed[Any]:
        """Make the training batches. Which sentences share a batch does not depend on the device."""
        return RowFeed.of(recipe, prepared, PairCollator(), _SHORTEST)

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if attention needs no padding."""
        if not isinstance(recipe.model, TransformerModel):
            return None
        return static_layout(recipe.model, recipe.data, recipe.data.max_length + 1, _SHORTEST, precision)

    def epoch_tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """Count the target tokens of an epoch, end markers included."""
        weighted = zip(prepared.train, prepared.weights, strict=True)
        return sum(weight * (store.tokens("target") + len(store)) for store, weight in weighted)

    def validator(self, bundle: Bundle[EncoderDecoder], prepared: Prepared) -> Validator:
        """Refuse pairs that cannot be scored, before training and not at the first validation."""
        _refuse_too_long(bundle, prepared.valid)
        return super().validator(bundle, prepared)

    def likelihood(self, bundle: Bundle[EncoderDecoder], prepared: Prepared, asked: Asked) -> Likelihood:
        """Return the likelihood of targets of the validation corpora; refuse one that is not finite."""
        return stored_likelihood(bundle, PairCollator(), prepared.valid, asked)


def stored_likelihood(
    bundle: Bundle[Any], collator: Collator[Any], stores: Sequence[TokenStore], asked: Asked
) -> Likelihood:
    """Return the likelihood of what rows of stores predict; refuse one that is not finite, before a model searches."""
    count = sum(map(len, stores))
    rows = spread(asked.most or count, count)
    plan = batches_by_length(collator.costs(stores, rows), batch_tokens=bundle.recipe.data.batch_tokens)
    with asked.show("validating", len(rows)) as advance:

        def batches() -> Iterator[Any]:
            for indices in plan:
                yield collator.batch(stores, rows[indices], multiple=CPU_MULTIPLE)
                advance(len(indices))

        found = likelihood(bundle.model, batches())
    refuse_diverged(found.loss)
    return found


def _refuse_too_long(bundle: Bundle[EncoderDecoder], stores: Sequence[TokenStore]) -> None:
    """Refuse a pair that needs more positions than the model has."""
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
