"""The task of captioners: images and sentences about them, the next token of a caption, exact matches and BLEU."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from heedful.config.corpora.any import AnyCorpus
from heedful.config.model.mixed import CaptionerModel
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.config.task_rules import TaskRules
from heedful.data.corpora.images import Captioned, read_captioned
from heedful.data.epochs.loader import RowFeed
from heedful.data.epochs.plan import spread
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.rows import TEXT_METRICS
from heedful.models.bundle import Bundle
from heedful.models.networks import ImageCaptioner
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.tasks.caption.data import prepare_captions
from heedful.tasks.caption.model import Captioner, caption_collator
from heedful.tasks.caption.objective import Captions, RewardedCaptions
from heedful.tasks.caption.rules import CAPTION
from heedful.tasks.shared.sequences.sequence_task import stored_likelihood
from heedful.tasks.shared.sequences.text_evaluation import validation_names
from heedful.tasks.shared.task import Task
from heedful.tasks.shared.validation import Asked, Validated


class CaptionTask(Task):
    """Describes images."""

    rules: TaskRules = CAPTION
    model_type = Captioner
    doing = "describing"

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Tokenize the captions and decode the images; a given vocabulary is kept."""
        return prepare_captions(recipe, say, given)

    def objective(self, recipe: Recipe, prepared: Prepared) -> Captions:
        """Make the objective that training minimises."""
        kind = RewardedCaptions if model_of(recipe, CaptionerModel).decoder.choice == "reinforce" else Captions
        return kind(recipe.label_smoothing, Augmentation(**recipe.train.augmentation.model_dump()))

    def feed(self, recipe: Recipe, prepared: Prepared) -> RowFeed[Any]:
        """Make the training batches. Which captions share a batch does not depend on the device."""
        return RowFeed.of(recipe, prepared, caption_collator(recipe))

    def validate(self, bundle: Bundle[ImageCaptioner], prepared: Prepared, asked: Asked) -> Validated:
        """Predict captions of the validation corpora; also describe images greedily, if their scores are asked for."""
        predicted = stored_likelihood(bundle, caption_collator(bundle.recipe), prepared.valid, asked)
        scores, recipe = {"loss": predicted.loss, "perplexity": predicted.perplexity}, bundle.recipe
        if asked.metric not in TEXT_METRICS and not asked.outputs:
            return Validated(scores)
        corpora = [read_captioned(corpus, recipe.data.folder) for corpus in recipe.data.valid]
        rows = [row for corpus in corpora for row in corpus if any(map(str.strip, row.captions))]
        rows = [rows[index] for index in spread(asked.most or len(rows), len(rows)).tolist()]
        with asked.show("validating: describing", len(rows)) as advance:
            captioner: Captioner = self.model_in_use(bundle)
            names = validation_names(recipe, asked.metric)
            found = captioner.evaluate_rows(
                rows, name="`data.valid`", progress=advance, metric=names, likelihood=predicted, beam=1
            )
        return Validated({**scores, **found.validation_scores()}, found.texts, found.references)

    def epoch_tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """Count the tokens of an epoch's captions, end markers included."""
        weighted = zip(prepared.train, prepared.weights, strict=True)
        return sum(weight * (store.tokens("text") + len(store)) for store, weight in weighted)

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model: a command, and a call in Python on `model`."""
        return f"heedful caption {folder} photo.jpg", 'caption(["photo.jpg"])'

    def read_corpus(self, model: object, corpus: AnyCorpus, folder: str) -> Iterable[Captioned]:
        """Read images with their captions."""
        return read_captioned(corpus, folder)
