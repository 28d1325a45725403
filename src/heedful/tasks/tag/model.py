"""A trained tagger: words in, one label per word out."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Final, NamedTuple, Unpack, overload

from jaxtyping import Float
from torch import Tensor

from heedful.base.arguments import check_several, check_text, check_whole
from heedful.base.errors import UserError
from heedful.base.label_schemes import mark_spans
from heedful.base.options import show_options
from heedful.config.model.encoder_only import TaggerModel
from heedful.config.task_rules import model_of
from heedful.data.corpora.in_memory import read_rows
from heedful.data.corpora.tagged import TaggedText, tag_numbers, tagged_text
from heedful.data.text_form import TextForm
from heedful.data.token_store import TokenStore
from heedful.explain.explanation import Explanation
from heedful.explain.texts import explain_swapped, refuse_blank
from heedful.metrics.label_spans import spans_of
from heedful.models.bundle import Bundle
from heedful.models.networks import WordClassifier
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.shared.answering.streaming import CHUNK, answer_stream, chunks
from heedful.tasks.shared.embeddings import Embeds
from heedful.tasks.shared.loaded_model import EvaluateOptions, Evaluates, listed
from heedful.tasks.tag.data import WordPieces, tagged_streams
from heedful.tasks.tag.evaluation import TagEvaluation, find_forbidden
from heedful.tasks.tag.explaining import explain_tags
from heedful.tasks.tag.label_scores import LabelScores
from heedful.tasks.tag.rules import TAG
from heedful.tasks.tag.scoring import decide_labels, label_loss, label_probabilities, scores_of

Sentence = str | Sequence[str]  # words with spaces between them, or a list of words


class TaggedSpan(NamedTuple):
    """Words that labels such as B-PER and I-PER mark as one span."""

    type: str  # what follows the prefix of the labels
    start: int  # index of the first word
    end: int  # index after the last word
    text: str  # the words, with spaces between them


@dataclass(frozen=True)
class Tagging:
    """The words of a sentence and the label of each; empty for a blank one."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    probabilities: tuple[float, ...]  # probability of each word's label

    def spans(self) -> list[TaggedSpan]:
        """Return the spans that labels of BIO or BIOES mark, in order; other labels mark words, not spans."""
        if not mark_spans(self.labels):
            return []
        return [
            TaggedSpan(span.type, span.start, span.end, " ".join(self.words[span.start : span.end]))
            for span in spans_of(self.labels)
        ]


BLANK: Final = Tagging((), (), ())


class Tagger(Embeds[WordClassifier], Evaluates[WordClassifier, TagEvaluation]):
    """A trained tagger with its recipe and its tokenizer.

    It runs on the device and in the precision that `load` chose. A sentence that is longer than `data.max_length` is
    read in parts, which are cut between words: every word has a label.
    """

    _rules, _network = TAG, WordClassifier

    def __init__(self, bundle: Bundle[WordClassifier]) -> None:
        super().__init__(bundle)
        self._form = TextForm.of(bundle.recipe.data)
        self._words = WordPieces(bundle.vocabularies["text"])

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels, in the order of the network's scores."""
        return self.vocabularies.labels

    @overload
    def tag(self, texts: str) -> Tagging: ...  # type: ignore[overload-overlap]
    @overload
    def tag(self, texts: Iterable[Sentence]) -> list[Tagging]: ...
    def tag(self, texts: str | Iterable[Sentence]) -> Tagging | list[Tagging]:
        """Tag the words of sentences, or of one sentence; spaces separate words, or a sentence is a list of words."""
        if isinstance(texts, str):
            return self.tag([texts])[0]
        return list(self.stream(texts))

    def stream(
        self,
        texts: Iterable[Sentence],
        *,
        chunk: int = CHUNK,
        ready: Callable[[], bool] = lambda: True,
        name: str = "texts",
    ) -> Iterator[Tagging]:
        """Tag a stream of sentences in order, `chunk` of them at a time.

        Fewer are taken when `ready` says that the next one has not arrived yet. `name` is the stream's name in
        messages.
        """

        def tagged(part: Sequence[object], first: int) -> list[Tagging]:
            sentences = [
                _words_of(sentence, f"{name}, line {number:,}") for number, sentence in enumerate(part, start=first)
            ]
            for number, words in enumerate(sentences, start=first):
                self._form.check_text(" ".join(words), f"{name}, line {number:,}")
            scores = self.scores([self.formed(TaggedText(words)) for words in sentences if words])
            decided = iter(decide_labels(self.network, scores))
            shares = iter(label_probabilities(self.network, scores))
            found = []
            for words in sentences:
                if not words:
                    found.append(BLANK)
                    continue
                chosen_W = next(decided)
                likely = next(shares).gather(1, chosen_W.unsqueeze(1)).flatten().tolist()
                labels = tuple(self.labels[label] for label in chosen_W.tolist())
                found.append(Tagging(words, labels, tuple(likely)))
            return found

        return answer_stream(check_several(texts, "texts"), tagged, chunk=chunk, ready=ready)

    @show_options(EvaluateOptions)
    def evaluate(self, data: object, **options: Unpack[EvaluateOptions]) -> TagEvaluation:
        """Tag sentences and compare with their labels: accuracy, and precision, recall and F1 of spans.

        `data` are sentences with labels in any form that `heedful.train` takes: tuples of words and labels,
        dictionaries, columns, frames. Metrics of your own get the labels of each sentence as tuples.
        """
        return self._evaluate(data, **options)

    def _rows(self, data: object, name: str) -> list[TaggedText]:
        return [
            tagged_text(_listed(row["text"]), _listed(row["label"]), f"{name}, row {number:,}", number)
            for number, row in enumerate(read_rows(data, TAG, name), start=1)
        ]

    def evaluate_rows(
        self, rows: Sequence[TaggedText], *, name: str = "texts", progress: Callable[[int], None] = lambda ready: None
    ) -> TagEvaluation:
        """Tag sentences and compare with their labels; blank ones are left out."""
        read = tuple(text for text in rows if not text.blank)
        if not read:
            raise UserError(f"{name} has no word to tag.")
        true = tag_numbers(read, self.labels, name)
        scores: list[Float[Tensor, "W C"]] = []
        began = time.perf_counter()
        for part in chunks(read, CHUNK):
            scores += self.scores([self.formed(text) for text in part])
            progress(len(part))
        said = [decided.tolist() for decided in decide_labels(self.network, scores)]
        seconds = time.perf_counter() - began
        result = LabelScores.of(self.labels, said, true, label_loss(self.network, scores, true))
        forbidden = find_forbidden(read, self.labels, name)
        blank = len(rows) - len(read)
        return TagEvaluation(texts=read, result=result, blank=blank, seconds=seconds, forbidden=forbidden)

    def explain(
        self, text: Sentence, *, top: int = 5, gradients: bool = False, swapped: Mapping[str, str] | None = None
    ) -> Explanation:
        """Return the weights with which the model read a sentence, and the probabilities of each word's labels.

        Each word has `top` runners-up. With `gradients`, also return how much each piece would change each label.
        `swapped` asks what if: it has words of the text and those that replace them, and `before` is the explanation of
        the text as it is.
        """
        check_whole("top", top, least=0)
        words = _words_of(text, "`text`")
        if swapped is not None:
            return explain_swapped(
                lambda other: self.explain(other, top=top, gradients=gradients), " ".join(words), swapped
            )
        refuse_blank(" ".join(words))
        self._form.check_text(" ".join(words), "`text`")
        return explain_tags(self, words, self.store([self.formed(TaggedText(words))]), top, gradients)

    def formed(self, text: TaggedText) -> TaggedText:
        """Return a sentence as the model reads it: normalised and lowercased if the recipe says so."""
        return TaggedText(tuple(map(self._form, text.words)), text.labels, text.lines, written=text.spelled)

    def scores(self, texts: Sequence[TaggedText]) -> list[Float[Tensor, "W C"]]:
        """Return the scores of every label for the words of normalised sentences, none of them blank."""
        if not texts:
            return []
        with evaluation_mode(self.network):
            return scores_of(self._bundle, self.store(texts))

    def store(self, texts: Sequence[TaggedText]) -> TokenStore:
        """Tokenize normalised sentences as in training; a long one becomes several rows."""
        letters = model_of(self.recipe, TaggerModel).letters is not None
        return TokenStore(tagged_streams(texts, self._words, self.recipe.data.max_length, letters=letters))

    def _own_facts(self) -> Iterator[str]:
        yield f"{len(self.labels):,} labels: {listed(self.labels)}"


def _words_of(sentence: object, where: str) -> tuple[str, ...]:
    """Return the words of a sentence: those that spaces separate, or a list of them."""
    if isinstance(sentence, str):
        return tuple(check_text(sentence, where).split())
    if not isinstance(sentence, list | tuple):
        raise UserError(f"{where} is {shortened(sentence)}, but must be a text or a list of words.")
    words = tuple(check_text(word, f"{where}: word {number:,}") for number, word in enumerate(sentence, start=1))
    blank = next((number for number, word in enumerate(words, start=1) if not word.strip()), None)
    if blank is not None:
        raise UserError(f"{where}: word {blank:,} is blank: leave it out.")
    return words


def _listed(value: object) -> Sequence[str]:
    """Return the words or labels of a checked row: a list of them, or a text in which spaces separate them."""
    return value.split() if isinstance(value, str) else value  # type: ignore[return-value]


load_tagger = Tagger.load
