"""What tasks that map one sequence to another have in common: data, objective and batches of pairs."""

from collections.abc import Callable
from typing import Any, Final

import torch

from heedful.config.model.transformer import TransformerModel
from heedful.config.recipe import Recipe
from heedful.data.batch_layout import StaticShape
from heedful.data.batches.pairs import PairCollator
from heedful.data.epochs.loader import RowFeed
from heedful.data.prepare.pairs import prepare
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.tasks.shared.static_shapes import static_layout
from heedful.tasks.shared.task import Task
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
