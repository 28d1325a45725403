"""Texts that grow by searches, as a call asks: each search continues what the ones before it found; and their streams.

A text is generated in several searches if it passes the model's last position: then the window slides, and the model
reads the last half of it again. A search that a stop string ends is cancelled when its text shows it.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from heedful.base.errors import UserError, option
from heedful.base.options import complete
from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.decode.constraints.tokens import PenaliseRepetition
from heedful.decode.engine import Engine, engine_of
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import DrawStart, Query, token_ids
from heedful.decode.scorer import SingleModel
from heedful.decode.search import ProgressCallback
from heedful.decode.settings import SearchSettings
from heedful.decode.ticket import Ticket
from heedful.tasks.generate.continuation_text import ContinuationText
from heedful.tasks.generate.generation import OF_SAMPLING, Ended, GenerateOptions, Generation


class DetailedOptions(GenerateOptions, total=False):
    """The options of a call, and the other arguments of `generate_detailed`."""

    name: str
    first: int
    progress: ProgressCallback


@dataclass(frozen=True)
class GenerateRequest:
    """The options of a call, resolved."""

    settings: SearchSettings
    max_tokens: int
    samples: int
    stop: tuple[str, ...]
    slide: bool
    batch_tokens: int


def resolve(options: GenerateOptions, batch_tokens: int) -> GenerateRequest:
    """Complete the options; `batch_tokens` is the recipe's."""
    chosen = complete(options, GenerateOptions, {"batch_tokens": batch_tokens})
    given = {name: chosen[name] for name, value in options.items() if value is not None}
    beam, samples = chosen["beam"] or 1, chosen["samples"]
    sampling = _sampling(chosen, given, beam)
    if sampling is None and samples > beam:
        searched = f"a beam of {beam} finds no more than {beam}" if beam > 1 else "greedy search finds one text"
        raise UserError(
            f"{option('samples')} is {samples}, but {searched}: set {option('beam')} to {samples} or more, or sample "
            f"with a {option('temperature')} above 0."
        )
    penalty = chosen["repetition_penalty"]
    settings = SearchSettings(
        beam=beam,
        nbest=1 if sampling else samples,
        sampling=sampling,
        constraints=(PenaliseRepetition(penalty),) if penalty > 1 else (),
    )
    others = {name: chosen[name] for name in ("max_tokens", "samples", "slide", "batch_tokens")}
    return GenerateRequest(settings, stop=tuple(chosen["stop"] or ()), **others)


def _sampling(chosen: Mapping[str, Any], given: Mapping[str, Any], beam: int) -> Sampling | None:
    """Return how to sample one text; None if the options ask for a search."""
    if beam > 1 and given.get("temperature", 0) > 0:
        raise UserError(
            f"{option('temperature')} applies to sampling, but a beam of {beam} searches for the most likely text: "
            "leave out one of the two."
        )
    if beam == 1 and chosen["temperature"] > 0:
        return Sampling(chosen["temperature"], seed=chosen["seed"], **{name: chosen[name] for name in OF_SAMPLING})
    idle = next((name for name in OF_SAMPLING if name in given), None)
    if idle is not None:
        way_out = f"leave out {option('beam')}" if beam > 1 else f"set {option('temperature')} above 0"
        raise UserError(f"{option(idle)} applies to sampling: leave it out, or {way_out}.")
    return None


_NOTHING: Final = Hypothesis((), 0.0, 0.0, complete=False)  # of a model whose scores are not numbers


@dataclass(frozen=True)
class Span:
    """Tokens that one search found, and the tokens that the model saw before them."""

    context: tuple[int, ...]
    found: tuple[int, ...]


@dataclass(frozen=True)
class GrowingText:
    """A prompt and what follows it so far."""

    number: int  # of the prompt
    prompt: tuple[int, ...]
    draw: DrawStart
    spans: tuple[Span, ...] = ()
    text: str = ""
    ended: Ended | None = None
    slid: bool = False

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens that were found."""
        return tuple(token for span in self.spans for token in span.found)


Place = tuple[int, ...]  # of a text among all: the index of what it began as, then its rank after each search


@dataclass
class _Growing:
    """A text that is under way."""

    place: Place
    text: GrowingText
    words: ContinuationText | None  # what it says so far, where a stop string may end it
    seen: int = 0  # tokens of the search that are in `words`

    def look(self, ticket: Ticket) -> bool:
        """Return whether a search is over, or has found a stop string."""
        if self.words is not None and not ticket.done:
            while self.seen < len(ticket.draft) and not self.words.stopped:
                self.words.add(ticket.draft[self.seen : self.seen + 1])
                self.seen += 1
            return self.words.stopped
        return ticket.done


@dataclass(frozen=True)
class Continuing:
    """Continues texts as a request asks."""

    scorer: SingleModel
    tokenizer: Tokenizer
    request: GenerateRequest
    window: int | None  # the most tokens that the model sees at once; None if there is no limit

    def begin(self, prompts: Sequence[Sequence[int]], first: int = 0) -> list[GrowingText]:
        """Return the texts that are to grow from prompts, those of one prompt next to each other.

        What is drawn for a text depends on its prompt and the number of the sample alone, not on the other prompts.
        """
        samples = self.request.samples if self.request.settings.sampling else 1
        return [
            GrowingText(number, tuple(prompt), DrawStart(_key(prompt), sample))
            for number, prompt in enumerate(prompts, start=first)
            for sample in range(samples)
        ]

    def grow(self, texts: Sequence[GrowingText], progress: ProgressCallback) -> list[GrowingText]:
        """Search until all texts have ended; a beam may make several texts of one."""
        growth = Growth(self, texts)
        try:
            while growth.left:
                growth.engine.work()
                if ended := growth.advance():
                    progress(ended)
        except BaseException:
            growth.cancel()
            raise
        return growth.texts

    def stream(self, text: GrowingText) -> Iterator[tuple[str, GrowingText]]:
        """Yield what can be shown of one text as it grows, and the text; the last one has ended."""
        shown = ContinuationText(self.tokenizer, text.prompt, self.request.stop)
        engine = engine_of(self.scorer)
        searched = self.request.settings.beam > 1  # nothing is certain before the search is over
        while text.ended is None:
            ((ticket, one),) = self.ask(engine, (0,), text, drafts=not searched).items()
            try:
                known = 0
                while not one.look(ticket):
                    engine.work()
                    if len(ticket.draft) > known:
                        more, known = ticket.draft[known:], len(ticket.draft)
                        yield shown.add(more), text
                (text, *_) = self.grown(one, ticket)
                yield shown.add(text.spans[-1].found[known:]), text
            finally:
                engine.cancel(ticket)
        yield shown.end(), text

    # --- one search ---------------------------------------------------------------------------------------------------

    def ask(self, engine: Engine, place: Place, text: GrowingText, *, drafts: bool = False) -> "dict[Ticket, _Growing]":
        """Ask for what follows a text, as far as its window reaches."""
        settings, stop = self.request.settings, self.request.stop
        if text.spans:  # the best of a beam continue each by itself
            settings = replace(settings, nbest=1)
        watched = bool(stop) and settings.beam == 1
        ticket = engine.add(self._query(text), settings, self.request.batch_tokens, drafts=drafts or watched)
        words = ContinuationText(self.tokenizer, text.prompt, stop) if watched else None
        if words is not None:
            words.add(text.tokens)
        return {ticket: _Growing(place, text, words)}

    def grown(self, one: "_Growing", ticket: Ticket) -> list[GrowingText]:
        """Return what became of a text after a search."""
        if ticket.error is not None:
            raise ticket.error
        if ticket.found is None:  # a stop string came first
            cut = Hypothesis(tuple(ticket.draft[: one.seen]), 0.0, 0.0, complete=False)
            return [self._extend(one.text, ticket.query, cut)]
        return [self._extend(one.text, ticket.query, found) for found in ticket.found or [_NOTHING]]

    def _query(self, text: GrowingText) -> Query:
        found = text.tokens
        context, limit = (*text.prompt, *found), self.request.max_tokens - len(found)
        if self.window is not None:
            if len(context) > self.window:
                context = context[-max(1, self.window // 2) :]
            limit = min(limit, self.window - len(context) + 1)
        return Query(context, limit, (), text.number, replace(text.draw, step=len(found)))

    def _extend(self, text: GrowingText, query: Query, hypothesis: Hypothesis) -> GrowingText:
        """Return the text after a search."""
        context = tuple(token_ids(query.source))
        slid = text.slid or len(context) < len(text.prompt) + len(text.tokens)
        extended = replace(text, spans=(*text.spans, Span(context, hypothesis.tokens)), slid=slid)
        if self.request.stop:
            words = ContinuationText(self.tokenizer, text.prompt, self.request.stop)
            for count, token in enumerate(extended.tokens, start=1):
                words.add([token])
                if words.stopped:
                    return replace(_first(extended, count), text=words.text, ended="stop")
        if hypothesis.complete or len(hypothesis.tokens) < query.limit:  # or no token was allowed to follow
            return replace(extended, ended="end")
        full = self.window is not None and len(query.source) + len(hypothesis.tokens) > self.window
        over = len(extended.tokens) >= self.request.max_tokens or (full and not self.request.slide)
        return replace(extended, ended="length" if over else None)


class Growth:
    """Texts that grow side by side on an engine, which somebody lets tick."""

    def __init__(self, work: Continuing, texts: Sequence[GrowingText], *, drafts: bool = False) -> None:
        self._work, self._drafts, self.engine = work, drafts, engine_of(work.scorer)
        self._done: list[tuple[Place, GrowingText]] = []
        self._growing: dict[Ticket, _Growing] = {}
        for index, text in enumerate(texts):
            self._ask((index,), text)

    @property
    def left(self) -> int:
        """Number of texts that have not ended."""
        return len(self._growing)

    @property
    def texts(self) -> list[GrowingText]:
        """The texts that have ended: those of one prompt next to each other."""
        return [grown for _, grown in sorted(self._done, key=lambda some: some[0])]

    def advance(self) -> int:
        """Take what was found, and ask for what follows; return how many texts have ended since the last call."""
        before = len(self._done)
        for ticket, one in [(ticket, one) for ticket, one in self._growing.items() if one.look(ticket)]:
            del self._growing[ticket]
            for rank, grown in enumerate(self._work.grown(one, ticket)):
                if grown.ended is None:
                    self._ask((*one.place, rank), grown)
                else:
                    self._done.append(((*one.place, rank), grown))
            self.engine.cancel(ticket)
        return len(self._done) - before

    def cancel(self) -> None:
        """Stop all texts."""
        self.engine.cancel(*self._growing)

    def tokens(self) -> tuple[int, ...]:
        """Return the tokens of the only text so far, drafts among them."""
        for ticket, one in self._growing.items():
            drafted = ticket.draft if one.words is None else ticket.draft[: one.seen]
            return (*one.text.tokens, *drafted)
        return self._done[0][1].tokens if self._done else ()

    def _ask(self, place: Place, text: GrowingText) -> None:
        self._growing |= self._work.ask(self.engine, place, text, drafts=self._drafts)


def whole_text(text: GrowingText, tokenizer: Tokenizer) -> str:
    """Return what follows the prompt of a text that has ended."""
    if text.ended == "stop":
        return text.text
    words = ContinuationText(tokenizer, text.prompt)
    words.add(text.tokens)
    words.end()
    return words.text


def _first(text: GrowingText, count: int) -> GrowingText:
    """Return a text with its first tokens alone."""
    spans: list[Span] = []
    for span in text.spans:
        spans.append(replace(span, found=span.found[:count]))
        count -= len(spans[-1].found)
    return replace(text, spans=tuple(spans))


def _key(prompt: Sequence[int]) -> int:
    """Return a number by which prompts differ."""
    ids = np.asarray(prompt, np.uint32).tobytes()
    return int.from_bytes(hashlib.blake2b(ids, digest_size=8).digest(), "little")


class GenerationStream(Iterator[str]):
    """Yields parts of a text as soon as they are certain; afterwards `generation` has all that is known of it."""

    def __init__(self, parts: Iterator[tuple[str, GrowingText]], finish: Callable[[GrowingText], Generation]) -> None:
        self._parts, self._finish = parts, finish
        self._text: GrowingText | None = None
        self._generation: Generation | None = None

    def __iter__(self) -> "GenerationStream":
        return self

    def __next__(self) -> str:
        """Return the next part, which is never empty."""
        for part, text in self._parts:
            self._text = text
            if part:
                return part
        raise StopIteration

    @property
    def slid(self) -> bool:
        """Whether the window has slid so far."""
        return self._text is not None and self._text.slid

    @property
    def generation(self) -> Generation:
        """The whole text with its tokens and their log probabilities; waits for its end."""
        for _ in self:
            pass
        if self._generation is None:
            assert self._text is not None, "every text has a last part"
            self._generation = self._finish(self._text)
        return self._generation
