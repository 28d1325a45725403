"""Scores of a translator during training: loss and perplexity on the validation corpora, others on request."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import islice

from heedful.base.errors import UserError
from heedful.data.corpora.pairs import is_blank, read_references
from heedful.data.text_form import TextForm
from heedful.data.token_store import TokenStore
from heedful.metrics.edits import Reference, uniform, variants_of
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.metrics.summed_metrics import METRICS, MetricName
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder
from heedful.tasks.shared.sequences.sequence_validation import SequenceValidator
from heedful.tasks.shared.validation import some_outputs
from heedful.tasks.translate.evaluation import compare
from heedful.tasks.translate.model import Translator


class TranslationValidator(SequenceValidator):
    """Scores a translator during training; the recipe's metric comes first."""

    def __init__(self, bundle: Bundle[EncoderDecoder], stores: Sequence[TokenStore]) -> None:
        super().__init__(bundle, stores)
        self._model = Translator(bundle)
        self.metrics: Metrics = {}
        self.samples: Sequence[tuple[str, str, str]] = ()
        if self._settings.translate or self._settings.metric in METRICS:
            _refuse_too_long_to_translate(bundle, stores)

    def _of_outputs(self) -> Mapping[str, float]:
        """Return the scores of `evaluate.metrics`, that of the recipe's metric, and those of the caller's metrics."""
        if self._settings.translate or self._settings.metric in METRICS or self.metrics:
            return self._translation()
        return {}

    def _translation(self) -> dict[str, float]:
        sources, references, languages = zip(*self._pairs, strict=True)
        with self.show("validating: translating", len(sources)) as advance:
            to = languages if any(languages) else None
            found = self._model.translate_detailed(sources, progress=advance, to=to)
        outputs = [best.text for best, *_ in found]
        self.samples = some_outputs(sources, [variants_of(one)[0] for one in references], outputs)
        compared = compare(self._model, outputs, uniform(references), languages, self._names)
        own = score_outputs(self.metrics, compared.translations, compared.references)
        return {**{name: one.score for name, one in compared.scores.items()}, **own}

    @property
    def _names(self) -> tuple[MetricName, ...]:
        """Names of the scores of outputs to report."""
        decides = tuple(name for name in METRICS if name == self._settings.metric)
        return tuple(dict.fromkeys((*self._model.recipe.evaluate.metrics, *decides)))

    @cached_property
    def _pairs(self) -> list[tuple[str, Reference, str]]:
        """Return sources, references and target languages."""
        data = self._model.recipe.data
        texts: list[tuple[str, Reference, str]] = []
        for corpus, share in zip(data.valid, self._shares, strict=True):
            rows = (row for row in read_references(corpus, data.folder, TextForm.of(data)) if _has_text(row))
            texts += [(source, reference, corpus.to) for source, reference in islice(rows, share)]
        return texts


def _has_text(row: tuple[str, Reference]) -> bool:
    """Whether a source and one of its references are not blank."""
    return not all(is_blank((row[0], variant)) for variant in variants_of(row[1]))


def _refuse_too_long_to_translate(bundle: Bundle[EncoderDecoder], stores: Sequence[TokenStore]) -> None:
    """Refuse a source that is too long for a search, before training and not at its first validation."""
    most = bundle.recipe.decode.max_source
    longest = max((int(store.lengths("source").max()) for store in stores), default=0)
    if longest > most:
        raise UserError(
            f"`data.valid` has a source of {longest:,} tokens, but at most {most:,} are translated "
            "(`decode.max_source`): leave the pair out, or raise it."
        )
