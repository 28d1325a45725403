"""Words that translations must contain, or must not: fixed translations of terms, and from options to a search."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from heedful.base.errors import UserError
from heedful.data.corpora.formats.lines import locate, read_lines
from heedful.decode.constraints.words.automaton import WordAutomaton
from heedful.decode.constraints.words.in_slots import words
from heedful.decode.constraints.words.planner import WordPlanner, check_room
from heedful.decode.constraints.words.spelling import at_boundary, occurs
from heedful.decode.query import Query
from heedful.tasks.shared.sequences.asked import Answer, Asked, Found
from heedful.tasks.shared.sequences.search_options import SearchRequest
from heedful.tasks.shared.sequences.text_codec import TextCodec


class WordRules:
    """The words of each text's translation. What can never be fulfilled is refused before any text is read."""

    def __init__(self, request: SearchRequest, wording: TextCodec, planner: WordPlanner) -> None:
        self._raw, self._wording, self._planner = request.raw, wording, planner
        self._any = bool(request.terms or request.require or request.forbid)
        self._forbidden = [self._target(text) for text in request.forbid]
        self._of_all = [self._target(text) for text in request.require if isinstance(text, str)]
        self._of_each = [list(map(self._target, texts)) for texts in request.require if not isinstance(texts, str)]
        targets = {source: self._target(target) for source, target in request.terms.items()}
        self._terms = Terms(targets, self._source)
        planner.check([*self._of_all, *(word for some in self._of_each for word in some)], self._forbidden)
        for source, target in targets.items():
            try:
                planner.check([target], self._forbidden)
            except UserError as error:
                raise UserError(f"Term `{source}`: {error}") from error
        for text in [request.prefix] if isinstance(request.prefix, str) else request.prefix or []:
            for word in self._forbidden:
                if occurs(one_space(wording.normalise(text)), word):
                    raise UserError(
                        f"The prefix `{text}` contains `{word}`, which must not appear: leave one of them out."
                    )

    def automata(self, texts: Sequence[str]) -> list[WordAutomaton | None]:
        """Return the automaton of each text; None where its translation is free."""
        if not self._any:
            return [None] * len(texts)
        if self._of_each and len(self._of_each) != len(texts):
            raise UserError(
                f"There are {len(texts):,} texts but {len(self._of_each):,} lists of required words: each needs one, "
                "which may be empty."
            )
        each = self._of_each or [self._of_all] * len(texts)
        found: list[WordAutomaton | None] = []
        for text, required in zip(texts, each, strict=True):
            musts = [*required, *self._terms.find(self._source(text))]
            found.append(self._planner.plan(musts, self._forbidden) if musts or self._forbidden else None)
        return found

    def _source(self, text: str) -> str:
        return self._wording.source_words(text, self._raw)

    def _target(self, text: str) -> str:
        return one_space(self._wording.normalise(self._wording.split_target(text) if self._raw else text))


def ask_with_words(
    queries: Sequence[Query],
    request: SearchRequest,
    automata: Mapping[int, WordAutomaton],
    longest: int | None,
    then: Callable[[Found], Sequence[Answer]],
) -> Asked[Answer]:
    """Ask for the targets of all queries; `automata` are those of the queries that have one, by their numbers.

    The first search is the one without words. What already has its words stays; the others are searched again. Samples
    are drawn once. `longest` is the number of positions that a target has.
    """
    settings = request.settings
    if not automata:
        return Asked(queries, settings, request.batch_tokens, then)
    bound = [query for query in queries if query.number in automata]
    for query in bound:
        check_room(query, automata[query.number], longest)
    first = queries if settings.sampling is None else [query for query in queries if query.number not in automata]

    def look(results: Found) -> Sequence[Answer] | Asked[Answer]:
        found = dict(zip([query.number for query in first], results, strict=True))

        def lacks(query: Query) -> bool:
            targets = found.get(query.number, [])
            return not targets or not all(automata[query.number].accepts(target.tokens) for target in targets)

        def complete(others: Found) -> Sequence[Answer]:
            found.update(zip([query.number for query in again], others, strict=True))
            return then([found[query.number] for query in queries])

        again = list(filter(lacks, bound))
        with_words = replace(settings, constraints=(*settings.constraints, words(automata))) if again else settings
        return Asked(again, with_words, request.batch_tokens, complete) if again else complete([])

    return Asked(first, settings, request.batch_tokens, look, sure=len(queries) - len(bound))


def read_terms(path: str | Path) -> dict[str, str]:
    """Read a file with a source term, a tab and its translation on each line; blank lines are left out."""
    terms: dict[str, str] = {}
    lines: dict[str, int] = {}
    file = replace(locate(str(path)), hint="")  # which names `data.folder`: it does not apply to terms
    for number, line in enumerate(read_lines(file), start=1):
        if not line.strip():
            continue
        columns = [one_space(column) for column in line.split("\t")]
        if len(columns) != 2 or not all(columns):
            fault = "has an empty column" if len(columns) == 2 else f"has {len(columns):,} columns"
            fault = "has 1 column" if len(columns) == 1 else fault
            raise UserError(f"{path}, line {number:,} {fault}, but must be a term, a tab and its translation.")
        source, target = columns
        if terms.setdefault(source, target) != target:
            raise UserError(
                f"{path}, line {number:,}: `{source}` is to be `{target}`, but line {lines[source]:,} says "
                f"`{terms[source]}`: leave one of them out."
            )
        lines.setdefault(source, number)
    if not terms:
        raise UserError(f"{path} has no terms: write a term, a tab and its translation on each line.")
    return terms


class Terms:
    """Terms with their translations, by the form in which source texts have them."""

    def __init__(self, terms: Mapping[str, str], form: Callable[[str], str]) -> None:
        self._targets: dict[str, str] = {}
        for source, target in terms.items():
            formed = one_space(form(source))
            if self._targets.setdefault(formed, target) != target:
                raise UserError(
                    f"`{source}` is to be `{target}`, but the model does not distinguish it from a term that is to be "
                    f"`{self._targets[formed]}`: leave one of them out."
                )
        self._sizes = sorted({len(source) for source in self._targets})

    def find(self, text: str) -> list[str]:
        """Return the translations of the terms in a text, in its order; the longest terms first take their places."""
        if not self._targets:
            return []
        text = one_space(text)
        edges = [place for place in range(len(text) + 1) if at_boundary(text, place)]
        found = [
            (size, begin)
            for begin in edges
            for size in self._sizes
            if text[begin : begin + size] in self._targets
            and begin + size <= len(text)
            and at_boundary(text, begin + size)
        ]
        taken: set[int] = set()
        kept = []
        for size, begin in sorted(found, key=lambda one: (-one[0], one[1])):
            places = range(begin, begin + size)
            if taken.isdisjoint(places):
                taken.update(places)
                kept.append((begin, text[begin : begin + size]))
        return [self._targets[term] for _, term in sorted(kept)]


def one_space(text: str) -> str:
    """Return a text with single spaces between its words."""
    return " ".join(text.split())
