"""The task of captioners: images and sentences about them, the next token of a caption, exact matches and BLEU."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from heedful.base.progress import ShowProgress, show_nothing
from heedful.config.corpora.any import AnyCorpus
from heedful.config.model.mixed import CaptionerModel
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.config.task_rules import TaskRules
from heedful.data.batches.images import ImageCollator
from heedful.data.corpora.images import read_captioned
from heedful.data.epochs.loader import RowFeed
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.networks import ImageCaptioner
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.tasks.caption.data import CaptionCollator, prepare_captions
from heedful.tasks.caption.evaluation import CaptionEvaluation, evaluate_captions
from heedful.tasks.caption.model import Captioner
from heedful.tasks.caption.reinforce import RewardedCaptions
from heedful.tasks.caption.rules import CAPTION
from heedful.tasks.caption.validation import CaptionValidator
from heedful.tasks.shared.task import Task
from heedful.training.objectives import Captions


class CaptionTask(Task):
    """Describes images."""

    rules: TaskRules = CAPTION
    model_type = Captioner

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Tokenize the captions and decode the images; a given vocabulary is kept."""
        return prepare_captions(recipe, say, given)

    def objective(self, recipe: Recipe, prepared: Prepared) -> Captions:
        """Make the objective that training minimises."""
        kind = RewardedCaptions if model_of(recipe, CaptionerModel).decoder.choice == "reinforce" else Captions
        return kind(recipe.label_smoothing, Augmentation(**recipe.train.augmentation.model_dump()))

    def feed(self, recipe: Recipe, prepared: Prepared) -> RowFeed[Any]:
        """Make the training batches. Which captions share a batch does not depend on the device."""
        return RowFeed.of(recipe, prepared, collator_of(recipe))

    def validator(self, bundle: Bundle[ImageCaptioner], prepared: Prepared) -> CaptionValidator:
        """Make the validator that scores the model during training; the recipe's metric comes first."""
        return CaptionValidator(bundle, prepared.valid, collator_of(bundle.recipe))

    def epoch_tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """Count the tokens of an epoch's captions, end markers included."""
        weighted = zip(prepared.train, prepared.weights, strict=True)
        return sum(weight * (store.tokens("text") + len(store)) for store, weight in weighted)

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model: a command, and a call in Python on `model`."""
        return f"heedful caption {folder} photo.jpg", 'caption(["photo.jpg"])'

    def evaluate(
        self,
        model: Captioner,
        corpus: AnyCorpus,
        folder: str = "",
        options: Mapping[str, Any] | None = None,
        show: ShowProgress = show_nothing,
    ) -> CaptionEvaluation:
        """Describe the images of a corpus and compare with their captions; `options` are those of the search."""
        rows, asked = list(read_captioned(corpus, folder)), dict(options or {})
        metrics = asked.pop("metric", None)
        with show("describing", len(rows)) as progress:
            return evaluate_captions(model, rows, name=corpus.title, progress=progress, metrics=metrics, **asked)


def collator_of(recipe: Recipe) -> CaptionCollator:
    """Return the collator that makes the model's input."""
    encoder = model_of(recipe, CaptionerModel).encoder
    return CaptionCollator(ImageCollator(encoder.patch, encoder.class_token))
