"""The task of taggers: words and their labels, accuracy and F1."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from heedful.base.progress import ShowProgress, show_nothing
from heedful.config.corpora.any import AnyCorpus
from heedful.config.model.encoder_only import TaggerModel
from heedful.config.model.encoders import RecurrentLettersTable
from heedful.config.model.transformer import TransformerStack
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.config.task_rules import TaskRules
from heedful.data.batch_layout import CPU_MULTIPLE, StaticShape
from heedful.data.batches.tagged import TaggedCollator, TaggedFeed
from heedful.data.corpora.tagged import read_tagged
from heedful.data.prepare.prepared import Prepared
from heedful.data.prepare.tagged import prepare_tagged
from heedful.data.prepare.text_stores import counts_of
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.networks import WordClassifier
from heedful.tasks.shared.loaded_model import Placement
from heedful.tasks.shared.static_shapes import static_layout
from heedful.tasks.shared.task import Task
from heedful.tasks.tag.evaluation import TagEvaluation, evaluate_tagger
from heedful.tasks.tag.model import Tagger, read_tagger
from heedful.tasks.tag.rules import TAG
from heedful.tasks.tag.validation import TaggerValidator
from heedful.training.objectives import LabelSequences, WordLabels

_SHORTEST: Final = 16  # tokens: batches of sentences that are all shorter leave some of the budget unused


class TagTask(Task):
    """Labels the words of sentences."""

    rules: TaskRules = TAG

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; a given vocabulary and given labels are kept."""
        prepared = prepare_tagged(recipe, say, given)
        say(f"{len(prepared.vocabularies.labels)} labels: {_listed(prepared)}")
        return prepared

    def objective(self, recipe: Recipe, prepared: Prepared) -> WordLabels | LabelSequences:
        """Make the objective that training minimises."""
        return LabelSequences() if model_of(recipe, TaggerModel).crf else WordLabels(recipe.label_smoothing)

    def feed(self, recipe: Recipe, prepared: Prepared) -> TaggedFeed:
        """Make the training batches. Which sentences share a batch does not depend on the device."""
        tokens = recipe.data.batch_tokens
        most_words = max(int(store.lengths("words").max()) for store in prepared.train)
        return TaggedFeed(
            prepared.train,
            prepared.weights,
            TaggedCollator(most_words),
            recipe.train.seed,
            tokens,
            max(1, tokens // _SHORTEST),
            multiple=CPU_MULTIPLE,
        )

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if attention needs no padding."""
        model = model_of(recipe, TaggerModel)
        encoder = model.encoder
        if not isinstance(encoder, TransformerStack) or isinstance(model.letters, RecurrentLettersTable):
            return None
        return static_layout(encoder, recipe.data, recipe.data.max_length, _SHORTEST, precision)

    def validator(self, bundle: Bundle[WordClassifier], prepared: Prepared) -> TaggerValidator:
        """Make the validator that scores the model during training; the recipe's metric comes first."""
        return TaggerValidator(bundle, prepared.valid)

    def epoch_tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """Count the tokens of an epoch, as the model reads them."""
        collator = TaggedCollator()
        weighted = zip(prepared.train, prepared.weights, strict=True)
        return float(
            sum(weight * collator.costs([store], np.arange(len(store)))[0].sum() for store, weight in weighted)
        )

    def load(self, folder: Path, placement: Placement, ensemble: Sequence[Path] = ()) -> Tagger:
        """Load a bundle as a tagger."""
        return Tagger(read_tagger(folder, placement, self.rules))

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model: a command, and a call in Python on `model`."""
        return f"heedful tag {folder} < sentences.txt", 'tag(["..."])'

    def evaluate(
        self,
        model: Tagger,
        corpus: AnyCorpus,
        folder: str = "",
        options: Mapping[str, Any] | None = None,
        show: ShowProgress = show_nothing,
    ) -> TagEvaluation:
        """Tag a corpus and compare with its labels."""
        texts = list(read_tagged(corpus, folder))
        with show("tagging", len(texts)) as progress:
            return evaluate_tagger(model, texts, name=corpus.title, progress=progress)


def _listed(prepared: Prepared) -> str:
    """List the first ten labels and their numbers of training words."""
    counts = counts_of(prepared.train, len(prepared.vocabularies.labels))
    listed = [f"{label} ({count:,})" for label, count in zip(prepared.vocabularies.labels, counts, strict=True)]
    return ", ".join(listed[:10]) + (", ..." if len(listed) > 10 else "")
