"""Loaded models with one output for each text, pair of texts or image that they read: classifiers and regressors.

A task adds what an output is: a prediction, and an evaluation of many.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.arguments import check_flag, check_one_each, check_several, check_text, check_texts
from heedful.base.errors import UserError
from heedful.config.model.images import ImageAnswererModel
from heedful.config.model.pooled import ImageModel, TextModel
from heedful.data.batches.texts import cut_texts
from heedful.data.corpora.images import AnyImage, LabelledImage, image_of, is_one_image
from heedful.data.corpora.in_memory import labels_of_row, read_rows
from heedful.data.corpora.texts import Text
from heedful.data.epochs.loader import Collator
from heedful.data.epochs.plan import Indices
from heedful.data.images.decoding import Pixels
from heedful.data.prepare.documents import document_of, document_store
from heedful.data.prepare.images import decode_all, image_streams
from heedful.data.text_form import TextForm
from heedful.data.token_store import TokenStore
from heedful.explain.explanation import ExplainedImage, Explanation
from heedful.explain.measuring import Chosen, Given, Measures, pair_of, refuse_language
from heedful.explain.readings import Reading
from heedful.explain.texts import explain_swapped, refuse_blank
from heedful.models.bundle import Bundle, NetworkType
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.shared.answering.streaming import CHUNK, answer_stream, chunks, empty_answer
from heedful.tasks.shared.embeddings import Embeds
from heedful.tasks.shared.loaded_model import Evaluates, Found, LoadedModel
from heedful.tasks.shared.old_names import takes_old_names
from heedful.tasks.shared.pooled.explaining import Output, explain_image, explain_text, read_pooled
from heedful.tasks.shared.pooled.network_outputs import collator_of, outputs_of_rows

Prediction = TypeVar("Prediction")
IMAGES = 256  # that are in memory at once


class PooledModel(Evaluates[NetworkType, Found], Generic[NetworkType, Found, Prediction]):
    """A trained model with one output for each row of what it reads."""

    _noun: ClassVar = "text"  # what a row is
    _does: ClassVar = "read"  # what is done with it
    _chunk: ClassVar = CHUNK  # number of rows that are in memory at once when they are evaluated
    _nothing: Prediction  # for a blank text, and for an image that cannot be read

    @abstractmethod
    def store(self, rows: Sequence[Any]) -> TokenStore:
        """Make a store of rows, as in training."""

    @abstractmethod
    def _predictions(self, outputs_BC: Tensor, /) -> list[Prediction]:
        """Return what the network's outputs mean."""

    @abstractmethod
    def _output(self, outputs_BC: Tensor) -> Output:
        """Return the output of one row as an explanation shows it."""

    @abstractmethod
    def _truth(self, rows: Sequence[Any], name: str) -> Sequence[Any]:
        """Return what is true of rows, as they are compared."""

    @abstractmethod
    def _evaluation(self, rows: Sequence[Any], true: Sequence[Any], outputs_BC: Tensor, **facts: Any) -> Found:
        """Compare the network's outputs for rows with what is true of them."""

    def _collator(self) -> Collator[Any]:
        """Return what makes batches of a store."""
        return collator_of(self.recipe, len(self.vocabularies.labels))

    def _inputs(self, row: Any, copies: int = 1) -> Any:
        """Return one row as the network reads it, or copies of it."""
        return self._collator().batch([self.store([row] * copies)], np.arange(copies)).to(self.device).inputs

    def _counts(self, store: TokenStore) -> Indices | None:
        """Return the number of outputs of each row of a store; None where each has one."""
        return None

    def _outputs(self, rows: Sequence[Any], advance: Callable[[int], None] = lambda finished: None) -> Tensor:
        """Return what the network predicts for rows, of which there is one at least; `advance` counts them."""
        return self._outputs_of(self.store(rows), len(rows), advance)

    def _outputs_of(
        self, store: TokenStore, rows: int, advance: Callable[[int], None] = lambda finished: None
    ) -> Tensor:
        """Return what the network predicts for the rows of a store."""
        tokens = self.recipe.data.batch_tokens
        with evaluation_mode(self.network):
            return outputs_of_rows(
                self.network, self._collator(), [store], np.arange(rows), tokens, self._counts(store), advance
            )

    def _predicted(self, rows: Sequence[Any]) -> list[Prediction]:
        return self._predictions(self._outputs(rows)) if rows else []

    def evaluate_rows(
        self, rows: Sequence[Any], *, name: str = "data", progress: Callable[[int], None] = lambda ready: None
    ) -> Found:
        """Predict what is true of rows, and compare; blank texts are left out, as in training."""
        read = self._readable(rows)
        if not read:
            raise UserError(f"{name} has no {self._noun} to {self._does}.")
        true, began = self._truth(read, name), time.perf_counter()
        outputs_BC = torch.cat([self._outputs(part, progress) for part in chunks(read, self._chunk)])
        seconds = time.perf_counter() - began
        return self._evaluation(read, true, outputs_BC, blank=len(rows) - len(read), seconds=seconds)

    def _readable(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Return the rows that have something to read, as the model reads them."""
        return rows


class PooledTextModel(PooledModel[NetworkType, Found, Prediction], Embeds[NetworkType], Measures):
    """A trained model with one output for a text, a pair of texts or a document."""

    def __init__(self, bundle: Bundle[NetworkType]) -> None:
        super().__init__(bundle)
        table = bundle.recipe.model
        assert isinstance(table, TextModel), f"{table.family} does not pool texts"
        self._table, self._form = table, TextForm.of(bundle.recipe.data)

    @property
    def paired(self) -> bool:
        """Whether the model reads pairs of texts."""
        return not self._table.nested and self.recipe.data.paired

    def stream(self, texts: Iterable[str]) -> Iterator[Prediction]:
        """Predict for an endless or a very large number of single texts, some at a time, in order."""
        if self.paired:
            raise UserError("This model reads pairs of texts: use `stream_texts`.")
        lines = enumerate(check_several(texts, "texts"), start=1)
        return self.stream_texts(Text(check_text(text, f"texts, line {number:,}")) for number, text in lines)

    def stream_texts(
        self,
        texts: Iterable[Text],
        *,
        chunk: int = CHUNK,
        ready: Callable[[], bool] = lambda: True,
        name: str = "texts",
        tell_cut: Callable[[bool], None] = lambda cut: None,
    ) -> Iterator[Prediction]:
        """Predict for a stream of single texts, or of pairs, `chunk` of them at a time.

        Fewer are taken when `ready` says that the next one has not arrived yet. `name` is the stream's name in
        messages. `tell_cut` is called for each text, before its prediction is yielded: whether the text is longer than
        the model reads, and was cut.
        """

        def predicted(part: Sequence[Text], first: int) -> list[Prediction]:
            for sides in ([text.text for text in part], [text.second or "" for text in part]):
                self._form.check(sides, name, first)
            formed = [self.formed(text) for text in part]
            found = iter(self._predictions_and_cuts([text for text in formed if not text.blank]))
            answers = [(self._nothing, False) if text.blank else next(found) for text in formed]
            for _, cut in answers:
                tell_cut(cut)
            return [answer for answer, _ in answers]

        return answer_stream(texts, predicted, chunk=chunk, ready=ready)

    def explain(
        self,
        text: str,
        second: str | None = None,
        *,
        gradients: bool = False,
        swapped: Mapping[str, str] | None = None,
    ) -> Explanation:
        """Return the weights with which the model read a text or a pair; the probability of every class, or a number.

        With `gradients`, also return how much each token would change the most likely class, or the number.
        `swapped` asks what if: it has words of the text and those that replace them, and `before` is the explanation of
        the text as it is.
        """
        refuse_blank(check_text(text, "`text`"))
        if swapped is not None:
            return explain_swapped(lambda other: self.explain(other, second, gradients=gradients), text, swapped)
        read = self._checked(text, second)
        (cut,) = cut_texts(self._collator(), self.store([read]))
        return replace(explain_text(self, text, self._inputs(read), self._output, gradients), cut=cut)

    def _scale(self) -> Callable[[Tensor], Tensor] | None:
        """Return what turns scores into log probabilities; None where the output is a number."""
        return None

    def _output_of(self, name: str) -> int:
        """Return the number of an output that a program named; refuse one that the model does not have."""
        raise UserError("This model predicts one number: leave out `output` and `against`.")

    def _output_names(self, outputs: Sequence[int]) -> Sequence[str]:
        """Return the names of outputs."""
        return ["number" for _ in outputs]

    def _choose(self, text: Given, output: str | None, each: bool, to: str | None) -> Chosen:
        refuse_language(to)
        if output is not None:
            return [self._output_of(check_text(output, "`output`"))]
        return [self._output(self._outputs([self._checked(*pair_of(text))])).score]

    def _read(self, text: Given, chosen: Chosen, to: str | None) -> Reading:
        row, (output,) = self._checked(*pair_of(text)), chosen or (0,)
        return read_pooled(self, partial(self._inputs, row), output, self._output_names, self._scale())

    def _predictions_and_cuts(self, rows: Sequence[Text]) -> list[tuple[Prediction, bool]]:
        """Predict for texts that are not blank; return each prediction with whether its text was cut."""
        if not rows:
            return []
        store = self.store(rows)
        cuts = cut_texts(self._collator(), store)
        found = self._predictions(self._outputs_of(store, len(rows)))
        return [(self._of_cut(one) if cut else one, cut) for one, cut in zip(found, cuts, strict=True)]

    def _of_cut(self, prediction: Prediction) -> Prediction:
        """Return the prediction for a text that was cut, marked as such where it can be."""
        return prediction

    def formed(self, text: Text) -> Text:
        """Return a text as the model reads it: normalised, and lowercased if the recipe sets it."""
        return text if self._table.nested else text.formed(self._form)  # a document: after it is split into sentences

    def store(self, rows: Sequence[Text]) -> TokenStore:
        """Tokenize normalised texts as in training; documents also have the lengths of their sentences."""
        tokenizer = self.vocabularies["text"]
        if self._table.nested:
            documents = [document_of(text.text, self._form) for text in rows]
            return document_store(documents, tokenizer, self._table.reads_letters)
        streams = {"text": tokenizer.encode_batch([text.text for text in rows])}
        if self.paired:
            streams["second"] = tokenizer.encode_batch([text.second or "" for text in rows])
        return TokenStore.of(**streams)

    def _predict(
        self, texts: str | Iterable[str], seconds: str | Iterable[str] | None
    ) -> Prediction | list[Prediction]:
        """Predict for texts, or for one text; a model of pairs needs the second text of each."""
        if seconds is not None and isinstance(texts, str) != isinstance(seconds, str):
            raise UserError("`texts` and `seconds` must be one text each, or a list of texts each.")
        firsts = check_texts([texts] if isinstance(texts, str) else texts)
        others = None if seconds is None else check_texts([seconds] if isinstance(seconds, str) else seconds, "seconds")
        self._check_seconds(len(firsts), None if others is None else len(others))
        found = list(self.stream_texts(map(Text, firsts) if others is None else map(Text, firsts, others)))
        return found[0] if isinstance(texts, str) else found

    def _checked(self, text: str, second: str | None) -> Text:
        """Return a text or a pair as the model reads it; refuse one that cannot be read."""
        self._check_seconds(1, None if second is None else 1)
        for name, content in (("`text`", text), ("`second`", second or "")):
            self._form.check_text(content, name)
        return self.formed(Text(text, second))

    def _check_seconds(self, texts: int, seconds: int | None) -> None:
        """Refuse second texts of a model that reads single ones, and single ones where a model reads pairs."""
        if seconds is None and self.paired:
            raise UserError("This model reads pairs of texts: give `seconds`, one per text.")
        if seconds is not None and not self.paired:
            raise UserError("This model reads single texts: leave out `seconds`.")
        if seconds is not None:
            check_one_each(texts, "text", seconds, "second text")

    def _rows(self, data: object, name: str) -> list[Text]:
        texts = [
            Text(row["text"], row.get("second"), labels_of_row(row), line, row.get("number"))
            for line, row in enumerate(read_rows(data, self._rules, name), start=1)
        ]
        seconds = [text for text in texts if text.second is not None]
        self._check_seconds(len(texts), len(seconds) or None)
        return texts

    def _readable(self, rows: Sequence[Text]) -> list[Text]:
        return [text for text in map(self.formed, rows) if not text.blank]


class ReadsImages(LoadedModel[NetworkType]):
    """A loaded model that reads images: in gray or colour, and resized if the recipe sets it."""

    def __init__(self, bundle: Bundle[NetworkType]) -> None:
        super().__init__(bundle)
        table = bundle.recipe.model
        assert isinstance(table, ImageModel | ImageAnswererModel), f"{table.family} reads no images"
        self._encoder = table.encoder

    def _image(self, given: object, where: str) -> LabelledImage:
        """Return an image that a program gave; `where` names it in messages."""
        return image_of(given, where, self._encoder.channels, self.recipe.data.images.max_pixels)

    def _decode(self, images: Iterable[LabelledImage]) -> list[Pixels]:
        return list(decode_all(images, self.recipe.data.images, self._encoder.channels))

    def _explained(self, image: LabelledImage) -> ExplainedImage:
        """Return an image with the grid in which it is read."""
        (pixels,) = self._decode([image])
        return ExplainedImage(pixels, self._encoder.patch, self._encoder.class_token)


@takes_old_names
class PooledImageModel(ReadsImages[NetworkType], PooledModel[NetworkType, Found, Prediction]):
    """A trained model with one output for an image."""

    _noun = "image"
    _truth_of = "label"  # what is true of an image

    def stream(
        self, images: Iterable[AnyImage], *, chunk: int = IMAGES, refused: Callable[[UserError], None] | None = None
    ) -> Iterator[Prediction]:
        """Predict for an endless or a very large number of images, `chunk` of them at a time, in order.

        `refused` is called with the error of an image that cannot be read, for which the prediction is then empty;
        without it the error is raised.
        """
        given = enumerate(check_several(images, "images", "image"), start=1)
        read = (self._image(image, f"image {number:,}") for number, image in given)
        return self.stream_images(read, chunk=chunk, refused=refused)

    def stream_images(
        self,
        images: Iterable[LabelledImage],
        *,
        chunk: int = IMAGES,
        refused: Callable[[UserError], None] | None = None,
    ) -> Iterator[Prediction]:
        """Predict for a stream of images that are read when their turn comes; the options are those of `stream`."""

        def predicted(part: Sequence[LabelledImage], first: int) -> list[Prediction]:
            return self._predicted(part)

        return answer_stream(images, predicted, chunk=chunk, refused=empty_answer(refused, self._nothing))

    def embed(self, images: AnyImage | Iterable[AnyImage]) -> NDArray[np.float32]:
        """Return one vector per image (images x width), pooled from those of its patches."""
        several = [images] if is_one_image(images) else check_several(images, "images", "image")
        rows = [self._image(image, f"image {number:,}") for number, image in enumerate(several, start=1)]
        if not rows:
            return np.zeros((0, self._encoder.memory_width), np.float32)
        store, pooled = self.store(rows), self.network.get_submodule("pooled")
        with evaluation_mode(self.network):
            found = outputs_of_rows(
                pooled, self._collator(), [store], np.arange(len(rows)), self.recipe.data.batch_tokens
            )
        return found.numpy()

    def explain(self, image: AnyImage, *, gradients: bool = False, name: str = "") -> Explanation:
        """Return the attention between the patches of an image, and the probability of every class, or a number.

        With `gradients`, also return how much each patch would change the most likely class, or the number. `name` is
        what the explanation calls the image, by default its path.
        """
        read, flag = self._image(image, "`image`"), check_flag("gradients", gradients)
        return explain_image(self, name or read.where, self._explained(read), self._output, flag)

    def store(self, rows: Sequence[LabelledImage]) -> TokenStore:
        """Decode images as in training."""
        return TokenStore(image_streams(self._decode(rows)))

    @abstractmethod
    def _known(self, said: Any, where: str) -> dict[str, Any]:
        """Return what a program says of an image, as a field of it."""

    def _rows(self, data: Iterable[Any], name: str) -> list[LabelledImage]:
        found = []
        for number, row in enumerate(data, start=1):
            where = f"{name}, row {number:,}"
            if not isinstance(row, Sequence) or isinstance(row, str | bytes) or len(row) != 2:
                raise UserError(f"{where} must be an image and its {self._truth_of}.")
            found.append(replace(self._image(row[0], where), **self._known(row[1], where)))
        return found
