"""The task of translators: pairs of sentences, the next token of the target, BLEU."""

from collections.abc import Callable

import torch

from heedful.config.model.transformer import TransformerModel
from heedful.config.recipe import Recipe
from heedful.data.batch_layout import CPU_MULTIPLE, StaticShape
from heedful.data.batches.pairs import PairFeed
from heedful.data.prepare.pairs import prepare
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder
from heedful.tasks.shared.static_shapes import static_layout
from heedful.tasks.translate.validation import TranslationValidator
from heedful.training.objectives import NextToken


class TranslateTask:
    """From one sequence to another."""

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; vocabularies that are given are kept."""
        return prepare(recipe, say, given)

    def objective(self, recipe: Recipe, prepared: Prepared) -> NextToken:
        """What training minimises."""
        return NextToken(recipe.label_smoothing)

    def feed(self, recipe: Recipe, prepared: Prepared) -> PairFeed:
        """The training batches. Which sentences stand together depends on no device."""
        data = recipe.data
        most = max(1, data.batch_tokens // 8)  # sentences: shorter ones than 8 tokens leave some of the budget unused
        return PairFeed(
            prepared.train, prepared.weights, recipe.train.seed, data.batch_tokens, most, multiple=CPU_MULTIPLE
        )

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """The one shape of a GPU's batches, where attention runs straight on it."""
        if not isinstance(recipe.model, TransformerModel):
            return None
        return static_layout(recipe.model, recipe.data, recipe.data.max_length + 1, 8, precision)

    def judge(self, bundle: Bundle[EncoderDecoder], prepared: Prepared) -> TranslationValidator:
        """What scores the model in training; the recipe's metric comes first."""
        return TranslationValidator(bundle, prepared.valid)

    def tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """The target tokens of an epoch, end markers included."""
        weighted = zip(prepared.train, prepared.weights, strict=True)
        return sum(weight * (store.tokens("target") + len(store)) for store, weight in weighted)
