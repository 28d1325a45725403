"""A trained parser: sentences in, constituency trees out."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Unpack, overload

from heedful.base.arguments import check_flag, check_several, check_text, check_texts, check_whole
from heedful.base.errors import UserError, memory_faults, option
from heedful.base.options import show_options
from heedful.base.trees import Tree, escape_brackets
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query, text_queries
from heedful.decode.search import ProgressCallback, search
from heedful.decode.settings import SearchSettings
from heedful.explain.explanation import Explanation, SearchNode
from heedful.explain.generators import explain_pair, explain_search
from heedful.explain.texts import explain_swapped, refuse_blank
from heedful.metrics.own_metrics import GivenMetrics, check_metrics
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.parse.bracketing import score_trees
from heedful.tasks.parse.evaluation import ParseEvaluation, trees_of_rows
from heedful.tasks.parse.parse import BLANK, ParseOptions
from heedful.tasks.parse.parse import Parse as Parse
from heedful.tasks.parse.rules import PARSE, leaves_of
from heedful.tasks.parse.tree_codec import TreeCodec
from heedful.tasks.shared.sequences.model import SequenceModel
from heedful.tasks.shared.sequences.search_options import SearchRequest, resolve
from heedful.tasks.shared.streaming import CHUNK, answer_stream


class Parser(SequenceModel):
    """A trained parser with its recipe and its vocabularies, or an ensemble with those of the first model.

    It runs on the device and in the precision that `load` chose. Words are separated by spaces. A search finds trees
    over exactly the words of a sentence, unless it is `unconstrained`.
    """

    _rules = PARSE
    _handled = "parsed"

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
        check_several(texts, name)
        check_whole("chunk", chunk, least=1)
        request, constrained = self._request(options, nbest)

        def parsed(part: Sequence[str], first: int) -> list[list[Parse]]:
            return self._parses(check_texts(part, name, first), request, constrained, name, first, progress)

        return answer_stream(texts, parsed, chunk=chunk, ready=ready)

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
        request, constrained = self._request(options, 1)
        ((best, *_),), (source,) = self._found([text], request, constrained, "`text`", 1, lambda ready: None)
        read = explain_pair(
            self.network, self.vocabularies, source, best.tokens, best.complete, top, check_flag("gradients", gradients)
        )
        tree = self._parse(best, text.split()).tree
        nodes: tuple[SearchNode, ...] = ()
        if check_flag("search", search):
            settings, query = self._settings(request, constrained), self._query(source, len(text.split()), 0, request)
            with evaluation_mode(*self.networks):
                nodes = explain_search(self._scorer, query, settings, self.vocabularies["target"], best.tokens)
        return Explanation(
            self.recipe.rules.name,
            self.recipe.model.family,
            text,
            str(tree or self.vocabularies["target"].decode(best.tokens)),
            read.sequences,
            read.attentions,
            "output",
            read.predictions,
            alignment=read.alignment,
            gates=read.gates,
            states=read.states,
            tree="" if tree is None else str(tree),
            search=nodes,
        )

    def _request(self, options: ParseOptions, nbest: int) -> tuple[SearchRequest, bool]:
        """Return the options completed from the recipe, and whether only trees are searched for."""
        request = resolve(options, self.recipe.decode, nbest, table=ParseOptions)
        constrained = not options.get("unconstrained")
        if request.risk is not None:
            raise UserError(f"{option('mbr')} compares texts, and a parser writes trees: leave it out.")
        for name in ("no_repeat", "min_length") if constrained else ():
            if getattr(request.settings, name):
                raise UserError(f"{option(name)} would forbid trees: leave it out.")
        return request, constrained

    def _parses(
        self,
        texts: Sequence[str],
        request: SearchRequest,
        constrained: bool,
        name: str,
        first: int,
        progress: ProgressCallback,
    ) -> list[list[Parse]]:
        words = [text.split() for text in texts]
        indices = [index for index, of_text in enumerate(words) if of_text]
        found, _ = self._found(texts, request, constrained, name, first, progress)
        progress(len(texts) - len(indices))
        parses = {
            index: [self._parse(best, words[index]) for best in nbest]
            for index, nbest in zip(indices, found, strict=True)
        }
        return [parses.get(index, [BLANK]) for index in range(len(texts))]

    def _found(
        self,
        texts: Sequence[str],
        request: SearchRequest,
        constrained: bool,
        name: str,
        first: int,
        progress: ProgressCallback,
    ) -> tuple[list[list[Hypothesis]], list[list[int]]]:
        """Search for the trees of all sentences that are not blank; also return the pieces of all."""
        sources = self.wording.encode([escape_brackets(text) for text in texts], None, False, name, first)
        self._check_sources(sources, request.max_source, name, first)
        words = [len(text.split()) for text in texts]
        queries = [
            self._query(sources[index], count, first - 1 + index, request) for index, count in enumerate(words) if count
        ]
        settings = self._settings(request, constrained)
        with memory_faults(request.memory_advice), evaluation_mode(*self.networks):
            found = search(self._scorer, queries, settings, request.batch_tokens, progress)
        if not all(found):
            raise UserError(
                "The model finds no tree, as its scores are not numbers: its weights are damaged, or its training "
                "diverged. Train again, more gently."
            )
        return found, sources

    def _settings(self, request: SearchRequest, constrained: bool) -> SearchSettings:
        """Return the settings of a search, for trees alone if it is constrained."""
        if not constrained:
            return request.settings
        return replace(request.settings, constraints=(self._trees.constraint(),))

    def _query(self, source: Sequence[int], words: int, number: int, request: SearchRequest) -> Query:
        """Return a query that counts its words; its limit leaves room for them, even if some have no pieces."""
        (query,) = text_queries([source], request.settings.max_extra, None, [number])
        return replace(query, words=words, limit=max(query.limit, words + request.settings.max_extra))

    def _parse(self, best: Hypothesis, words: Sequence[str]) -> Parse:
        tree = self._trees.decode(best.tokens, words) if best.complete else None
        return Parse(tuple(words), tree, best.log_probability, best.score)

    def _own_facts(self) -> Iterator[str]:
        yield from super()._own_facts()
        yield f"{len(self.labels)} labels"
