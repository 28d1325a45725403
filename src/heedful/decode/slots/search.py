"""Search in slots: on a GPU, a step is one recorded launch, and a sentence that is done makes room for the next.

Sentences are grouped by length, encoded many at a time, and pass through a station of slots (`decode.slots.runner`).
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Final

import torch

from heedful.data.tokenize.tokenizer import END
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.encoder import StaticEncoding
from heedful.decode.slots.frontier import can_use_slots
from heedful.decode.slots.runner import SlotRunner
from heedful.models.networks import EncoderDecoder
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.models.transformer.slots import SlotDecoder, SlotShape
from heedful.nn.kernels.sizes import next_power_of_two
from heedful.packed import Packed

_SMALLEST: Final = 64  # positions, and tokens of memory: smaller buffers gain nothing
_MEMORY: Final = 2**16  # source tokens that are encoded at once and wait for slots, or where that is less:
_BUDGETS: Final = 16  # so many times the budget of a batch
_HELD: Final = 2 * 2**30  # bytes of buffers that are kept, beside those in use
_BEAMS: Final = 64  # more do not fit the registers of a program
_HEAD: Final = 512  # bytes of a head's vector: more does not fit the shared memory of every GPU


class SlotSearch:
    """Searches with one model. It keeps buffers and recordings for the shapes that it met."""

    def __init__(self, model: EncoderDecoder) -> None:
        self._model = model
        self._weights: tuple[int, ...] = ()  # where they stand: recordings read them there
        self._encoding: Callable[[Sequence[Sequence[int]]], Packed] | None = None
        self._stations: OrderedDict[object, SlotRunner] = OrderedDict()
        self._busy = Lock()  # two threads would decode into each other's buffers

    def takes(self, settings: SearchSettings, sentences: Sequence[Query]) -> bool:
        """Whether it can do what is asked."""
        free = not any(sentence.prefix for sentence in sentences)
        decoder = self._model.decoder
        if not isinstance(decoder, SlotDecoder) or not decoder.decodes_in_slots:
            return False
        return free and can_use_slots(settings) and settings.beam <= _BEAMS and decoder.head_bytes <= _HEAD

    @torch.inference_mode()
    def __call__(
        self, sentences: Sequence[Query], settings: SearchSettings, batch_tokens: int, progress: Callable[[int], None]
    ) -> list[list[Hypothesis]]:
        """Search the targets of all sentences; `batch_tokens` bounds what is decoded at once, as in `search`."""
        with self._busy:
            return self._search(sentences, settings, batch_tokens, progress)

    def _search(
        self, sentences: Sequence[Query], settings: SearchSettings, batch_tokens: int, progress: Callable[[int], None]
    ) -> list[list[Hypothesis]]:
        self._forget_if_moved()
        encode = self._encoding = self._encoding or self._make_encoding()
        found: dict[int, list[Hypothesis]] = {}
        for places in _waves(sentences, min(_MEMORY, _BUDGETS * batch_tokens)):
            wave = [sentences[place] for place in places]
            memory = encode([[*sentence.source, END] for sentence in wave])
            station = self._station(_shape(wave, settings, batch_tokens, memory.layout.tokens), settings)
            for done, hypotheses in station.run(wave, memory):
                found.update(zip([places[number] for number in done], hypotheses, strict=True))
                progress(len(done))
        return [found[place] for place in range(len(sentences))]

    @property
    def _device(self) -> torch.device:
        return self._model.decoder.output.weight.device

    def _forget_if_moved(self) -> None:
        """Give up all recordings where the weights stand elsewhere than when they were made."""
        weights = tuple(weight.data_ptr() for weight in self._model.parameters())
        if weights != self._weights:
            self._weights, self._encoding = weights, None
            self._stations.clear()

    def _make_encoding(self) -> Callable[[Sequence[Sequence[int]]], Packed]:
        encoder, device = self._model.encoder, self._device
        if isinstance(encoder, TransformerEncoder):
            return StaticEncoding(encoder, device)
        return lambda sentences: encoder(Packed.of(sentences).to(device))  # another may ask the device for sizes

    def _station(self, shape: SlotShape, settings: SearchSettings) -> "SlotRunner":
        """The one for this shape."""
        key = shape, settings
        if key in self._stations:
            self._stations.move_to_end(key)
            return self._stations[key]
        while sum(station.bytes for station in self._stations.values()) > _HELD:
            self._stations.popitem(last=False)
        self._stations[key] = made = SlotRunner(self._model, shape, settings)
        return made


def _shape(wave: Sequence[Query], settings: SearchSettings, batch_tokens: int, memory: int) -> SlotShape:
    """As many slots as the budget allows and the wave needs, in powers of two: few shapes come back often."""
    room = _room(wave[0])
    budget = max(1, _positions(batch_tokens) // (settings.beam * room))
    slots = min(next_power_of_two(len(wave)), next_power_of_two(budget + 1) // 2)
    return SlotShape(slots, settings.beam, room, next_power_of_two(memory, _SMALLEST))


def _positions(batch_tokens: int) -> int:
    """Of all rows: a hypothesis may become longer than its source, and few are as long as their room."""
    return 4 * batch_tokens


def _waves(sentences: Sequence[Query], most: int) -> Iterator[list[int]]:
    """The numbers of sentences that are decoded together: of one length class, the longest first, `most` tokens."""
    order = sorted(range(len(sentences)), key=lambda place: -len(sentences[place].source))
    wave: list[int] = []
    tokens = 0
    for place in order:
        sentence = sentences[place]
        length = len(sentence.source) + 1
        if wave and (tokens + length > most or _room(sentence) != _room(sentences[wave[0]])):
            yield wave
            wave, tokens = [], 0
        wave.append(place)
        tokens += length
    if wave:
        yield wave


def _room(sentence: Query) -> int:
    return next_power_of_two(sentence.limit, _SMALLEST)
