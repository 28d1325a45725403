"""The task of translators: pairs of sentences, the next token of the target, BLEU and chrF."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heedful.base.progress import ShowProgress, show_nothing
from heedful.config.corpora.any import AnyCorpus
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.data.corpora.pairs import read_references
from heedful.data.prepare.prepared import Prepared
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder
from heedful.tasks.shared.sequences.sequence_task import SequenceTask
from heedful.tasks.translate.evaluation import TranslationEvaluation, evaluate
from heedful.tasks.translate.model import Translator
from heedful.tasks.translate.rules import TRANSLATE
from heedful.tasks.translate.validation import TranslationValidator


class TranslateTask(SequenceTask):
    """Translates one sequence into another."""

    rules: TaskRules = TRANSLATE
    model_type = Translator

    def validator(self, bundle: Bundle[EncoderDecoder], prepared: Prepared) -> TranslationValidator:
        """Make the validator that scores the model during training; the recipe's metric comes first."""
        return TranslationValidator(bundle, prepared.valid)

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
        rows = list(read_references(corpus, folder))
        sources, references = [source for source, _ in rows], [reference for _, reference in rows]
        asked: dict[str, Any] = {**(options or {}), "to": corpus.to or None}
        metrics = asked.pop("metric", None)
        with show("translating", len(rows)) as progress:
            return evaluate(model, sources, references, name=corpus.title, progress=progress, metrics=metrics, **asked)
