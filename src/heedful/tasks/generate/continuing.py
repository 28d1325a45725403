"""Texts that grow by searches, as a call asks: each search continues what the ones before it found; and their streams.

A text is generated in several searches if a stop string may end it, if it is shown while it grows, or if it passes the
model's last position: then the window slides, and the model reads the last half of it again.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from heedful.base.errors import UserError, option
from heedful.base.options import complete
from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import END, PAD, Tokenizer
from heedful.decode.constraints.tokens import PenaliseRepetition
from heedful.decode.frontiers.rows import Frontier
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import DrawStart, Query, pack_prompts, token_ids
from heedful.decode.scorer import SingleModel
from heedful.decode.search import ProgressCallback, begin_frontier, decode_steps, search
from heedful.decode.settings import SearchSettings
from heedful.nn.kernels import use_kernels
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


_FIRST: Final = 16  # tokens of the first search for a text that may stop or is shown; later ones find twice as many
_WIDEST: Final = 256
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
        at_most = _FIRST if self.request.stop else None
        while any(text.ended is None for text in texts):
            texts = self._search(texts, at_most, progress)
            at_most = at_most and min(2 * at_most, _WIDEST)
        return list(texts)

    def _search(
        self, texts: Sequence[GrowingText], at_most: int | None, progress: ProgressCallback
    ) -> list[GrowingText]:
        going = [text for text in texts if text.ended is None]
        queries = [self._query(text, at_most) for text in going]
        settings = self.request.settings
        if going[0].spans:  # the best of a beam continue each by itself
            settings = replace(settings, nbest=1)
        found = search(self.scorer, queries, settings, self.request.batch_tokens)
        pairs = iter(zip(queries, found, strict=True))
        grown: list[GrowingText] = []
        for text in texts:
            if text.ended is not None:
                grown.append(text)
                continue
            query, hypotheses = next(pairs)
            made = [self._extend(text, query, hypothesis) for hypothesis in hypotheses or [_NOTHING]]
            progress(sum(one.ended is not None for one in made))
            grown += made
        return grown

    def stream(self, text: GrowingText) -> Iterator[tuple[str, GrowingText]]:
        """Yield what can be shown of one text as it grows, and the text; the last one has ended."""
        shown = ContinuationText(self.tokenizer, text.prompt, self.request.stop)
        searched = self.request.settings.beam > 1  # nothing is certain before the search is over
        recorded = use_kernels(self.scorer.model.decoder.output.weight)  # a step alone would cost as much as several
        at_most = None if searched else _FIRST
        while text.ended is None:
            before = len(text.tokens)
            if searched or recorded:
                (text, *_) = self._search([text], at_most, lambda ready: None)
                at_most = at_most and min(2 * at_most, _WIDEST)
                yield shown.add(text.tokens[before:]), text
            else:
                for more, grown in self._steps(text, shown):
                    text = grown
                    yield more, text
        yield shown.end(), text

    def _steps(self, text: GrowingText, shown: ContinuationText) -> Iterator[tuple[str, GrowingText]]:
        """Yield what every step of one search adds; the text is whole after the last."""
        query = self._query(text, None)
        packed, firsts = pack_prompts([query])
        sources = packed.to(self.scorer.device)
        begun: Frontier = begin_frontier([query], sources.layout, self.request.settings, self.scorer, firsts)
        frontier, more = begun, ""
        for frontier in decode_steps(self.scorer, sources, begun):
            token = int(frontier.last_R)
            more = shown.add([] if token in (END, PAD) else [token])
            if shown.stopped:
                break
            yield more, text
            more = ""
        ((hypothesis, *_),) = frontier.hypotheses()
        yield more, self._extend(text, query, hypothesis)

    # --- one search ---------------------------------------------------------------------------------------------------

    def _query(self, text: GrowingText, at_most: int | None) -> Query:
        """Ask for what follows a text, as far as its window reaches."""
        found = text.tokens
        context, limit = (*text.prompt, *found), self.request.max_tokens - len(found)
        if self.window is not None:
            if len(context) > self.window:
                context = context[-max(1, self.window // 2) :]
            limit = min(limit, self.window - len(context) + 1)
        limit = limit if at_most is None else min(limit, at_most)
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
