"""The task of captioners: images and sentences about them, the next token of a caption, exact matches and BLEU."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from heedful.config.corpora.containers import AnyCorpus
from heedful.config.model.mixed import CaptionerModel
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules, model_of
from heedful.data.corpora.images import Captioned, read_captioned
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.networks import ImageCaptioner
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.tasks.caption.baseline import nearest_captions
from heedful.tasks.caption.data import CaptionCollator, prepare_captions
from heedful.tasks.caption.evaluation import CaptionEvaluation
from heedful.tasks.caption.model import Captioner, caption_collator, scored_references
from heedful.tasks.caption.objective import Captions, RewardedCaptions
from heedful.tasks.caption.rules import CAPTION
from heedful.tasks.caption.service import CaptionService
from heedful.tasks.shared.line import Line
from heedful.tasks.shared.sequences.sequence_task import SearchingTask, refuse_long_row
from heedful.tasks.shared.sequences.text_evaluation import score_texts
from heedful.tasks.shared.task import Validator
from heedful.tasks.shared.validation import Asked


class CaptionTask(SearchingTask):
    """Describes images."""

    rules: TaskRules = CAPTION
    model_type = Captioner
    service_type = CaptionService
    arguments = ("photo.jpg", '["photo.jpg"]')
    doing = "describing"
    written = "text"

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Tokenize the captions and decode the images; a given vocabulary is kept."""
        return prepare_captions(recipe, say, given)

    def objective(self, recipe: Recipe, prepared: Prepared) -> Captions:
        """Make the objective that training minimises."""
        kind = RewardedCaptions if model_of(recipe, CaptionerModel).decoder.choice == "reinforce" else Captions
        return kind(recipe.label_smoothing, Augmentation(**recipe.train.augmentation.model_dump()))

    def validator(self, bundle: Bundle[ImageCaptioner], prepared: Prepared) -> Validator:
        """Refuse captions that cannot be scored, before training and not at the first validation."""
        longest = max((int(store.lengths(self.written).max()) + 1 for store in prepared.valid if len(store)), default=0)
        refuse_long_row(bundle.recipe, longest, bundle.model.decoder.longest, "caption", "the caption")
        return super().validator(bundle, prepared)

    def collator(self, recipe: Recipe) -> CaptionCollator:
        """Return what makes batches of captions with their images."""
        return caption_collator(recipe)

    def validation_rows(self, recipe: Recipe) -> Iterable[Captioned]:
        """Read images with their captions, but none without any."""
        corpora = (read_captioned(corpus, recipe.data.folder) for corpus in recipe.data.valid)
        return (row for corpus in corpora for row in corpus if any(map(str.strip, row.captions)))

    def written_by_line(self, bundle: Bundle[Any], prepared: Prepared, rows: Sequence[Captioned], asked: Asked) -> Line:
        """Score the captions of the nearest training images; see `baseline.py`."""
        model: Captioner = self.model_in_use(bundle)
        tokens, sample = nearest_captions(prepared.train, model.decode([row.image for row in rows]))
        texts = bundle.vocabularies["text"].decode_batch(tokens)
        references = scored_references(model.references(rows))
        return Line(score_texts(CaptionEvaluation, bundle.recipe, asked.metric, texts, references), sample)

    def read_corpus(self, model: object, corpus: AnyCorpus, folder: str) -> Iterable[Captioned]:
        """Read images with their captions."""
        return read_captioned(corpus, folder)
