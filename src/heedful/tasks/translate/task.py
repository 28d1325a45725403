"""The task of translators: pairs of sentences, the next token of the target, BLEU and chrF."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AnyCorpus
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.data.corpora.pairs import is_blank, read_references
from heedful.data.prepare.prepared import Prepared
from heedful.data.text_form import TextForm
from heedful.metrics.edits import Reference, uniform, variants_of
from heedful.metrics.rows import TEXT_METRICS
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder
from heedful.tasks.shared.line import Line
from heedful.tasks.shared.sequences.sequence_task import SequenceTask
from heedful.tasks.shared.sequences.text_evaluation import score_texts
from heedful.tasks.shared.task import Validator
from heedful.tasks.shared.validation import Asked, Sample, some_outputs
from heedful.tasks.translate.baseline import Dictionary, sample_pairs
from heedful.tasks.translate.evaluation import TranslationEvaluation
from heedful.tasks.translate.model import Translator
from heedful.tasks.translate.rules import TRANSLATE
from heedful.tasks.translate.service import TranslateService

# What validations write at most of one line: that many tokens, or that many times `data.max_length`.
_MOST_TOKENS: Final = 500
_TIMES_LENGTH: Final = 4


class TranslateTask(SequenceTask):
    """Translates one sequence into another."""

    rules: TaskRules = TRANSLATE
    model_type = Translator
    service_type = TranslateService
    doing = "translating"

    def validator(self, bundle: Bundle[EncoderDecoder], prepared: Prepared) -> Validator:
        """Refuse pairs that cannot be scored or translated, before training and not at the first validation."""
        made, recipe = super().validator(bundle, prepared), bundle.recipe
        longest = max((int(store.lengths("source").max()) for store in prepared.valid), default=0)
        settings, most = recipe.train.validation, recipe.decode.max_source
        if (settings.translate or settings.metric in TEXT_METRICS) and longest > most:
            raise UserError(
                f"`data.valid` has a source of {longest:,} tokens, but at most {most:,} are translated "
                "(`decode.max_source`): leave the pair out, or raise it."
            )
        return made

    def validation_rows(self, recipe: Recipe) -> Iterator[tuple[str, Reference, str]]:
        """Yield pairs with their target languages, but no blank ones."""
        for corpus in recipe.data.valid:
            for source, reference in read_references(corpus, recipe.data.folder, TextForm.of(recipe.data)):
                if not all(is_blank((source, variant)) for variant in variants_of(reference)):
                    yield source, reference, corpus.to

    def evaluate_sample(self, model: Translator, rows: Sequence[Any], **options: Any) -> TranslationEvaluation:
        """Translate pairs as the recipe says; their scores are those of `evaluate.metrics`, and the recipe's metric."""
        languages = [to for *_, to in rows]
        pairs = [(source, reference) for source, reference, _ in rows]
        # An untrained model ends no translation: that of a line of thousands of tokens would take longer than the rest.
        most = max(_MOST_TOKENS, _TIMES_LENGTH * model.recipe.data.max_length)
        return model.evaluate_rows(pairs, to=languages if any(languages) else None, most_tokens=most, **options)

    def written_by_line(
        self, bundle: Bundle[EncoderDecoder], prepared: Prepared, rows: Sequence[Any], asked: Asked
    ) -> Line:
        """Score word-by-word translations of the same sources; see `baseline.py`."""
        model: Translator = self.model_in_use(bundle)
        pairs, sample = sample_pairs(prepared.train, bundle.vocabularies)
        dictionary, wording = Dictionary(pairs), model.wording
        asked_for = [wording.without_tag(source, to) for source, _, to in rows]
        said = [dictionary.translate(wording.source_words(text, raw=False), language) for language, text in asked_for]
        references = uniform([reference for _, reference, _ in rows])
        texts, expected = model.in_scored_form(said, references, [language or None for language, _ in asked_for])
        return Line(score_texts(TranslationEvaluation, bundle.recipe, asked.metric, texts, expected), sample)

    def samples(self, rows: Sequence[Any], found: TranslationEvaluation) -> Sequence[Sample]:
        """Return a few translations, as the model wrote them."""
        references = [variants_of(reference)[0] for _, reference, _ in rows]
        return some_outputs(found.inputs, references, [best.text for best in found.best])

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model: a command, and a call in Python on `model`."""
        to = next((corpus.to for corpus in recipe.data.train if corpus.to), "")
        option, argument = (f" --to {to}", f', to="{to}"') if to else ("", "")
        return f"heedful translate {folder}{option} < text.txt", f'translate(["..."]{argument})'

    def corpus_options(self, corpus: AnyCorpus) -> Mapping[str, Any]:
        """Return the target language."""
        return {"to": corpus.to or None}

    def read_corpus(self, model: object, corpus: AnyCorpus, folder: str) -> Iterable[tuple[str, Reference]]:
        """Read pairs of a source and its reference."""
        return read_references(corpus, folder)
