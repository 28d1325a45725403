"""What a network reads, from what a caller gives to a batch: texts, pairs of texts, documents and images.

Tasks that predict something of such an input, a class or a number, read it in the same way.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.base.arguments import check_one_each
from heedful.base.errors import UserError
from heedful.config.data import Data, ImageForm
from heedful.config.model.encoders import HierarchicalEncoderTable
from heedful.config.model.images import AnyImageEncoder
from heedful.config.model.pooled import TextModel
from heedful.data.batch_layout import CPU_MULTIPLE
from heedful.data.batches.documents import DocumentCollator
from heedful.data.batches.images import ImageCollator, ImageQuestionCollator
from heedful.data.batches.texts import AnyTextCollator, PairedTextCollator, TextCollator
from heedful.data.collate import places_of
from heedful.data.corpora.images import LabelledImage, image_of
from heedful.data.corpora.texts import Text
from heedful.data.epochs.loader import Collator
from heedful.data.epochs.plan import Indices, batches_by_length
from heedful.data.images.decoding import Pixels
from heedful.data.prepare.documents import document_of, document_store
from heedful.data.prepare.images import decode_all, image_streams
from heedful.data.text_form import TextForm
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.explain.images import ExplainedImage


def text_collator(model: TextModel, data: Data, classes: int = 0) -> AnyTextCollator:
    """Return the collator of a model's texts, pairs or documents; `classes` is 0 where each has one class."""
    if isinstance(model.encoder, HierarchicalEncoderTable):
        letters = model.encoder.letters is not None
        return DocumentCollator(data.max_length, model.encoder.max_sentence, data.cut, classes, letters)
    if model.joins_after_reading:
        return PairedTextCollator(data.max_length, data.cut, classes)
    return TextCollator(data.max_length, data.cut, data.paired, classes)


def image_collator(encoder: AnyImageEncoder, classes: int = 0) -> ImageCollator:
    """Return the collator of a model's images; `classes` is 0 where each has one class."""
    return ImageCollator(encoder.patch, encoder.class_token, classes)


def question_collator(encoder: AnyImageEncoder, max_length: int, answers: int) -> ImageQuestionCollator:
    """Return the collator of a model's images and of the questions about them."""
    return ImageQuestionCollator(image_collator(encoder), max_length, answers)


class TextInputs:
    """Texts, pairs or documents, as a model reads them."""

    def __init__(self, model: TextModel, data: Data, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer, self.form = model, tokenizer, TextForm.of(data)
        self.paired = not model.nested and data.paired

    def check(self, texts: Sequence[Text], name: str, first: int = 1) -> None:
        """Refuse texts that cannot be read; `name` and the number of the first one are for messages."""
        for sides in ([text.text for text in texts], [text.second or "" for text in texts]):
            self.form.check(sides, name, first)

    def check_pair(self, text: str, second: str | None) -> Text:
        """Return a text, or a pair, that a method was given as the model reads it; refuse one that cannot be read."""
        self.check_seconds([text], None if second is None else [second])
        for name, content in (("`text`", text), ("`second`", second or "")):
            self.form.check_text(content, name)
        return self.formed(Text(text, second))

    def check_seconds(self, texts: Sequence[str], seconds: Sequence[str] | None) -> None:
        """Refuse second texts of a model that reads single ones, and single ones where a model reads pairs."""
        if seconds is None and self.paired:
            raise UserError("This model reads pairs of texts: give `seconds`, one per text.")
        if seconds is not None and not self.paired:
            raise UserError("This model reads single texts: leave out `seconds`.")
        if seconds is not None:
            check_one_each(len(texts), "text", len(seconds), "second text")

    def formed(self, text: Text) -> Text:
        """Return a text as the model reads it: normalised, and lowercased if the recipe sets it."""
        return text if self.model.nested else text.formed(self.form)  # a document: after it is split into sentences

    def store(self, texts: Sequence[Text]) -> TokenStore:
        """Tokenize normalised texts as in training; documents also have the lengths of their sentences."""
        if self.model.nested:
            documents = [document_of(text.text, self.form) for text in texts]
            return document_store(documents, self.tokenizer, self.model.reads_letters)
        streams = {"text": self.tokenizer.encode_batch([text.text for text in texts])}
        if self.paired:
            streams["second"] = self.tokenizer.encode_batch([text.second or "" for text in texts])
        return TokenStore.of(**streams)


class ImageInputs:
    """Images, as a model reads them: in gray or colour, and resized if the recipe sets it."""

    def __init__(self, encoder: AnyImageEncoder, form: ImageForm) -> None:
        self.encoder, self.form = encoder, form

    def image(self, given: object, where: str) -> LabelledImage:
        """Return an image that a program gave; `where` names it in messages."""
        return image_of(given, where, self.encoder.channels)

    def decode(self, images: Iterable[LabelledImage]) -> list[Pixels]:
        """Return the pixels of images."""
        return list(decode_all(images, self.form, self.encoder.channels))

    def store(self, images: Sequence[LabelledImage]) -> TokenStore:
        """Decode images as in training."""
        return TokenStore(image_streams(self.decode(images)))

    def explained(self, image: LabelledImage) -> ExplainedImage:
        """Return an image with the grid in which it is read."""
        (pixels,) = self.decode([image])
        return ExplainedImage(pixels, self.encoder.patch, self.encoder.class_token)


@torch.inference_mode()
def outputs_of_rows(
    network: nn.Module,
    collator: Collator[Any],
    stores: Sequence[TokenStore],
    rows: Indices,
    batch_tokens: int,
    counts: Indices | None = None,
    advance: Callable[[int], None] = lambda finished: None,
) -> Tensor:
    """Return what a network in `eval` mode predicts for rows of stores, in their order; `advance` counts them.

    A row has one output, or as many as `counts` says: a row of questions about an image has one for each question.
    """
    counts = np.ones_like(rows) if counts is None else counts
    starts, device = np.cumsum(counts) - counts, next(network.parameters()).device
    found = torch.empty(0)
    for indices in batches_by_length(collator.costs(stores, rows), batch_tokens=batch_tokens):
        batch = collator.batch(stores, rows[indices], multiple=CPU_MULTIPLE)
        outputs = network(batch.to(device).inputs)[: batch.sentences].float().cpu()
        if not len(found):
            found = torch.empty(int(counts.sum()), *outputs.shape[1:])
        found[torch.from_numpy(places_of(starts[indices], counts[indices]))] = outputs
        advance(len(outputs))
    return found
