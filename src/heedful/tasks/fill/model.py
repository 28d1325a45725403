"""A trained masked language model: text with masks in, candidates for each mask out; and texts as vectors."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, overload

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.base.arguments import check_one_each, check_several, check_text, check_texts, check_whole
from heedful.base.errors import UserError, counted
from heedful.base.packed import Layout, Packed
from heedful.config.corpora.containers import Jsonl
from heedful.config.model.encoder_only import BertModel
from heedful.config.task_rules import model_of
from heedful.data.corpora.in_memory import spool
from heedful.data.epochs.plan import batches_by_length
from heedful.data.text_form import TextForm
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.explain.capture import capture_weights, explain_by_gradients
from heedful.explain.explanation import Explanation, TokenSequence
from heedful.explain.measuring import Chosen, Given, Measures, pair_of, refuse_language
from heedful.explain.readings import Reading
from heedful.explain.texts import explain_reading, explain_swapped, explain_tokens, refuse_blank
from heedful.models.bundle import Bundle
from heedful.models.networks import MaskedModel
from heedful.nn.evaluation_mode import by_equation, evaluation_mode
from heedful.tasks.fill.evaluation import MaskedEvaluation, evaluate_masked
from heedful.tasks.fill.mask_text import MaskTextCodec, TextParts, split_at_masks
from heedful.tasks.fill.rules import FILL
from heedful.tasks.shared.answering.streaming import CHUNK, answer_stream
from heedful.tasks.shared.embeddings import Embeds

_SCORED: Final = 1024  # maximum masks whose scores over the vocabulary are in memory at once


@dataclass(frozen=True)
class Candidate:
    """A piece that may replace a mask."""

    piece: str  # the piece in readable form: see `Tokenizer.pieces`
    text: str  # its text, without spaces around it
    probability: float  # probability among all pieces of the vocabulary
    token: int  # its id


@dataclass(frozen=True)
class Filled:
    """A model's candidates for the masks of a text."""

    text: str  # the text with the most likely piece in place of every mask
    masks: tuple[tuple[Candidate, ...], ...]  # candidates for each mask in order, the most likely first
    second: str | None = None  # the second text, where there is one: its masks come after those of the first


_BLANK: Final = Filled("", ())


class MaskFiller(Embeds[MaskedModel], Measures):
    """A trained masked language model with its recipe and its tokenizer.

    It runs on the device and in the precision that `load` chose.
    """

    _rules = FILL
    _network = MaskedModel

    def __init__(self, bundle: Bundle[MaskedModel]) -> None:
        tokenizer = bundle.vocabularies["text"]
        if tokenizer.mask is None:
            raise UserError("The vocabulary of this model has no `<mask>`: it cannot fill masks.")
        super().__init__(bundle)
        self._mask = tokenizer.mask
        self._wording = MaskTextCodec(
            tokenizer, bundle.recipe.tokenizer.kind, TextForm.of(bundle.recipe.data), tokenizer.mask
        )

    @overload
    def fill(self, text: str, top: int = 5, second: str | None = None) -> Filled: ...  # type: ignore[overload-overlap]
    @overload
    def fill(self, text: Iterable[str], top: int = 5, second: Iterable[str] | None = None) -> list[Filled]: ...
    def fill(
        self, text: str | Iterable[str], top: int = 5, second: str | Iterable[str] | None = None
    ) -> Filled | list[Filled]:
        """Find the `top` most likely pieces for every `[MASK]` (or `<mask>`) of a text, or of each of several texts.

        `second` are texts that are read after the first ones, as in training; both may have masks. Several masks of a
        text are filled in one pass, independently of each other.
        """
        if second is not None and isinstance(text, str) != isinstance(second, str):
            raise UserError("`text` and `second` must be one text each, or a list of texts each.")
        if isinstance(text, str):
            return self.fill([text], top, [second] if isinstance(second, str) else None)[0]
        if second is not None:
            self._check_segments()
        firsts, seconds = check_texts(text), None if second is None else check_texts(second, "second")
        if seconds is not None:
            check_one_each(len(firsts), "text", len(seconds), "second text")
        texts = [(one,) for one in firsts] if seconds is None else list(zip(firsts, seconds, strict=True))
        return self._answers(self._questions(texts, [f"texts, line {i:,}" for i in range(1, len(texts) + 1)]), top)

    def stream(
        self,
        texts: Iterable[str],
        top: int = 5,
        *,
        chunk: int = CHUNK,
        ready: Callable[[], bool] = lambda: True,
        name: str = "texts",
    ) -> Iterator[Filled]:
        """Fill the masks of an endless or a very large number of texts, some at a time, in order.

        A blank one stays blank. Fewer than `chunk` are taken when `ready` says that the next one has not arrived yet.
        `name` is the stream's name in messages. Before an error is raised, the answers to all lines before the faulty
        one are yielded.
        """
        check_several(texts, name)
        check_whole("top", top, least=1)

        def filled(part: Sequence[str], first: int) -> list[Filled]:
            lines = list(enumerate(check_texts(part, name, first), start=first))
            written = [(line, f"{name}, line {number:,}") for number, line in lines if line.strip()]
            questions = self._questions([(line,) for line, _ in written], [where for _, where in written])
            found = iter(self._answers(questions, top))
            return [next(found) if line.strip() else _BLANK for _, line in lines]

        return answer_stream(texts, filled, chunk=chunk, ready=ready)

    def evaluate(self, data: object, *, name: str = "data") -> MaskedEvaluation:
        """Mask texts, always in the same way, and score the predictions: accuracy and perplexity of masked tokens.

        `data` are texts in any form that `heedful.train` takes: texts, dictionaries, columns, frames.
        """
        return evaluate_masked(self.bundle, Jsonl.model_validate(spool(data, FILL, name)), "")

    @torch.no_grad()
    def explain(
        self,
        text: str,
        second: str | None = None,
        *,
        top: int = 5,
        gradients: bool = False,
        swapped: Mapping[str, str] | None = None,
    ) -> Explanation:
        """Return the weights with which the model read a text or a pair, and its candidates for every mask, if any.

        With `gradients`, also return how much each token would change the best candidate of each mask.
        `swapped` asks what if: it has words of the text and those that replace them, and `before` is the explanation of
        the text as it is.
        """
        refuse_blank(check_text(text, "`text`"))
        if swapped is not None:
            return explain_swapped(
                lambda other: self.explain(other, second, top=top, gradients=gradients), text, swapped
            )
        written = (text,) if second is None else (text, check_text(second, "`second`"))
        if second is not None:
            self._check_segments()
        (question,) = self._questions([written], ["`text`"], masks=False)
        packed, places_P = self._packed([question])
        packed, places_P = packed.to(self.device), places_P.to(self.device)

        scores = partial(self._scores, packed, places_P)
        with evaluation_mode(self.network), capture_weights(self.network) as captured:
            logits_PV = scores()
        tokenizer, indices = self.vocabularies["text"], places_P.tolist()
        sequences, attentions = {"text": TokenSequence.of(tokenizer, question.tokens)}, explain_reading(captured)
        if gradients and indices:
            best = (logits_PV[:, tokenizer.markers :].argmax(dim=1) + tokenizer.markers).tolist()
            attentions += (*explain_by_gradients(self.network, scores, best, "output", "text"),)
            sequences["output"] = TokenSequence.named(tokenizer.pieces(best))
        found = explain_tokens(logits_PV, [None] * len(indices), tokenizer, top, indices, tokenizer.markers)
        return Explanation(
            self.recipe.rules.name,
            self.recipe.model.family,
            text,
            self._answers([question], 1)[0].text if indices else "",
            sequences,
            attentions,
            "text",
            found,
            states=captured.explain_states({"text": sequences["text"]}),
        )

    def _choose(self, text: Given, output: str | None, each: bool, to: str | None) -> Chosen:
        refuse_language(to)
        read, places_P = self._masked(text)
        tokenizer = self.vocabularies["text"]
        if output is None:
            with torch.no_grad(), evaluation_mode(self.network), by_equation():
                logits_PV = self._scores(read, places_P)
            return (logits_PV[:, tokenizer.markers :].argmax(dim=1) + tokenizer.markers).tolist()
        pieces: Sequence[int] = tokenizer.encode(self._wording.form(check_text(output, "`output`")))
        if len(pieces) != len(places_P):
            raise UserError(
                f"`{output}` is {counted(len(pieces), 'piece')}, but the text has {counted(len(places_P), 'mask')}: "
                "give one piece for each."
            )
        return pieces

    def _read(self, text: Given, chosen: Chosen, to: str | None) -> Reading:
        read, places_P = self._masked(text)
        tokenizer, tokens = self.vocabularies["text"], read.layout.tokens

        def run(copies: int) -> Tensor:
            segments = None if read.segments is None else read.segments.repeat(copies)
            several = Packed(read.values.repeat(copies), Layout.of([tokens] * copies).to(self.device), segments)
            first_K1 = tokens * torch.arange(copies, device=self.device).unsqueeze(1)
            return self._scores(several, (first_K1 + places_P).flatten()).unflatten(0, (copies, -1))

        return Reading(
            self.network,
            run,
            {"text": TokenSequence.of(tokenizer, read.values.tolist())},
            TokenSequence.named(tokenizer.pieces(list(chosen or ()))),
            tuple(chosen or ()),
            tokenizer.pieces,
            places=tuple(places_P.tolist()),
            head=lambda states_NE: self.network.head(states_NE.index_select(0, places_P)),
            reader=self.network.encoder,
        )

    def _masked(self, text: Given) -> tuple[Packed, Int[Tensor, "P"]]:
        """Return a text or a pair as the network reads it, and the packed indices of its masks."""
        first, second = pair_of(text)
        if second is not None:
            self._check_segments()
        (question,) = self._questions([(first,) if second is None else (first, second)], ["`text`"])
        packed, places_P = self._packed([question])
        return packed.to(self.device), places_P.to(self.device)

    def _scores(self, read: Packed, places_P: Int[Tensor, "P"]) -> Float[Tensor, "P V"]:
        scores_PV: Tensor = self.network.head.output(self.network.masked(self.network(read), places_P))
        return scores_PV

    def _check_segments(self) -> None:
        if self._config.segments < 2:
            raise UserError(
                f"This model reads single texts (`model.segments` is {self._config.segments}): leave out `second`."
            )

    def _questions(
        self, texts: Sequence[tuple[str, ...]], where: Sequence[str], masks: bool = True
    ) -> list["_Question"]:
        """Encode texts or pairs of texts as the model reads them; `where` names each in messages.

        Unless `masks` is False, a text must have one.
        """
        for written, place in zip(texts, where, strict=True):
            for text in written:
                self._wording.form.check_text(text, place)
        pairs = [tuple(map(split_at_masks, pair)) for pair in texts]
        for pair, place in zip(pairs, where, strict=True):
            if masks and all(len(parts) == 1 for parts in pair):
                raise UserError(f"{place} has no mask: write [MASK] where a piece is to be filled in.")
        encoded = iter(self._wording.encode([parts for pair in pairs for parts in pair]))
        questions = [_Question.of(pair, [next(encoded) for _ in pair]) for pair in pairs]
        end = self._config.longest
        for question, place in zip(questions, where, strict=True):
            if end is not None and len(question.tokens) > end[0]:
                raise UserError(
                    f"{place} has {len(question.tokens):,} tokens with its markers, but this model has positions for "
                    f"{end[0]:,} (`model.{end[1]}`): shorten it."
                )
        return questions

    def _answers(self, questions: Sequence["_Question"], top: int) -> list[Filled]:
        """Return the candidates in order; texts of similar lengths are read together."""
        check_whole("top", top, least=1)
        lengths = np.array([len(question.tokens) for question in questions], np.int64)
        answers: dict[int, Filled] = {}
        with torch.inference_mode(), evaluation_mode(self.network):
            for rows in batches_by_length([lengths], batch_tokens=self.recipe.data.batch_tokens):
                some = [questions[row] for row in rows]
                found = iter(self._candidates(some, top))
                for row, question in zip(rows.tolist(), some, strict=True):
                    count = question.tokens.count(self._mask)
                    answers[row] = self._filled(question, tuple(next(found) for _ in range(count)))
        return [answers[row] for row in range(len(questions))]

    def _candidates(self, questions: Sequence["_Question"], top: int) -> list[tuple[Candidate, ...]]:
        """Return the most likely pieces of text for all masks of texts that are read together.

        Their probabilities are over the whole vocabulary, markers included.
        """
        packed, places_P = self._packed(questions)
        first, shares, tokens = self.vocabularies["text"].markers, [], []
        states_PE = self.network.masked(self.network(packed.to(self.device)), places_P.to(self.device))
        for some_PE in states_PE.split(_SCORED):
            likely = self.network.head.output(some_PE).float().softmax(dim=1)[:, first:]
            best = likely.topk(min(top, likely.shape[1]), dim=1)
            shares += best.values.tolist()
            tokens += (best.indices + first).tolist()
        distinct = sorted({token for row in tokens for token in row})
        pieces = self.vocabularies["text"].pieces(distinct)
        spelled = self._wording.spelled([[token] for token in distinct])
        written = [spelling.strip() or spelling for spelling in spelled]
        of = {token: (piece, text) for token, piece, text in zip(distinct, pieces, written, strict=True)}
        return [
            tuple(Candidate(*of[token], share, token) for share, token in zip(*row, strict=True))
            for row in zip(shares, tokens, strict=True)
        ]

    def _packed(self, questions: Sequence["_Question"]) -> tuple[Packed, Int[Tensor, "P"]]:
        """Return what the network reads, and the packed indices of masks."""
        plain = Packed.of([question.tokens for question in questions])
        segments = torch.tensor([segment for question in questions for segment in question.segments])
        packed = Packed(plain.values, plain.layout, segments if segments.any() else None)
        return packed, (packed.values == self._mask).nonzero().flatten()

    def _filled(self, question: "_Question", masks: tuple[tuple[Candidate, ...], ...]) -> Filled:
        best = iter([candidates[0].token for candidates in masks])
        texts = [self._wording.filled(parts, [next(best) for _ in parts[1:]]) for parts in question.texts]
        return Filled(texts[0], masks, *texts[1:])

    @property
    def _config(self) -> BertModel:
        return model_of(self.recipe, BertModel)


@dataclass(frozen=True)
class _Question:
    """A text or a pair of texts with masks, as the model reads it."""

    texts: tuple[TextParts, ...]
    tokens: list[int]  # <s> text </s>, or <s> text </s> second </s>
    segments: list[int]

    @classmethod
    def of(cls, texts: tuple[TextParts, ...], pieces: Sequence[Sequence[int]]) -> "_Question":
        """Make it from the parts of each text, and its pieces with masks."""
        tokens, segments = [BEGIN], [0]
        for number, of_text in enumerate(pieces):
            tokens += [*of_text, END]
            segments += [number] * (len(of_text) + 1)
        return cls(texts, tokens, segments)
