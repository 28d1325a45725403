"""A trained parser: sentences in, constituency trees out."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Unpack, overload

from heedful.base.arguments import check_flag, check_several, check_text, check_texts
from heedful.base.errors import UserError, option
from heedful.base.options import show_options
from heedful.base.trees import Tree, escape_brackets
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query, text_queries, token_ids
from heedful.decode.search import ProgressCallback
from heedful.explain.explanation import Explanation
from heedful.explain.generators import explain_pair
from heedful.explain.texts import explain_swapped, refuse_blank
from heedful.metrics.own_metrics import GivenMetrics, check_metrics
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder
from heedful.tasks.parse.bracketing import score_trees
from heedful.tasks.parse.evaluation import ParseEvaluation, trees_of_rows
from heedful.tasks.parse.parse import BLANK, ParseOptions
from heedful.tasks.parse.parse import Parse as Parse
from heedful.tasks.parse.rules import PARSE, leaves_of
from heedful.tasks.parse.tree_codec import TreeCodec
from heedful.tasks.shared.answering.streaming import CHUNK
from heedful.tasks.shared.sequences.asked import Asked, Found
from heedful.tasks.shared.sequences.model import SequenceModel
from heedful.tasks.shared.sequences.pipeline import Asking
from heedful.tasks.shared.sequences.search_options import SearchRequest, resolve
from heedful.tasks.shared.sequences.text_codec import Languages


class Parser(SequenceModel):
    """A trained parser with its recipe and its vocabularies, or an ensemble with those of the first model.

    It runs on the device and in the precision that `load` chose. Words are separated by spaces. A search finds trees
    over exactly the words of a sentence, unless it is `unconstrained`.
    """

    _rules = PARSE
    _handled = "parsed"
    _writes = "tree"

    def __init__(self, bundle: Bundle[EncoderDecoder], *others: Bundle[EncoderDecoder]) -> None:
        super().__init__(bundle, *others)
        self._trees = TreeCodec(bundle.vocabularies["target"], leaves_of(bundle.recipe))

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the constituents that the parser finds."""
        return self._trees.labels

    @overload
    def parse(self, texts: str, **options: Unpack[ParseOptions]) -> Tree | None: ...  # type: ignore[overload-overlap]
    @overload
    def parse(self, texts: Iterable[str], **options: Unpack[ParseOptions]) -> list[Tree | None]: ...
    @show_options(ParseOptions)
    def parse(self, texts: str | Iterable[str], **options: Unpack[ParseOptions]) -> Tree | list[Tree | None] | None:
        """Parse sentences, or one sentence. A blank one has no tree."""
        if isinstance(texts, str):
            return self.parse([texts], **options)[0]
        return [best.tree for best, *_ in self.stream_detailed(texts, **options)]

    @show_options(ParseOptions)
    def stream_detailed(
        self,
        texts: Iterable[str],
        *,
        nbest: int = 1,
        chunk: int = CHUNK,
        ready: Callable[[], bool] = lambda: True,
        name: str = "texts",
        progress: ProgressCallback = lambda ready: None,
        **options: Unpack[ParseOptions],
    ) -> Iterator[list[Parse]]:
        """Yield the N best parses of each sentence of a stream, `chunk` sentences at a time.

        Fewer are taken when `ready` says that the next one has not arrived yet. `name` is the stream's name in
        messages; `progress` is called with the number of sentences finished since the last call.
        """
        request = self._request(options, nbest)
        check_several(texts, name)
        asking = self._asking(request, name)
        return self._stream(texts, asking, request, chunk=chunk, ready=ready, progress=progress)

    def asking(self, nbest: int, options: ParseOptions, name: str = "texts") -> Asking[str, list[Parse]]:
        """Return what sentences ask of an engine with some options: see `stream_detailed`."""
        return self._asking(self._request(options, nbest), name)

    def _asking(self, request: SearchRequest, name: str) -> Asking[str, list[Parse]]:
        def asking(part: Sequence[str], first: int) -> Asked[list[Parse]]:
            queries = self._queries(check_texts(part, name, first), request, name, first)

            def then(results: Found) -> list[list[Parse]]:
                found, words = iter(self._check_found(results)), map(str.split, part)
                return [[self._parse(best, some) for best in next(found)] if some else [BLANK] for some in words]

            return Asked(queries, request.settings, request.batch_tokens, then)

        return asking

    @show_options(ParseOptions)
    def evaluate(
        self,
        data: Iterable[str | Tree | tuple[str, str]],
        *,
        name: str = "data",
        progress: ProgressCallback = lambda ready: None,
        metrics: GivenMetrics | None = None,
        **options: Unpack[ParseOptions],
    ) -> ParseEvaluation:
        """Parse the words of trees and compare with the trees: labelled F1 by evalb's rules, exact matches.

        `data` are trees, as bracketed texts or as `heedful.Tree`, or pairs of a sentence and its bracketed tree.
        `name` is their name in messages; `progress` is called with the number of sentences finished since the last
        call. `metrics` are functions of your own by name, which get lists of trees: see `heedful.Metric`.
        """
        own = check_metrics(metrics, self.recipe.rules)
        trees = trees_of_rows(check_several(data, name), name)
        return self.evaluate_rows(trees, name=name, progress=progress, **options).with_metrics(own)

    def evaluate_rows(
        self,
        rows: Sequence[Tree | None],
        *,
        name: str = "trees",
        progress: ProgressCallback = lambda ready: None,
        **options: Unpack[ParseOptions],
    ) -> ParseEvaluation:
        """Parse the words of trees and compare with the trees; blank ones are left out."""
        true = tuple(tree for tree in rows if tree is not None)
        if not true:
            raise UserError(f"{name} has no tree to compare with.")
        began = time.perf_counter()
        texts = [" ".join(tree.words) for tree in true]
        found = tuple(best.tree for best, *_ in self.stream_detailed(texts, name=name, progress=progress, **options))
        seconds = time.perf_counter() - began
        lines = tuple(tree is not None for tree in rows)
        return ParseEvaluation(true, found, score_trees(found, true), seconds, lines)

    @show_options(ParseOptions)
    def explain(
        self,
        text: str,
        *,
        top: int = 5,
        gradients: bool = False,
        search: bool = False,
        swapped: Mapping[str, str] | None = None,
        **options: Unpack[ParseOptions],
    ) -> Explanation:
        """Return the weights and token probabilities of the best parse of a sentence, and its tree.

        Probabilities are those of the network, whatever a search for trees alone allows; each token has `top`
        runners-up. With `gradients`, also return how much each word would change each token, and with `search` the life
        of the beam. `swapped` asks what if: it has words of the text and those that replace them, and `before` is the
        explanation of the text as it is. Of an ensemble, the first model is explained.
        """
        refuse_blank(check_text(text, "`text`"))
        if swapped is not None:
            return explain_swapped(
                lambda other: self.explain(other, top=top, gradients=gradients, search=search, **options), text, swapped
            )
        request = self._request(options, 1)
        (query,) = self._queries([text], request, "`text`", 1)
        asked = Asked([query], request.settings, request.batch_tokens, self._check_found)
        ((best, *_),) = self._answer(asked, request, 1, lambda ready: None)
        source, tree = token_ids(query.source)[:-1], self._parse(best, text.split()).tree
        read = explain_pair(
            self.network, self.vocabularies, source, best.tokens, best.complete, top, check_flag("gradients", gradients)
        )
        return read.explanation(
            self.recipe,
            text,
            str(tree or self.vocabularies["target"].decode(best.tokens)),
            tree="" if tree is None else str(tree),
            search=self._record(query, request.settings, best.tokens) if check_flag("search", search) else (),
        )

    def encode_sources(self, texts: Sequence[str], to: Languages, name: str, first: int) -> list[list[int]]:
        """Return the pieces of sentences as those of `SequenceModel`; their brackets are escaped."""
        return super().encode_sources([escape_brackets(text) for text in texts], to, name, first)

    def _request(self, options: ParseOptions, nbest: int) -> SearchRequest:
        """Return the options completed from the recipe; only trees are searched for, unless it is unconstrained."""
        request = resolve(options, self.recipe.decode, nbest, table=ParseOptions)
        if request.risk is not None:
            raise UserError(f"{option('mbr')} compares texts, and a parser writes trees: leave it out.")
        if options.get("unconstrained"):
            return request
        for name in ("no_repeat", "min_length"):
            if getattr(request.settings, name):
                raise UserError(f"{option(name)} would forbid trees: leave it out.")
        return replace(request, settings=replace(request.settings, constraints=(self._trees.constraint(),)))

    def _queries(self, texts: Sequence[str], request: SearchRequest, name: str, first: int) -> list[Query]:
        """Return the queries of sentences that are not blank, which count their words.

        Their limits leave room for the words, even if some have no pieces.
        """
        sources = self.encode_sources(texts, None, name, first)
        self._check_sources(sources, request.max_source, name, first)
        more, words = request.settings.max_extra, [len(text.split()) for text in texts]
        queries = text_queries(sources, more, None, first - 1)
        return [
            replace(query, words=count, limit=max(query.limit, count + more))
            for query, count in zip(queries, words, strict=True)
            if count
        ]

    def _parse(self, best: Hypothesis, words: Sequence[str]) -> Parse:
        tree = self._trees.decode(best.tokens, words) if best.complete else None
        return Parse(tuple(words), tree, best.log_probability, best.score)

    def _own_facts(self) -> Iterator[str]:
        yield from super()._own_facts()
        yield f"{len(self.labels)} labels"
