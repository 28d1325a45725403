"""Translations for other programs: texts of any length, sentence by sentence, with their spacing."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import add
from statistics import mean
from typing import Any, ClassVar, Final

from heedful.base.errors import UserError, counted
from heedful.base.options import Option
from heedful.config.decode import SearchOptions
from heedful.data.corpora.sentence_splitting import Piece, split_with_spacing
from heedful.tasks.shared.answering.jobs import Changes, Result
from heedful.tasks.shared.answering.service import DETAILED, Input, given_options, offered
from heedful.tasks.shared.sequences.asked import Asked
from heedful.tasks.shared.sequences.service import SearchJob, SearchService
from heedful.tasks.translate.model import Translator
from heedful.tasks.translate.translation import Translation
from heedful.tasks.translate.words import RUNNERS_UP, plain_words, words_of

_LEFT_OUT: Final = ("batch_tokens", "sampling", "aligned")  # of a server's own choice, or of Python only
_MOST_ALTERNATIVES: Final = 10
_MOST_EXPLAINED: Final = 256  # tokens, and words: weights grow with their square

OPTIONS: Final[Mapping[str, Option]] = {
    **offered(SearchOptions, *_LEFT_OUT),
    "alternatives": Option("Number of other translations.", 0, least=0, most=_MOST_ALTERNATIVES, kind=int),
    "sentence": Option("Index of the sentence that `prefix` begins.", 0, least=0, kind=int),
    "details": Option("Also return words, their probabilities and links.", False, kind=bool),
}


class TranslateService(SearchService):
    """A translator that answers requests."""

    model: Translator
    options: ClassVar[Mapping[str, Option]] = OPTIONS
    streams: ClassVar[bool] = True

    @property
    def languages(self) -> tuple[str, ...]:
        """See `Service.languages`."""
        return tuple(self.model.vocabularies["target"].tags) or tuple(self.model.vocabularies["source"].tags)

    def job(self, inputs: Sequence[Input], options: Mapping[str, Any], *, watched: bool = False) -> "TranslateJob":
        """See `Service.job`."""
        detailed = bool(options.get("details"))
        return TranslateJob(
            self,
            [values["text"] for values in inputs],
            [bool(values.get(DETAILED, detailed)) for values in inputs],
            options,
            watched,
        )


class TranslateJob(SearchJob[list[Translation]]):
    """Texts whose sentences are translated."""

    def __init__(
        self,
        service: TranslateService,
        texts: Sequence[str],
        described: Sequence[bool],  # texts whose words are described
        given: Mapping[str, Any],
        watched: bool,
    ) -> None:
        self._model, self._texts = service.model, [split_with_spacing(text) for text in texts]
        options: Any = given_options(given)
        options.pop("details", None)
        self._wanted, self._described, self.detailed = options.pop("alternatives", 0), described, any(described)
        place, prefix = options.pop("sentence", 0), options.pop("prefix", None)
        sentences: list[Piece] = [piece for pieces in self._texts for piece in pieces]
        if place >= len(sentences):
            raise UserError(f"`sentence` is {place}, but the text has {counted(len(sentences), 'sentence')}.")
        usual = self._model.recipe.decode.beam
        options.setdefault("beam", max(usual, self._wanted + 1) if self._wanted else usual)
        self._sure = options["beam"] == 1  # a token of greedy search is never replaced
        self._to, self._raw = options.get("to"), bool(options.get("raw"))
        if self._to is not None and service.languages and self._to not in service.languages:
            raise UserError(f"`to` is `{self._to}`, but must be one of {', '.join(service.languages)}.")
        self._shown = ""
        begin = partial(service.asking, self._wanted + 1, name="text")
        plain = begin(options)
        asking = {place: plain if prefix is None else begin(options | {"prefix": prefix})}

        def ask(unit: int) -> Asked[list[Translation]]:
            return asking.get(unit, plain)([sentences[unit].text], 1)

        super().__init__(service.engine, ask, len(sentences), drafts=watched)

    def finished(self) -> Sequence[Result]:
        """See `SearchJob.finished`."""
        found = (self.answers[unit] for unit in range(self.size))
        return [self._result(pieces, [next(found) for _ in pieces]) for pieces in self._texts]

    def changes(self) -> Changes | None:
        """Return what is new of the only text: what follows, where it is certain, or the whole of a draft."""
        shown = "".join(self._so_far())
        if shown == self._shown:
            return None
        before, self._shown = self._shown, shown
        if self._sure and shown.startswith(before):
            return {"type": "delta", "text": shown[len(before) :]}
        return {"type": "draft", "text": shown}

    def details(self) -> None:
        """See `Job.details`: words, how probable they are, what else was likely, and links to words of the source."""
        unit = 0
        for result, pieces, described in zip(self.results, self._texts, self._described, strict=True):
            if described:
                result["sentences"] = [
                    self._sentence(piece, self.answers[unit + number][0], number) for number, piece in enumerate(pieces)
                ]
            unit += len(pieces)

    def _sentence(self, piece: Piece, best: Translation, number: int) -> Result:
        if not 0 < len(best.tokens) <= _MOST_EXPLAINED or len(piece.text.split()) > _MOST_EXPLAINED:
            return plain_words(piece, best.text)
        explained = self._model.explain_found(piece.text, best, RUNNERS_UP, self._to, self._raw)
        return words_of(self._model, explained, best, piece, number)

    def _so_far(self) -> Iterator[str]:
        """Yield what there is of the only text, up to the first sentence that is not done."""
        drafts = self.drafts()
        for unit, piece in enumerate(self._texts[0]):
            if unit in self.answers:
                yield piece.before + self.answers[unit][0].text
                continue
            if drafts.get(unit):
                yield piece.before + self._model.wording.decode_draft(drafts[unit], self._raw)
            return

    def _result(self, pieces: Sequence[Piece], found: Sequence[list[Translation]]) -> Result:
        """Return a text's translation, and others: of each sentence that of the same rank, or the best without one."""
        most = max(map(len, found)) if self._wanted else 1
        ranked = [[(some[rank:] or some)[0] for some in found] for rank in range(most)]
        texts = ["".join(map(add, (piece.before for piece in pieces), (one.text for one in some))) for some in ranked]
        scores = [mean(one.score for one in some) for some in ranked]
        result: Result = {"text": texts[0], "score": scores[0], "complete": all(one.complete for one in ranked[0])}
        if self._wanted:
            others = {text: score for text, score in zip(texts, scores, strict=True) if text != texts[0]}
            listed = [{"text": text, "score": score} for text, score in others.items()]
            result["alternatives"] = listed[: self._wanted]
        return result
