"""Scores of a translator during training: loss and perplexity on the validation corpora, BLEU and chrF on request."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

import numpy as np

from heedful.data.batch_layout import CPU_MULTIPLE
from heedful.data.batches.pairs import PairBatch, collate, pair_costs
from heedful.data.corpora.pairs import is_blank, read_pairs
from heedful.data.epochs.plan import Indices, batches_by_length
from heedful.data.text_form import TextForm
from heedful.data.token_store import TokenStore
from heedful.errors import UserError
from heedful.metrics.language.perplexity import likelihood
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.models.bundle import Bundle
from heedful.models.limits import source_limit
from heedful.models.networks import EncoderDecoder
from heedful.tasks.protocol import ShowProgress, show_nothing
from heedful.tasks.shared.validation_scores import metric_first, refuse_diverged
from heedful.tasks.translate.evaluation import compare
from heedful.tasks.translate.model import Translator
from heedful.tasks.translate.scoring import LONGEST_SCORED


class TranslationValidator:
    """Scores a translator during training; the recipe's metric comes first."""

    def __init__(self, bundle: Bundle[EncoderDecoder], stores: Sequence[TokenStore]) -> None:
        self._model, self._stores = Translator(bundle), stores
        _refuse_too_long(bundle, stores)
        self._settings = bundle.recipe.train.validation
        self.show: ShowProgress = show_nothing
        self.metrics: Metrics = {}
        self._shares = _shares([len(store) for store in stores], self._settings.max_sentences)
        if self._settings.translate or self._settings.metric in ("bleu", "chrf"):
            _refuse_too_long_to_translate(bundle, stores)

    def __call__(self) -> Mapping[str, float]:
        """Return all scores; none without validation corpora."""
        if not self._stores:
            return {}
        scores = self._likelihood()
        refuse_diverged(scores["loss"])  # before it translates
        if self._settings.translate or self._settings.metric in ("bleu", "chrf") or self.metrics:
            scores |= self._translation()
        return metric_first(scores, self._settings.metric)

    def _likelihood(self) -> dict[str, float]:
        ends = np.cumsum([len(store) for store in self._stores])
        firsts = ends - [len(store) for store in self._stores]
        rows = np.concatenate([first + np.arange(share) for first, share in zip(firsts, self._shares, strict=True)])
        costs = [cost[rows] for cost in pair_costs(self._stores)]
        plan = batches_by_length(costs, batch_tokens=self._model.recipe.data.batch_tokens)
        with self.show("validating", len(rows)) as advance:
            found = likelihood(self._model.network, self._batches([rows[indices] for indices in plan], advance))
        return {"loss": found.loss, "perplexity": found.perplexity}

    def _batches(self, plan: Sequence[Indices], advance: Callable[[int], None]) -> Iterator[PairBatch]:
        """Yield the batches of these rows, and count those that were evaluated."""
        for rows in plan:
            yield collate(self._stores, rows, multiple=CPU_MULTIPLE)
            advance(len(rows))

    def _translation(self) -> dict[str, float]:
        sources, references, languages = zip(*self._pairs, strict=True)
        with self.show("validating: translating", len(sources)) as advance:
            to = languages if any(languages) else None
            found = self._model.translate_detailed(sources, progress=advance, to=to)
        outputs = [best.text for best, *_ in found]
        compared = compare(self._model, outputs, references, languages)
        own = score_outputs(self.metrics, compared.translations, compared.references)
        return {"bleu": compared.bleu.score, "chrf": compared.chrf.score, **own}

    @cached_property
    def _pairs(self) -> list[tuple[str, str, str]]:
        """Return sources, references and target languages."""
        data = self._model.recipe.data
        texts: list[tuple[str, str, str]] = []
        for corpus, share in zip(data.valid, self._shares, strict=True):
            pairs = (pair for pair in read_pairs(corpus, data.folder, TextForm.of(data)) if not is_blank(pair))
            texts += [(source, target, corpus.to) for source, target in islice(pairs, share)]
        return texts


def _refuse_too_long_to_translate(bundle: Bundle[EncoderDecoder], stores: Sequence[TokenStore]) -> None:
    """Refuse a source that is too long for a search, before training and not at its first validation."""
    most = bundle.recipe.decode.max_source
    longest = max((int(store.lengths("source").max()) for store in stores), default=0)
    if longest > most:
        raise UserError(
            f"`data.valid` has a source of {longest:,} tokens, but at most {most:,} are translated "
            "(`decode.max_source`): leave the pair out, or raise it."
        )


def _shares(sizes: Sequence[int], most: int | None) -> list[int]:
    """Return the number of pairs of each corpus to evaluate: as even as their sizes allow, `most` in all."""
    if most is None or most >= sum(sizes):
        return list(sizes)
    shares, left = [0] * len(sizes), most
    for index, corpora in zip(sorted(range(len(sizes)), key=sizes.__getitem__), range(len(sizes), 0, -1), strict=True):
        shares[index] = min(sizes[index], left // corpora)  # the smallest first: what it lacks goes to the others
        left -= shares[index]
    return shares


def _refuse_too_long(bundle: Bundle[EncoderDecoder], stores: Sequence[TokenStore]) -> None:
    """Refuse a pair that needs more positions than the model has, before training and not at its first validation."""
    limits = [limit for limit in (source_limit(bundle.model), bundle.model.decoder.longest) if limit is not None]
    limit = min(limits, default=None)
    longest = max((int(cost.max()) for cost in pair_costs(stores)), default=0) if stores else 0
    if longest > LONGEST_SCORED:
        raise UserError(
            f"`data.valid` has a sentence of {longest:,} tokens with its end marker, but at most {LONGEST_SCORED:,} "
            "are scored: leave the pair out."
        )
    if limit is not None and longest > limit:
        key = (bundle.recipe.model.longest or (0, ""))[1]
        way_out = "raise it" if key.endswith("max_places") else 'use `model.positions = "sinusoidal"`'
        raise UserError(
            f"`data.valid` has a sentence of {longest:,} tokens with its end marker, but the model has positions for "
            f"{limit:,} (`model.{key}`): leave the pair out, or {way_out}."
        )
