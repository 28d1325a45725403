"""A trained translator: text in, text out."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Unpack, cast, overload

from heedful.base.arguments import check_flag, check_one_each, check_several, check_text, check_texts
from heedful.base.errors import UserError
from heedful.base.options import show_options
from heedful.config.decode import SearchOptions
from heedful.data.corpora.in_memory import read_rows
from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.words.planner import WordPlanner
from heedful.decode.query import Query, bounded, text_queries
from heedful.decode.search import ProgressCallback
from heedful.explain.explanation import Explanation
from heedful.explain.generators import explain_pair
from heedful.explain.texts import explain_swapped, refuse_blank
from heedful.metrics.edits import Reference, uniform, variants_of
from heedful.metrics.language.perplexity import Likelihood
from heedful.metrics.own_metrics import GivenMetrics, MetricNames, check_metrics, metrics_by_name
from heedful.metrics.summed_metrics import metric_names
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder
from heedful.tasks.shared.answering.streaming import CHUNK, answer_stream
from heedful.tasks.shared.loaded_model import listed
from heedful.tasks.shared.sequences.asked import Asked, Found
from heedful.tasks.shared.sequences.measuring import MeasuredPairs
from heedful.tasks.shared.sequences.pipeline import Asking
from heedful.tasks.shared.sequences.search_options import SearchRequest, refuse_nbest, resolve
from heedful.tasks.shared.sequences.text_codec import Languages
from heedful.tasks.shared.sequences.text_evaluation import scoring_of
from heedful.tasks.shared.sequences.token_scores import END_PIECE
from heedful.tasks.translate.evaluation import TranslationEvaluation, each_variant
from heedful.tasks.translate.lexicon import Lexicon, read_lexicon
from heedful.tasks.translate.rules import TRANSLATE
from heedful.tasks.translate.scoring import NBestList, PairScore, Reranked, rerank, score_tokens
from heedful.tasks.translate.translation import BLANK, DetailedOptions, ExplainOptions, translations_of
from heedful.tasks.translate.translation import Translation as Translation
from heedful.tasks.translate.word_rules import WordRules, ask_with_words


class Translator(MeasuredPairs):
    """A trained model with its recipe and tokenizers, or an ensemble with those of the first model."""

    _rules = TRANSLATE
    _handled = "translated"
    _writes = "translation"

    def __init__(self, bundle: Bundle[EncoderDecoder], *others: Bundle[EncoderDecoder]) -> None:
        super().__init__(bundle, *others)
        self._planner = WordPlanner(bundle.vocabularies["target"])

    @cached_property
    def _lexicon(self) -> Lexicon:
        """What shortlists are made of; it is read when the first one is asked for."""
        return read_lexicon(self.bundle.folder, self.vocabularies)

    @overload
    def translate(self, texts: str, **options: Unpack[SearchOptions]) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, texts: Iterable[str], **options: Unpack[SearchOptions]) -> list[str]: ...
    @show_options(SearchOptions)
    def translate(self, texts: str | Iterable[str], **options: Unpack[SearchOptions]) -> str | list[str]:
        """Translate texts, or one text. A blank one stays blank."""
        refuse_nbest(options, "translate")
        if isinstance(texts, str):
            return self.translate([texts], **options)[0]
        return [best.text for best, *_ in self.translate_detailed(texts, **options)]

    @overload
    def translate_detailed(self, texts: str, **options: Unpack[DetailedOptions]) -> list[Translation]: ...  # type: ignore[overload-overlap]
    @overload
    def translate_detailed(
        self, texts: Iterable[str], **options: Unpack[DetailedOptions]
    ) -> list[list[Translation]]: ...
    @show_options(SearchOptions)
    def translate_detailed(
        self,
        texts: str | Iterable[str],
        *,
        nbest: int = 1,
        name: str = "texts",
        progress: ProgressCallback = lambda ready: None,
        **options: Unpack[SearchOptions],
    ) -> list[Translation] | list[list[Translation]]:
        """Return the N best translations of each text, or of one text, best first; fewer if the search found no more.

        `name` is the texts' name in messages; `progress` is called with the number of sentences finished since the
        last call.
        """
        request = self._request(nbest, options)
        rules = self._rules_of(request)
        checked = check_texts([texts] if isinstance(texts, str) else texts, name)
        asked = self._ask(checked, request, rules, name, 1)
        found = list(self._answer(asked, request, len(checked), progress))
        return found[0] if isinstance(texts, str) else found

    @show_options(SearchOptions)
    def stream(self, texts: Iterable[str], **options: Unpack[SearchOptions]) -> Iterator[str]:
        """Translate an endless or a very large number of texts, some at a time, in order."""
        refuse_nbest(options, "stream")
        return (best.text for best, *_ in self.stream_detailed(texts, **options))

    @show_options(SearchOptions)
    def stream_detailed(
        self,
        texts: Iterable[str],
        *,
        nbest: int = 1,
        chunk: int = CHUNK,
        ready: Callable[[], bool] = lambda: True,
        name: str = "texts",
        progress: ProgressCallback = lambda ready: None,
        **options: Unpack[SearchOptions],
    ) -> Iterator[list[Translation]]:
        """Yield the N best translations of each text of a stream, `chunk` texts at a time.

        Fewer are taken when `ready` says that the next one has not arrived yet. `name` is the stream's name in
        messages. Before an error is raised, the translations of all lines before the faulty one are yielded.
        """
        request = self._request(nbest, options)  # here, so that errors are raised before the first text is read
        check_several(texts, name)
        return self._stream(texts, self._asking(request, name), request, chunk=chunk, ready=ready, progress=progress)

    def asking(self, nbest: int, options: SearchOptions, name: str = "texts") -> Asking[str, list[Translation]]:
        """Return what texts ask of an engine with some options: see `stream_detailed`."""
        return self._asking(self._request(nbest, options), name)

    def _asking(self, request: SearchRequest, name: str) -> Asking[str, list[Translation]]:
        rules = self._rules_of(request)
        request.refuse_lists()
        return lambda part, first: self._ask(check_texts(part, name, first), request, rules, name, first)

    @show_options(SearchOptions)
    def evaluate(
        self,
        data: object,
        *,
        name: str = "data",
        progress: ProgressCallback = lambda ready: None,
        metrics: GivenMetrics | MetricNames | None = None,
        **options: Unpack[SearchOptions],
    ) -> TranslationEvaluation:
        """Translate sources and compare with their references: BLEU, chrF, exact matches, perplexity.

        `data` are pairs in any form that `heedful.train` takes: tuples, dictionaries, columns, frames; a target may be
        a list of variants of which each is right. `name` is their name in messages; `progress` is called with the
        number of sentences finished since the last call. `metrics` are names of scores, such as `["per", "wer"]`, or
        functions of your own by name, which get the translations and the references: see `heedful.Metric`.
        """
        names = metrics_by_name(metrics)
        own = {} if names else check_metrics(metrics, self.recipe.rules)
        rows = [(str(row["source"]), row["target"]) for row in read_rows(data, TRANSLATE, name, several=True)]
        return self.evaluate_rows(rows, name=name, progress=progress, metric=names, **options).with_metrics(own)

    def evaluate_rows(
        self,
        rows: Sequence[tuple[str, Reference]],
        *,
        name: str = "texts",
        progress: ProgressCallback = lambda ready: None,
        metric: Sequence[str] | None = None,
        likelihood: Likelihood | None = None,
        most_tokens: int | None = None,
        **options: Unpack[SearchOptions],
    ) -> TranslationEvaluation:
        """Translate sources and compare with their references; also compute the likelihood of the references.

        A reference is a text, or a tuple of variants of which each is right. `metric` are names of scores, by default
        those of the recipe's `evaluate.metrics`. A pair with a blank side counts in all scores but the likelihood,
        which is that of all variants, unless it is given. `name` is the corpus's name in messages. A translation ends
        after `most_tokens`. If the recipe sets `evaluate.detokenize`, detokenized text is compared. With the option
        `raw` both sides are ordinary text, and are compared as such.
        """
        sources, references = [source for source, _ in rows], uniform([reference for _, reference in rows])
        if not any(source.strip() for source in sources):
            raise UserError(f"{name} has no sentence to translate.")
        shown = self.recipe.evaluate.metrics if metric is None else metric_names(metric)
        raw = options.get("raw", False)
        inputs = self.encode(sources, options.get("to"), raw=raw, name=name)
        languages = [self.wording.language(source) for source in inputs]
        if likelihood is None:
            split = each_variant(self.wording.split_target, references, languages) if raw else references
            likelihood = self._likelihood(inputs, split, name)
        began = time.perf_counter()
        request = self._request(1, options)
        asked = self._ask(sources, request, self._rules_of(request), name, 1, most_tokens)
        found = [best for best, *_ in self._answer(asked, request, len(sources), progress)]
        seconds = time.perf_counter() - began
        scoring = scoring_of(self.recipe)
        texts, expected = self.in_scored_form([best.text for best in found], references, languages, raw)
        if raw and scoring.bleu_tokenize == "none":
            scoring = scoring._replace(bleu_tokenize="13a")
        return TranslationEvaluation(
            inputs=tuple(sources),
            best=tuple(found),
            texts=tuple(texts),
            references=expected,
            shown=tuple(shown),
            likelihood=likelihood,
            seconds=seconds,
            scoring=scoring,
        )

    def in_scored_form(
        self, texts: Sequence[str], references: Sequence[Reference], languages: Sequence[str | None], raw: bool = False
    ) -> tuple[Sequence[str], tuple[Reference, ...]]:
        """Return translations and references as they are compared: detokenized, if the recipe says so."""
        wording = self.wording
        expected = each_variant(lambda text, _: wording.normalise(text), references, languages)
        if not self.recipe.evaluate.detokenize or raw:
            return texts, expected
        return list(map(wording.ordinary, texts, languages)), each_variant(wording.ordinary, expected, languages)

    def _likelihood(self, inputs: Sequence[Sequence[int]], references: Sequence[Reference], name: str) -> Likelihood:
        """Return the likelihood of all variants of references, given the sources' pieces; not of those with none."""
        numbers = [len(variants_of(reference)) for reference in references]
        inputs = [source for source, number in zip(inputs, numbers, strict=True) for _ in range(number)]
        variants = [text for reference in references for text in variants_of(reference)]
        targets = self.wording.encode_target(variants, inputs)
        self.check_lengths(inputs, name)
        self.check_targets(targets, name)
        pairs = [pair for pair in zip(inputs, targets, strict=True) if all(pair)]
        if not pairs:
            return Likelihood(0.0, 0)
        sides = [source for source, _ in pairs], [target for _, target in pairs]
        found = score_tokens(self.networks, *sides, self.recipe.data.batch_tokens)
        return Likelihood(-sum(map(sum, found)), sum(map(len, found)))

    def score(self, sources: Sequence[str], targets: Sequence[str], to: Languages = None) -> list[PairScore]:
        """Score each target as a translation of its source: log P of the target, and of each of its pieces.

        The texts are in the form that the model itself reads and writes.
        """
        sources, targets = check_texts(sources, "sources"), check_texts(targets, "targets")
        check_one_each(len(sources), "source", len(targets), "target")
        return self._score_pairs(sources, targets, to, "texts", 1)

    def score_stream(
        self,
        pairs: Iterable[tuple[str, str]],
        to: str | None = None,
        *,
        chunk: int = CHUNK,
        ready: Callable[[], bool] = lambda: True,
        name: str = "texts",
    ) -> Iterator[PairScore]:
        """Score an endless or very large number of (source, target) pairs, `chunk` of them at a time, in order.

        `ready`, `name` and errors are as in `stream_detailed`.
        """

        def scored(part: Sequence[tuple[str, str]], first: int) -> list[PairScore]:
            return self._score_pairs([source for source, _ in part], [target for _, target in part], to, name, first)

        return answer_stream(pairs, scored, chunk=chunk, ready=ready)

    def rerank(
        self,
        source: str,
        candidates: Sequence[str],
        scores: Sequence[float] | None = None,
        *,
        weight: float = 0.0,
        length_penalty: float | None = None,
        to: str | None = None,
    ) -> list[Reranked]:
        """Order candidate translations of a source, of any system, by log P / length penalty, best first.

        With a `weight`, the system's own `scores` count too: the order is by the model's score + weight * theirs. The
        length penalty is that of the recipe's [decode], with another alpha if `length_penalty` is given.
        """
        listed = NBestList.of(check_text(source, "`source`"), check_texts(candidates, "candidates"), scores)
        score = partial(self.score_stream, to=to, name="candidates")
        return next(rerank(score, self.recipe.decode, [listed], weight=weight, length_penalty=length_penalty))[1]

    @show_options(ExplainOptions)
    def explain(
        self, text: str, target: str | None = None, *, top: int = 5, **options: Unpack[ExplainOptions]
    ) -> Explanation:
        """Return all weights and token probabilities of the best translation, or of a given one: see `Explanation`.

        Each token has `top` runners-up. Of an ensemble, the first model is explained.
        """
        refuse_blank(check_text(text, "`text`"))
        swapped = options.pop("swapped", None)
        if swapped is not None:
            return explain_swapped(lambda other: self.explain(other, target, top=top, **options), text, swapped)
        gradients = check_flag("gradients", options.pop("gradients", False))
        recorded = check_flag("search", options.pop("search", False))
        searched = cast(SearchOptions, options)
        if target is None:
            (best, *_), *_ = self.translate_detailed([text], **searched)
        else:
            sources = self.encode([text], options.get("to"), raw=bool(options.get("raw")))
            (tokens,) = self.wording.encode_target([check_text(target, "`target`")], sources)
            self.check_targets([tokens], "`target`")
            best = Translation(target, 0.0, tuple(tokens), True)
        found = self.explain_found(text, best, top, options.get("to"), bool(options.get("raw")), gradients)
        if not recorded or target is not None:
            return found
        request = self._request(1, searched)
        if request.risk is not None or request.shortlist or request.terms or request.require or request.forbid:
            return found  # none but a plain beam search is recorded
        (query,) = self._queries(self.encode([text], request.to, raw=request.raw), request, 1)
        return replace(found, search=self._record(query, request.settings, best.tokens))

    def explain_found(
        self,
        text: str,
        found: Translation,
        top: int = 5,
        to: Languages = None,
        raw: bool = False,
        gradients: bool = False,
    ) -> Explanation:
        """Explain a translation that a search found."""
        (source,) = self.encode([text], to, raw=raw)
        read = explain_pair(self.network, self.vocabularies, source, found.tokens, found.complete, top, gradients)
        return read.explanation(self.recipe, text, found.text)

    def _score_pairs(
        self, sources: Sequence[str], targets: Sequence[str], to: Languages, name: str, first: int
    ) -> list[PairScore]:
        inputs = self.encode(sources, to, name=name, first=first)
        self.wording.check_lines(targets, name, first)
        outputs = self.wording.encode_target(targets, inputs)
        self.check_lengths(inputs, name, first)
        self.check_targets(outputs, name, first)
        scored = score_tokens(self.networks, inputs, outputs, self.recipe.data.batch_tokens)
        return [
            PairScore((*self.vocabularies["target"].pieces(ids), END_PIECE), tuple(log_p))
            for ids, log_p in zip(outputs, scored, strict=True)
        ]

    def encode(
        self, texts: Sequence[str], to: Languages = None, *, raw: bool = False, name: str = "texts", first: int = 1
    ) -> list[list[int]]:
        """Return the source pieces of texts, without markers; none for a blank text.

        `name` is the texts' name in messages, `first` the number of their first line.
        """
        return self.wording.encode(texts, to, raw, name, first)

    def _found(self, text: str, to: str | None) -> list[int]:
        (best, *_), *_ = self.translate_detailed([text], to=to) if to else self.translate_detailed([text])
        return [*best.tokens, END] if best.complete else [*best.tokens]

    def _request(self, nbest: int, options: SearchOptions) -> SearchRequest:
        return resolve(options, self.recipe.decode, nbest, self.vocabularies["target"].tags.values())

    def _queries(self, sources: Sequence[Sequence[int]], request: SearchRequest, first: int) -> list[Query]:
        """Return the queries of all sources but blank ones; `first` is the number of the first line."""
        prefixes = self.wording.encode_prefixes("" if request.prefix is None else request.prefix, sources, first)
        queries = text_queries(sources, request.settings.max_extra, prefixes, first - 1)
        queries = [query for query, source in zip(queries, sources, strict=True) if source]
        return self._lexicon.add_to(queries) if request.shortlist else queries

    def _ask(
        self,
        texts: Sequence[str],
        request: SearchRequest,
        rules: WordRules,
        name: str,
        first: int,
        most_tokens: int | None = None,
    ) -> Asked[list[Translation]]:
        """Ask for the translations of each text; `first` is the number of the first line."""
        sources = self.encode(texts, request.to, raw=request.raw, name=name, first=first)
        self._check_sources(sources, request.max_source, name, first)
        automata = {number: one for number, one in enumerate(rules.automata(texts), first - 1) if one is not None}
        queries = bounded(self._queries(sources, request, first), most_tokens, request.settings.min_length)
        spoken = [source for source in sources if source]

        def then(found: Found) -> list[list[Translation]]:
            translated = request.choose(translations_of(self, spoken, self._check_found(found), request.raw))
            return [next(translated) if source else [BLANK] for source in sources]

        return ask_with_words(queries, request, automata, self._scorer.longest, then)

    def _rules_of(self, request: SearchRequest) -> WordRules:
        return WordRules(request, self.wording, self._planner)

    def _own_facts(self) -> Iterator[str]:
        yield from super()._own_facts()
        if languages := list(self.vocabularies["source"].tags):
            yield f"to {listed(languages)}"
