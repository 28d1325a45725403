"""A trained captioner: image in, sentence out."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Final, Unpack, cast, overload

import numpy as np
import torch
from torch import Tensor

from heedful.base.arguments import check_flag, check_several, check_text, check_texts
from heedful.base.errors import UserError, by_caller, memory_faults, option
from heedful.base.options import show_options
from heedful.base.packed import Run
from heedful.config.model.images import AnyImageEncoder
from heedful.config.model.mixed import CaptionerModel
from heedful.config.recipe import Recipe
from heedful.config.task_rules import model_of
from heedful.data.batches.images import ImageCollator
from heedful.data.corpora.images import AnyImage, Captioned, LabelledImage, image_of, is_one_image
from heedful.data.epochs.plan import batches_by_length
from heedful.data.images.decoding import Pixels
from heedful.data.prepare.images import decode_all, image_streams
from heedful.data.text_form import TextForm
from heedful.data.token_store import Ragged, TokenStore
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.scorer import SingleModel
from heedful.decode.search import ProgressCallback
from heedful.explain.explanation import ExplainedImage, Explanation, SearchNode, TokenSequence
from heedful.explain.generators import explain_target
from heedful.metrics.edits import Reference, uniform
from heedful.metrics.language.perplexity import Likelihood
from heedful.metrics.language.perplexity import likelihood as likelihood_of
from heedful.metrics.own_metrics import GivenMetrics, MetricNames, check_metrics, metrics_by_name
from heedful.metrics.summed_metrics import metric_names
from heedful.models.networks import ImageCaptioner, MemoryReader
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.caption.caption import Caption as Caption
from heedful.tasks.caption.caption import CaptionOptions, Patch
from heedful.tasks.caption.data import CaptionCollator, CaptionStore
from heedful.tasks.caption.evaluation import CaptionEvaluation
from heedful.tasks.caption.rules import CAPTION
from heedful.tasks.shared.answering.streaming import chunks, empty_answer
from heedful.tasks.shared.old_names import takes_old_names
from heedful.tasks.shared.sequences.asked import Asked, Found
from heedful.tasks.shared.sequences.model import SearchingModel
from heedful.tasks.shared.sequences.pipeline import Asking
from heedful.tasks.shared.sequences.search_options import SearchRequest, resolve
from heedful.tasks.shared.sequences.text_evaluation import scoring_of
from heedful.tasks.shared.sequences.token_scores import refuse_long_side, refuse_side_without_positions

CHUNK: Final = 256  # images that are in memory at once


def caption_collator(recipe: Recipe) -> CaptionCollator:
    """Return the collator that makes the model's input."""
    encoder = model_of(recipe, CaptionerModel).encoder
    return CaptionCollator(ImageCollator(encoder.patch, encoder.class_token))


@takes_old_names
class Captioner(SearchingModel[ImageCaptioner]):
    """A trained captioner with its recipe and its vocabulary.

    It runs on the device and in the precision that `load` chose. Images are read as in training: in gray or colour,
    and resized if the recipe says so. An image is a path, the bytes of a file, an open file, an array of pixels, or an
    image of Pillow.
    """

    _rules = CAPTION
    _network = ImageCaptioner
    _writes = "caption"
    _vocabulary = "text"

    @cached_property
    def _scorer(self) -> SingleModel:
        return SingleModel(MemoryReader(cast(torch.nn.Module, self.network.decoder)))

    @property
    def _encoder(self) -> AnyImageEncoder:
        return model_of(self.recipe, CaptionerModel).encoder

    @overload
    def caption(self, images: AnyImage, **options: Unpack[CaptionOptions]) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def caption(self, images: Iterable[AnyImage], **options: Unpack[CaptionOptions]) -> list[str]: ...
    @show_options(CaptionOptions)
    def caption(self, images: AnyImage | Iterable[AnyImage], **options: Unpack[CaptionOptions]) -> str | list[str]:
        """Describe images, or one image.

        An array is height x width, or height x width x 3, of bytes from 0 to 255; a longer one holds several images.
        """
        several = [images] if is_one_image(images) else images
        found = [best.text for best, *_ in self.stream_detailed(cast(Iterable[AnyImage], several), **options)]
        return found[0] if is_one_image(images) else found

    @overload
    def caption_detailed(  # type: ignore[overload-overlap]
        self, images: AnyImage, *, nbest: int = 1, **options: Unpack[CaptionOptions]
    ) -> list[Caption]: ...
    @overload
    def caption_detailed(
        self, images: Iterable[AnyImage], *, nbest: int = 1, **options: Unpack[CaptionOptions]
    ) -> list[list[Caption]]: ...
    @show_options(CaptionOptions)
    def caption_detailed(
        self, images: AnyImage | Iterable[AnyImage], *, nbest: int = 1, **options: Unpack[CaptionOptions]
    ) -> list[Caption] | list[list[Caption]]:
        """Return the N best captions of each image, or of one, best first; fewer if the search found no more."""
        several = cast(Iterable[AnyImage], [images] if is_one_image(images) else images)
        found = list(self.stream_detailed(several, nbest=nbest, **options))
        return found[0] if is_one_image(images) else found

    @show_options(CaptionOptions)
    def stream_detailed(
        self,
        images: Iterable[AnyImage],
        *,
        nbest: int = 1,
        progress: ProgressCallback = lambda ready: None,
        refused: Callable[[UserError], None] | None = None,
        **options: Unpack[CaptionOptions],
    ) -> Iterator[list[Caption]]:
        """Yield the N best captions of each image of a stream, which are read some at a time, in order.

        `progress` is called with the number of images finished since the last call. `refused` is called with the
        error of an image that cannot be read, which then has no captions; without it the error is raised.
        """
        request = self.request(nbest, options)  # here, so that errors are raised before the first image is read
        given = enumerate(check_several(images, "images", "image"), start=1)
        read = (self._image(image, f"image {number:,}") for number, image in given)

        skipped = empty_answer(refused, list[Caption]())
        return self._stream(read, self._asking(request), request, chunk=CHUNK, progress=progress, refused=skipped)

    def asking(self, nbest: int, options: CaptionOptions, name: str = "images") -> Asking[LabelledImage, list[Caption]]:
        """Return what images ask of an engine with some options: see `stream_detailed`."""
        return self._asking(self.request(nbest, options))

    def _asking(self, request: SearchRequest) -> Asking[LabelledImage, list[Caption]]:
        return lambda part, first: self._ask(self.decode(part), request, first)

    @show_options(CaptionOptions)
    def evaluate(
        self,
        data: Iterable[tuple[AnyImage, str | Sequence[str]]],
        *,
        name: str = "data",
        progress: ProgressCallback = lambda ready: None,
        metrics: GivenMetrics | MetricNames | None = None,
        **options: Unpack[CaptionOptions],
    ) -> CaptionEvaluation:
        """Describe images and compare with their captions: exact matches, BLEU, chrF, perplexity.

        `data` are pairs of an image, as `caption` takes it, and its caption or a list of captions of which each is
        right. `name` is their name in messages; `progress` is called with the number of images finished since the
        last call. `metrics` are names of scores, such as `["bleu", "ter"]`, or functions of your own by name, which get
        the captions and the references: see `heedful.Metric`.
        """
        names = metrics_by_name(metrics)
        own = {} if names else check_metrics(metrics, self.recipe.rules)
        rows = [self._captioned(row, f"{name}, row {number:,}") for number, row in enumerate(data, start=1)]
        return self.evaluate_rows(rows, name=name, progress=progress, metric=names, **options).with_metrics(own)

    def evaluate_rows(
        self,
        rows: Sequence[Captioned],
        *,
        name: str = "images",
        progress: ProgressCallback = lambda ready: None,
        metric: Sequence[str] | None = None,
        likelihood: Likelihood | None = None,
        **options: Unpack[CaptionOptions],
    ) -> CaptionEvaluation:
        """Describe images and compare with their captions; `metric` are names of scores, by default the recipe's.

        `name` is the corpus's name in messages. Blank captions are not references. The likelihood is that of all
        references, unless it is given.
        """
        request, references = self.request(1, options), self.references(rows)
        missing = next((row for row, several in zip(rows, references, strict=True) if not several), None)
        if not rows or missing is not None:
            raise UserError(
                f"{name} has no image to describe."
                if missing is None
                else f"{missing.image.where or name} has no caption to compare with: give one, or remove the row."
            )
        found: list[Caption] = []
        predicted, seconds = Likelihood(0.0, 0), 0.0
        for part in chunks(list(zip(rows, references, strict=True)), CHUNK):
            pixels = self.decode([row.image for row, _ in part])
            if likelihood is None:
                predicted += self._likelihood(
                    pixels, [several for _, several in part], [row.image.where or name for row, _ in part]
                )
            began = time.perf_counter()
            asked = self._ask(pixels, request, len(found) + 1)
            found += [best for best, *_ in self._answer(asked, request, len(pixels), progress)]
            seconds += time.perf_counter() - began
        return CaptionEvaluation(
            inputs=tuple(row.image.where for row in rows),
            best=tuple(found),
            texts=tuple(best.text for best in found),
            references=scored_references(references),
            shown=self.recipe.evaluate.metrics if metric is None else metric_names(metric),
            likelihood=likelihood or predicted,
            seconds=seconds,
            scoring=scoring_of(self.recipe),
        )

    def references(self, rows: Sequence[Captioned]) -> list[tuple[str, ...]]:
        """Return the captions of images that are not blank, as the model writes them."""
        form = TextForm.of(self.recipe.data)
        return [tuple(filter(str.strip, map(form, row.captions))) for row in rows]

    def _likelihood(
        self, images: Sequence[Pixels], references: Sequence[Sequence[str]], where: Sequence[str]
    ) -> Likelihood:
        """Return the likelihood of all references, given their images, of which messages say where they are."""
        tokens = self.vocabularies["text"].encode_batch([text for several in references for text in several])
        numbers = [[number] for number, several in enumerate(references) for _ in several]
        longest, key = self.network.decoder.longest, (self.recipe.model.longest or (0, ""))[1]
        for ids, (number,) in zip(tokens, numbers, strict=True):
            caption, way_out = f"{where[number]}: a caption", "leave the caption out"
            refuse_long_side(ids, caption, way_out)
            refuse_side_without_positions(ids, longest, key, caption, way_out)
        store = CaptionStore(
            {"text": Ragged.of(tokens), "picture": Ragged.of(numbers)}, images=TokenStore(image_streams(images))
        )
        collator = caption_collator(self.recipe)
        costs = collator.costs([store], np.arange(len(tokens)))
        plan = batches_by_length(costs, batch_tokens=self.recipe.data.batch_tokens)
        with evaluation_mode(self.network):
            return likelihood_of(self.network, (collator.batch([store], indices) for indices in plan))

    @show_options(CaptionOptions)
    def explain(
        self,
        image: AnyImage,
        *,
        top: int = 5,
        gradients: bool = False,
        search: bool = False,
        name: str = "",
        **options: Unpack[CaptionOptions],
    ) -> Explanation:
        """Return the weights over the image with which each word of its best caption was written.

        Each token has `top` runners-up. With `gradients`, also return how much each patch would change each token, and
        with `search` the life of the beam. `name` is what the explanation calls the image, by default its path.
        """
        request, encoder = self.request(1, options), self._encoder
        read = self._image(image, "`image`")
        (pixels,) = self.decode([read])
        ((best, *_),) = self._answer(self._ask([pixels], request, 1), request, 1, lambda ready: None)
        explained = ExplainedImage(pixels, encoder.patch, encoder.class_token)
        encode = partial(self.network.encoder, explained.packed().to(self.device))
        found = explain_target(
            self.network,
            encode,
            {"patches": TokenSequence.named(explained.names())},
            self.vocabularies["text"],
            best.tokens,
            best.complete,
            top,
            check_flag("gradients", gradients),
        )
        nodes: tuple[SearchNode, ...] = ()
        if check_flag("search", search):
            (query,) = self._queries([pixels], request, 1)
            nodes = self._record(query, request.settings, best.tokens)
        return found.explanation(self.recipe, name or read.where, best.text, image=explained, search=nodes)

    # --- what a search asks for ---------------------------------------------------------------------------------------

    def request(self, nbest: int, options: CaptionOptions) -> SearchRequest:
        """Return the options of a call, completed from the recipe."""
        request = resolve(options, self.recipe.decode, nbest, table=CaptionOptions)
        if request.risk is not None:
            raise UserError(f"{option('mbr')} is for translators, which a captioner is not: leave it out.")
        return request

    def decode(self, images: Sequence[LabelledImage]) -> list[Pixels]:
        """Return the pixels of images, in the form that the model reads."""
        return list(decode_all(images, self.recipe.data.images, self._encoder.channels))

    def _ask(self, images: Sequence[Pixels], request: SearchRequest, first: int) -> Asked[list[Caption]]:
        """Ask for the captions of images; `first` is the number of the first one, counted from 1."""
        with memory_faults(request.memory_advice):
            queries = self._queries(images, request, first)
        for number, query in enumerate(queries, start=first):
            if len(query.source) > request.max_source:
                raise UserError(
                    f"Image {number:,} has {len(query.source):,} patches, but at most {request.max_source:,} are read: "
                    f"make it smaller, or raise {by_caller('--max-source', '`max_source`')}."
                )

        def then(results: Found) -> list[list[Caption]]:
            found = self._check_found(results)
            texts = iter(self.vocabularies["text"].decode_batch([best.tokens for nbest in found for best in nbest]))
            return [
                [self._caption(next(texts), best, pixels) for best in nbest]
                for nbest, pixels in zip(found, images, strict=True)
            ]

        return Asked(queries, request.settings, request.batch_tokens, then)

    @torch.inference_mode()
    def _queries(self, images: Sequence[Pixels], request: SearchRequest, first: int) -> list[Query]:
        """Encode images, and ask for what to write about the vectors of the patches of each."""
        if not images:
            return []
        collator, store = caption_collator(self.recipe).images, TokenStore(image_streams(images))
        costs = collator.costs([store], np.arange(len(images)))
        found: dict[int, Tensor] = {}
        with evaluation_mode(self.network):
            for indices in batches_by_length(costs, batch_tokens=self.recipe.data.batch_tokens):
                encoded = self.network.encoder(collator.batch([store], indices).inputs.to(self.device))
                found.update(zip(indices.tolist(), encoded.split(), strict=True))
        limit = request.settings.max_extra
        return [Query(found[index], limit, number=first - 1 + index) for index in range(len(images))]

    def _caption(self, text: str, best: Hypothesis, pixels: Pixels) -> Caption:
        encoder = self._encoder
        columns = Run(1, 1, pixels.shape[1]).tokens(encoder.patch, class_token=False)

        def patch_of(place: int) -> Patch | None:
            number = place - encoder.class_token
            return None if number < 0 else divmod(number, columns)

        return Caption(
            text,
            best.score,
            best.tokens,
            best.complete,
            best.log_probability,
            tuple(self.vocabularies["text"].pieces(best.tokens)),
            None if best.alignment is None else tuple(patch_of(place) for place in best.alignment),
        )

    def _image(self, given: object, where: str) -> LabelledImage:
        return image_of(given, where, self._encoder.channels, self.recipe.data.images.max_pixels)

    def _captioned(self, row: object, where: str) -> Captioned:
        if not isinstance(row, Sequence) or isinstance(row, str | bytes) or len(row) != 2:
            raise UserError(f"{where} must be an image and its caption.")
        captions = row[1]
        if isinstance(captions, str):
            captions = (check_text(captions, f"{where}: the caption"),)
        else:
            captions = tuple(check_texts(captions, f"{where}: the captions"))
        return Captioned(self._image(row[0], where), captions)


def scored_references(references: Sequence[Sequence[str]]) -> tuple[Reference, ...]:
    """Return the captions of each image as a reference: one text, or several variants."""
    return uniform([several[0] if len(several) == 1 else tuple(several) for several in references])
