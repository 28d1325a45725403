"""A trained language model: it continues texts, and scores how probable they are."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Literal, Unpack, overload

import torch

from heedful.base.arguments import check_text, check_texts
from heedful.base.errors import UserError, by_caller
from heedful.base.options import show_options
from heedful.base.packed import Packed
from heedful.config.checks import carries_state
from heedful.config.corpora.containers import Jsonl
from heedful.config.model.language import LanguageModelTable, TransformerDecoderTable
from heedful.config.task_rules import model_of
from heedful.data.corpora.in_memory import spool
from heedful.data.prepare.texts import is_whole_file
from heedful.data.text_form import TextForm
from heedful.data.tokenize.encoding import encode_running_text
from heedful.data.tokenize.tokenizer import BEGIN, END, UNKNOWN
from heedful.decode.scorer import SingleModel
from heedful.decode.search import ProgressCallback
from heedful.explain.explanation import Explanation
from heedful.explain.generators import explain_running_text, read_running_text
from heedful.explain.measuring import Chosen, Given, Measures, refuse_language, single_text
from heedful.explain.readings import Reading
from heedful.explain.texts import explain_swapped, refuse_blank
from heedful.models.networks import LanguageModel
from heedful.nn.evaluation_mode import by_equation, evaluation_mode
from heedful.tasks.generate.continuation_text import unspellable
from heedful.tasks.generate.continuing import (
    Continuing,
    DetailedOptions,
    GenerateRequest,
    GenerationStream,
    GrowingText,
    resolve,
    whole_text,
)
from heedful.tasks.generate.evaluation import LanguageEvaluation, evaluate_language
from heedful.tasks.generate.generation import GeneratedText as GeneratedText
from heedful.tasks.generate.generation import GenerateOptions
from heedful.tasks.generate.generation import Generation as Generation
from heedful.tasks.generate.predicted_text import TextScore, check_stride, score_tokens
from heedful.tasks.generate.rules import GENERATE
from heedful.tasks.shared.answering.streaming import CHUNK, answer_stream
from heedful.tasks.shared.embeddings import Embeds
from heedful.tasks.shared.sequences.token_scores import END_PIECE


class TextGenerator(Embeds[LanguageModel], Measures):
    """A trained language model with its recipe and its tokenizer.

    It runs on the device and in the precision that `load` chose.
    """

    _rules = GENERATE
    _network = LanguageModel

    @cached_property
    def _scorer(self) -> SingleModel:
        """What a search asks for scores; it keeps what was recorded on a GPU."""
        return SingleModel(self.network)

    @overload
    def generate(  # type: ignore[overload-overlap]
        self, prompt: str, *, stream: Literal[False] = False, **options: Unpack[GenerateOptions]
    ) -> GeneratedText: ...
    @overload
    def generate(
        self, prompt: str, *, stream: Literal[True], **options: Unpack[GenerateOptions]
    ) -> GenerationStream: ...
    @overload
    def generate(
        self, prompt: Iterable[str], *, stream: Literal[False] = False, **options: Unpack[GenerateOptions]
    ) -> list[GeneratedText]: ...
    @show_options(GenerateOptions)
    def generate(
        self, prompt: str | Iterable[str], *, stream: bool = False, **options: Unpack[GenerateOptions]
    ) -> GeneratedText | list[GeneratedText] | GenerationStream:
        """Continue a text, or each of several texts, and return what follows it.

        It is a `str` whose `details` are those of `generate_detailed`: prompt, tokens, log probabilities, why it ended.
        With `stream`, return an iterator over the parts of one text, each as soon as it is generated. What is sampled
        for a prompt depends on the prompt, the options and the seed, not on other prompts.
        """
        if options.get("samples") is not None:
            raise UserError("`generate` returns one text per prompt: `samples` is for `generate_detailed`.")
        if stream:
            if not isinstance(prompt, str):
                raise UserError("`stream` takes one prompt, but `prompt` is not a text: give each by itself.")
            return self.generate_stream(prompt, **options)
        prompts = [prompt] if isinstance(prompt, str) else check_texts(prompt, "prompt", 1)
        texts = self._grow(prompts, self._request(options), "prompt", 1)[1]
        found = [
            GeneratedText(whole_text(text, self.vocabularies["text"]), partial(self._details, text, prompts))
            for text in texts
        ]
        return found[0] if isinstance(prompt, str) else found

    @overload
    def generate_detailed(self, prompt: str, **options: Unpack[DetailedOptions]) -> list[Generation]: ...  # type: ignore[overload-overlap]
    @overload
    def generate_detailed(
        self, prompt: Iterable[str], **options: Unpack[DetailedOptions]
    ) -> list[list[Generation]]: ...
    @show_options(GenerateOptions)
    def generate_detailed(
        self,
        prompt: str | Iterable[str],
        *,
        name: str = "prompt",
        first: int = 1,
        progress: ProgressCallback = lambda ready: None,
        **options: Unpack[GenerateOptions],
    ) -> list[Generation] | list[list[Generation]]:
        """Return the continuations of a text, or of each of several texts, with tokens, log probabilities and endings.

        Each text has `samples` of them, in the order in which they are drawn, or best first with a beam. `name` is the
        name of the prompts in messages, and `first` the number of the first one; `progress` is called with the number
        of texts finished since the last call.
        """
        prompts = [prompt] if isinstance(prompt, str) else check_texts(prompt, name, first)
        count, texts = self._grow(prompts, self._request(options), name, first, progress)
        found: list[list[Generation]] = [[] for _ in range(count)]
        for text, generation in zip(texts, self._finish(texts, prompts), strict=True):
            found[text.number].append(generation)
        return found[0] if isinstance(prompt, str) else found

    @show_options(GenerateOptions)
    def generate_stream(
        self, prompt: str, *, name: str = "prompt", first: int = 1, **options: Unpack[GenerateOptions]
    ) -> GenerationStream:
        """Continue one text, and return an iterator over the parts that follow it, each as soon as it is generated.

        Parts are never half a character, and never a part of a stop string. `name` is the prompt's name in messages,
        and `first` its number.
        """
        request = self._request(options)
        if request.samples > 1:
            raise UserError("A stream is one text: `samples` is for `generate_detailed`.")
        encoded = self._encode([check_text(prompt, f"{name}, line {first:,}")], request, name, first)
        (text,) = self._continuing(request).begin(encoded)
        return GenerationStream(self._parts(text, request), lambda ended: self._details(ended, [prompt]))

    def score(self, texts: Iterable[str], *, stride: int | None = None) -> list[TextScore]:
        """Score how probable texts are: the log probability of each of their tokens, given the tokens before it.

        The texts are read as documents are in training, with their markers. A window of `data.max_length` tokens moves
        by `stride` tokens over a longer text, by default by its own length; a model that carries its state reads texts
        whole.
        """
        return self._scores(check_texts(texts), stride, "texts", 1)

    def score_stream(
        self,
        texts: Iterable[str],
        *,
        stride: int | None = None,
        chunk: int = CHUNK,
        ready: Callable[[], bool] = lambda: True,
        name: str = "texts",
    ) -> Iterator[TextScore]:
        """Score an endless or very large number of texts, `chunk` of them at a time, in order.

        Fewer are taken when `ready` says that the next one has not arrived yet. `name` is the texts' name in messages.
        """
        check_stride(self.recipe, stride)  # here, so that errors are raised before the first text is read

        def scored(part: Sequence[str], first: int) -> list[TextScore]:
            return self._scores(check_texts(part, name, first), stride, name, first)

        return answer_stream(texts, scored, chunk=chunk, ready=ready)

    def evaluate(self, data: object, *, name: str = "data", stride: int | None = None) -> LanguageEvaluation:
        """Score how well the model predicts texts: perplexity per token and word, bits per byte.

        `data` are texts in any form that `heedful.train` takes: texts, dictionaries, columns, frames. A window of
        `data.max_length` tokens moves by `stride` tokens, by default by its own length.
        """
        return evaluate_language(self.bundle, Jsonl.model_validate(spool(data, GENERATE, name)), "", stride)

    def explain(
        self, text: str, *, top: int = 5, gradients: bool = False, swapped: Mapping[str, str] | None = None
    ) -> Explanation:
        """Return the weights with which the model read a text, and how probable each of its tokens was.

        Each token has `top` runners-up. With `gradients`, also return how much each token would change the next ones.
        `swapped` asks what if: it has words of the text and those that replace them, and `before` is the explanation of
        the text as it is.
        """
        refuse_blank(check_text(text, "`text`"))
        if swapped is not None:
            return explain_swapped(lambda other: self.explain(other, top=top, gradients=gradients), text, swapped)
        tokens = self._seen([BEGIN, *self._tokens(text, "`text`")])
        found = explain_running_text(self.network, self.vocabularies, tokens, top, gradients)
        return found.explanation(self.recipe, text, "")

    def _choose(self, text: Given, output: str | None, each: bool, to: str | None) -> Chosen:
        refuse_language(to)
        if output is None and each:
            return None
        read = [BEGIN, *self._tokens(single_text(text), "`text`")]
        if output is None:
            with torch.no_grad(), evaluation_mode(self.network), by_equation():
                (*_, last_V) = self.network(Packed.of([self._seen(read, 0)]).to(self.device))
            return [int(last_V.argmax())]
        written = [BEGIN, *self._tokens(single_text(text) + check_text(output, "`output`"), "`output`")]
        found = written[len(read) :] if written[: len(read)] == read else self._tokens(output, "`output`")
        if not found:
            raise UserError("`output` is empty, but it is what follows the text: give some text.")
        return found

    def _read(self, text: Given, chosen: Chosen, to: str | None) -> Reading:
        read = [BEGIN, *self._tokens(single_text(text), "`text`")]
        first = 1 if chosen is None else len(read)
        tokens = self._seen([*read, *(chosen or ())])
        return read_running_text(self.network, self.vocabularies["text"], tokens, first)

    def _seen(self, tokens: list[int], predicted: int = 1) -> list[int]:
        """Return tokens of which the model sees all, or all but the last, which is predicted; refuse too many."""
        if self.window is not None and len(tokens) - predicted > self.window:
            raise UserError(
                f"The text has {len(tokens) - predicted:,} tokens, but the model sees at most {self.window:,} "
                "(`data.max_length`): shorten it."
            )
        return tokens

    # --- prompts ------------------------------------------------------------------------------------------------------

    @property
    def window(self) -> int | None:
        """Maximum number of tokens that the model sees at once; None if it reads texts of any length.

        A Transformer has only learned relations within a window of its training, even if its positions have no limit;
        ALiBi alone is made for longer texts (Press et al. 2022).
        """
        decoder = model_of(self.recipe, LanguageModelTable).decoder
        bounded = isinstance(decoder, TransformerDecoderTable) and not decoder.positions_kind.reads_longer
        return self.recipe.data.max_length if bounded else None

    def has_unknown(self, text: str) -> bool:
        """Whether a text has characters or words that are not in the vocabulary, which the model reads as `<unk>`."""
        return UNKNOWN in encode_running_text(TextForm.of(self.recipe.data)(text), self.vocabularies["text"])

    def _request(self, options: GenerateOptions) -> GenerateRequest:
        request = resolve(options, self.recipe.data.batch_tokens)
        for stop in request.stop:
            missing = unspellable(stop, self.vocabularies["text"])
            if missing is not None:
                raise UserError(
                    f"{by_caller('--stop', '`stop`')} {stop!r} cannot occur, as {missing!r} is not in the vocabulary: "
                    "leave it out."
                )
        return request

    def _parts(self, text: GrowingText, request: GenerateRequest) -> Iterator[tuple[str, GrowingText]]:
        parts = self._continuing(request).stream(text)
        while True:
            with evaluation_mode(self.network):  # not while the caller has a part
                part = next(parts, None)
            if part is None:
                return
            yield part

    def _grow(
        self,
        prompts: Iterable[str],
        request: GenerateRequest,
        name: str,
        first: int,
        progress: ProgressCallback = lambda ready: None,
    ) -> tuple[int, list[GrowingText]]:
        """Return the number of prompts, and the texts that grew from them."""
        encoded = self._encode(check_texts(prompts, name, first), request, name, first)
        work = self._continuing(request)
        with evaluation_mode(self.network):
            return len(encoded), work.grow(work.begin(encoded), progress)

    def continuing(
        self, prompts: Sequence[str], options: GenerateOptions, name: str = "prompt"
    ) -> tuple[Continuing, int, list[list[int]]]:
        """Return what continues prompts with some options, the number of texts of each, and the prompts' tokens."""
        request = self._request(options)
        return self._continuing(request), request.samples, self._encode(prompts, request, name, 1)

    def _continuing(self, request: GenerateRequest) -> Continuing:
        return Continuing(self._scorer, self.vocabularies["text"], request, self.window)

    def _encode(self, prompts: Sequence[str], request: GenerateRequest, name: str, first: int) -> list[list[int]]:
        """Return the tokens that the model continues; with open borders a prompt may be from the middle of a text."""
        encoded = []
        for number, prompt in enumerate(prompts, start=first):
            tokens = self._tokens(prompt, f"{name}, line {number:,}")
            if self.recipe.data.borders == "closed":
                tokens = [BEGIN, *tokens]
            elif not tokens:
                raise UserError(
                    f"{name}, line {number:,} is empty, but this model continues texts (`data.borders` is open): give "
                    "some text."
                )
            if self.window is not None and len(tokens) > self.window and not request.slide:
                raise UserError(
                    f"{name}, line {number:,} has {len(tokens):,} tokens, but the model sees at most {self.window:,} "
                    f"(`data.max_length`): shorten it, or {by_caller('leave out --no-slide', 'let the window slide')}."
                )
            encoded.append(tokens)
        return encoded

    def _tokens(self, text: str, where: str) -> list[int]:
        """Return the tokens of a text, without markers; `where` names it in messages."""
        form = TextForm.of(self.recipe.data)
        form.check_text(text, where)
        return encode_running_text(form(text), self.vocabularies["text"])

    # --- results ------------------------------------------------------------------------------------------------------

    def _details(self, text: GrowingText, prompts: Sequence[str]) -> Generation:
        with evaluation_mode(self.network):
            return self._finish([text], prompts)[0]

    def _finish(self, texts: Sequence[GrowingText], prompts: Sequence[str]) -> list[Generation]:
        """Return what is known of texts that have ended, each with its prompt."""
        tokenizer, spans = self.vocabularies["text"], [span for text in texts for span in text.spans if span.found]
        sequences = [(*span.context, *span.found) for span in spans]
        longest = max(map(len, sequences), default=1)
        scored = score_tokens(self.network, sequences, longest, longest, self.recipe.data.batch_tokens)
        log_p = iter(some[-len(span.found) :] for some, span in zip(scored, spans, strict=True))
        return [
            Generation(
                whole_text(text, tokenizer),
                text.tokens,
                tuple(tokenizer.pieces(text.tokens)),
                tuple(value for span in text.spans if span.found for value in next(log_p)),
                text.ended or "length",
                text.slid,
                prompts[text.number],
            )
            for text in texts
        ]

    def _scores(self, texts: Sequence[str], stride: int | None, name: str, first: int) -> list[TextScore]:
        check_stride(self.recipe, stride)
        tokenizer, data = self.vocabularies["text"], self.recipe.data
        ends = not all(is_whole_file(corpus) for corpus in data.train)  # a file that is one document has no end
        end, last = ([END], (END_PIECE,)) if ends else ([], ())
        rows = [self._tokens(text, f"{name}, line {number:,}") for number, text in enumerate(texts, start=first)]
        marked = [[BEGIN, *row, *end] for row in rows]
        length = max(map(len, marked), default=1) if carries_state(self.recipe) else data.max_length
        scored = score_tokens(self.network, marked, length, stride or length, data.batch_tokens)
        return [
            TextScore((*tokenizer.pieces(row), *last), tuple(log_p)) for row, log_p in zip(rows, scored, strict=True)
        ]
