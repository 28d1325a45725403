"""A trained model to use: text in, text out."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict, Unpack, cast, overload

import torch
from torch import nn

from heedful.api.chunks import chunks
from heedful.config.schema import Recipe
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.limits import position_limit
from heedful.decode.penalties import Wu
from heedful.decode.search import Progress, search
from heedful.decode.settings import Settings
from heedful.errors import UserError, suggestion
from heedful.models.bundle import Bundle, Tokenizers, read_bundle
from heedful.models.families import EncoderDecoder, set_precision
from heedful.train.hardware import PRECISIONS, choose_device, has_bfloat16

CHUNK: Final = 1000  # sentences of a stream that are in work at once


class Options(TypedDict, total=False):
    """How to search; what is left out, or None, is as the recipe's [decode] says."""

    beam: int | None  # 1 is greedy search
    length_penalty: float | None
    max_extra: int | None
    batch_tokens: int | None


@dataclass(frozen=True)
class Translation:
    """One translation of a text."""

    text: str
    score: float  # log P over the length penalty
    tokens: tuple[int, ...]  # pieces of the target's tokenizer
    complete: bool  # False where it was cut at the maximum length


_BLANK: Final = Translation("", 0.0, (), True)


class Model:
    """A trained model with its recipe and tokenizers. It is used where it is and as it is; `load` chooses both."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._longest = position_limit(cast(nn.Module, bundle.model.encoder))

    @property
    def recipe(self) -> Recipe:
        """The recipe that the model was trained with, every default filled in."""
        return self._bundle.recipe

    @property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers of the source and the target side."""
        return self._bundle.tokenizers

    @property
    def network(self) -> EncoderDecoder:
        """The PyTorch module."""
        return self._bundle.model

    @overload
    def translate(self, texts: str, **options: Unpack[Options]) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, texts: Sequence[str], **options: Unpack[Options]) -> list[str]: ...
    def translate(self, texts: str | Sequence[str], **options: Unpack[Options]) -> str | list[str]:
        """Translate texts, or one text. A blank one stays blank."""
        if isinstance(texts, str):
            return self.translate([texts], **options)[0]
        return [best.text for best, *_ in self.translate_detailed(texts, **options)]

    def translate_detailed(
        self,
        texts: Sequence[str],
        *,
        nbest: int = 1,
        name: str = "texts",
        progress: Progress = lambda ready: None,
        **options: Unpack[Options],
    ) -> list[list[Translation]]:
        """The N best translations of each text, best first; fewer where the search found no more.

        `name` is the texts' in messages; `progress` is called with the number of sentences that just got ready.
        """
        settings, batch_tokens = self._settings(nbest, options)
        sources = self.encode(texts)
        self.check_lengths(sources, name)
        return self._translations(sources, settings, batch_tokens, progress)

    def stream(self, texts: Iterable[str], **options: Unpack[Options]) -> Iterator[str]:
        """Translate an endless or a very large number of texts, some at a time, in order."""
        return (best.text for best, *_ in self.stream_detailed(texts, **options))

    def stream_detailed(
        self,
        texts: Iterable[str],
        *,
        nbest: int = 1,
        chunk: int = CHUNK,
        ready: Callable[[], bool] = lambda: True,
        name: str = "texts",
        progress: Progress = lambda ready: None,
        **options: Unpack[Options],
    ) -> Iterator[list[Translation]]:
        """The N best translations of each text of a stream, `chunk` texts at a time.

        Fewer are taken where `ready` says that the next one would have to be awaited. `name` is the stream's in
        messages; before an error, everything that came before its line is yielded.
        """
        settings, batch_tokens = self._settings(nbest, options)  # here, so that mistakes show before the first text

        def translations() -> Iterator[list[Translation]]:
            first = 1
            for part in chunks(texts, chunk, ready):
                sources = self.encode(part)
                fitting = next((i for i, source in enumerate(sources) if self._too_long(source)), len(sources))
                yield from self._translations(sources[:fitting], settings, batch_tokens, progress)
                self.check_lengths(sources, name, first)
                first += len(part)

        return translations()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The source pieces of texts, without markers; none where a text is blank."""
        normal = [self.normalise(text) if text.strip() else "" for text in texts]
        return self.tokenizers.source.encode_batch(normal)

    def normalise(self, text: str) -> str:
        """The text in the form that the model was trained on."""
        return unicodedata.normalize("NFC", text) if self.recipe.data.nfc else text

    def check_lengths(self, sources: Sequence[Sequence[int]], name: str, first: int = 1) -> None:
        """Refuse a source that the model has not enough positions for; `first` is the number of the first line."""
        for number, source in enumerate(sources, start=first):
            if self._too_long(source):
                raise UserError(
                    f"{name}, line {number:,} has {len(source) + 1:,} tokens with `</s>`, but this model has positions "
                    f"for {self._longest:,} (`model.max_positions`): split the line."
                )

    def _settings(self, nbest: int, options: Options) -> tuple[Settings, int]:
        chosen = self.recipe.decode.model_dump()
        for name, value in options.items():
            if name not in chosen:
                raise TypeError(f"`{name}` is not an option.{suggestion(name, list(chosen))}")
            chosen[name] = chosen[name] if value is None else value
        settings = Settings(chosen["beam"], nbest, chosen["max_extra"], Wu(chosen["length_penalty"]))
        return settings, chosen["batch_tokens"]

    def _translations(
        self, sources: Sequence[Sequence[int]], settings: Settings, batch_tokens: int, progress: Progress
    ) -> list[list[Translation]]:
        spoken = [place for place, source in enumerate(sources) if source]
        with evaluating(self.network):
            found = search(self.network, [sources[place] for place in spoken], settings, batch_tokens, progress)
        progress(len(sources) - len(spoken))
        translated = dict(zip(spoken, self._in_words(found), strict=True))
        return [translated.get(place, [_BLANK]) for place in range(len(sources))]

    def _in_words(self, found: Sequence[Sequence[Hypothesis]]) -> Iterator[list[Translation]]:
        texts = iter(self.tokenizers.target.decode_batch([best.tokens for nbest in found for best in nbest]))
        for nbest in found:
            yield [Translation(next(texts), best.score, best.tokens, best.complete) for best in nbest]

    def _too_long(self, source: Sequence[int]) -> bool:
        return self._longest is not None and len(source) + 1 > self._longest


def load(path: str | Path, device: str = "auto", precision: str = "auto") -> Model:
    """Load a model that `heedful train` wrote.

    `device` is "auto" (a GPU where there is one), "cpu", "cuda" or "cuda:1"; `precision` is "float32", "bfloat16" or
    "auto": bfloat16 on a GPU, float32 elsewhere.
    """
    place = _device(device)
    chosen = _precision(precision, place)
    bundle = read_bundle(Path(path))
    bundle.model.to(place)
    _store_in(bundle.model, chosen)
    set_precision(bundle.model, chosen)
    return Model(bundle)


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Without dropout inside the block; afterwards as before."""
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)


def _device(name: str) -> torch.device:
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise UserError(f"`{name}` is not a device: use `auto`, `cpu`, `cuda` or `cuda:1`.")
    return choose_device(name)


def _precision(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" and has_bfloat16(device) else torch.float32
    if name not in PRECISIONS:
        raise UserError(f"`{name}` is not a precision: use `auto`, `float32` or `bfloat16`.")
    return PRECISIONS[name]


def _store_in(network: nn.Module, precision: torch.dtype) -> None:
    """Keep the matrices in the type they compute in, so that no step converts them; norms stay as they are."""
    for module in network.modules():
        if not isinstance(module, nn.LayerNorm):
            for parameter in module.parameters(recurse=False):
                parameter.data = parameter.data.to(precision)
