"""The task of translators: pairs of sentences, the next token of the target, BLEU and chrF."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from heedful.config.corpora import AnyCorpus
from heedful.config.model.transformer import TransformerModel
from heedful.config.recipe import Recipe
from heedful.config.rules.task_rules import TaskRules
from heedful.config.rules.translate import TRANSLATE
from heedful.data.batch_layout import CPU_MULTIPLE, StaticShape
from heedful.data.batches.pairs import PairFeed
from heedful.data.corpora.pairs import read_pairs
from heedful.data.prepare.pairs import prepare
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder
from heedful.tasks.protocol import ShowProgress, show_nothing
from heedful.tasks.shared.placement import Placement
from heedful.tasks.shared.static_shapes import static_layout
from heedful.tasks.translate.evaluation import TranslationEvaluation, evaluate
from heedful.tasks.translate.model import Translator, read_translators
from heedful.tasks.translate.validation import TranslationValidator
from heedful.training.objectives import NextToken

_SHORTEST: Final = 8  # tokens: batches of sentences that are all shorter leave some of the budget unused


class TranslateTask:
    """Translates one sequence into another."""

    rules: TaskRules = TRANSLATE

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; given vocabularies are kept."""
        return prepare(recipe, say, given)

    def objective(self, recipe: Recipe, prepared: Prepared) -> NextToken:
        """Make the objective that training minimises."""
        return NextToken(recipe.label_smoothing)

    def feed(self, recipe: Recipe, prepared: Prepared) -> PairFeed:
        """Make the training batches. Which sentences share a batch does not depend on the device."""
        data = recipe.data
        most = max(1, data.batch_tokens // _SHORTEST)
        return PairFeed(
            prepared.train, prepared.weights, recipe.train.seed, data.batch_tokens, most, multiple=CPU_MULTIPLE
        )

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if attention needs no padding."""
        if not isinstance(recipe.model, TransformerModel):
            return None
        return static_layout(recipe.model, recipe.data, recipe.data.max_length + 1, _SHORTEST, precision)

    def validator(self, bundle: Bundle[EncoderDecoder], prepared: Prepared) -> TranslationValidator:
        """Make the validator that scores the model during training; the recipe's metric comes first."""
        return TranslationValidator(bundle, prepared.valid)

    def epoch_tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """Count the target tokens of an epoch, end markers included."""
        weighted = zip(prepared.train, prepared.weights, strict=True)
        return sum(weight * (store.tokens("target") + len(store)) for store, weight in weighted)

    def load(self, folder: Path, placement: Placement, ensemble: Sequence[Path] = ()) -> Translator:
        """Load a bundle as a translator, or several with the same vocabularies that decode together."""
        return Translator(*read_translators([folder, *ensemble], placement, self.rules))

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model: a command, and a call in Python on `model`."""
        to = next((corpus.to for corpus in recipe.data.train if corpus.to), "")
        option, argument = (f" --to {to}", f', to="{to}"') if to else ("", "")
        return f"heedful translate {folder}{option} < text.txt", f'translate(["..."]{argument})'

    def evaluate(
        self,
        model: Translator,
        corpus: AnyCorpus,
        folder: str = "",
        options: Mapping[str, Any] | None = None,
        show: ShowProgress = show_nothing,
    ) -> TranslationEvaluation:
        """Translate a corpus and compare with its references; `options` are those of the search."""
        pairs = list(read_pairs(corpus, folder))
        sources, references = [source for source, _ in pairs], [target for _, target in pairs]
        asked: dict[str, Any] = {**(options or {}), "to": corpus.to or None}
        with show("translating", len(pairs)) as progress:
            return evaluate(model, sources, references, name=corpus.title, progress=progress, **asked)
