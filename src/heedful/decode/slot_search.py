"""Search in slots: on a GPU, a step is one recorded launch, and a sentence that is done makes room for the next.

Sentences are grouped by length, encoded many at a time, and wait for a slot. Every slot stands at its own position, so
that the batch stays full until the last sentences. The device is asked who is done one step behind: it never waits.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Final, cast

import torch
from torch import Tensor, nn

from heedful.data.tokenizer import END
from heedful.decode.growth import Growth, grows
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.recording import recorded
from heedful.decode.sentence import Sentence
from heedful.decode.settings import Settings
from heedful.decode.slot_beam import BeamInSlots
from heedful.decode.slot_walk import GreedyInSlots
from heedful.models.families import EncoderDecoder
from heedful.models.slots import SlotDecoder, SlotShape, starts_of
from heedful.packed import Packed

_SMALLEST: Final = 64  # positions, and tokens of memory: smaller buffers gain nothing
_MEMORY: Final = 2**16  # source tokens that are encoded at once and wait for slots, or where that is less:
_BUDGETS: Final = 16  # so many times the budget of a batch
_HELD: Final = 2 * 2**30  # bytes of buffers that are kept, beside those in use
_BEAMS: Final = 64  # more do not fit the registers of a program
_HEAD: Final = 512  # bytes of a head's vector: more does not fit the shared memory of every GPU
_SHARE: Final = 8  # a part of the slots, one in so many, is awaited before others are admitted to them


class SlotSearch:
    """Searches with one model. It keeps buffers and recordings for the shapes that it met."""

    def __init__(self, model: EncoderDecoder) -> None:
        self._model = model
        self._stations: OrderedDict[object, _Station] = OrderedDict()
        self._busy = Lock()  # two threads would decode into each other's buffers

    def takes(self, settings: Settings, sentences: Sequence[Sentence]) -> bool:
        """Whether it can do what is asked."""
        free = not any(sentence.prefix for sentence in sentences)
        decoder = self._model.decoder
        if not isinstance(decoder, SlotDecoder) or not decoder.decodes_in_slots:
            return False
        return free and grows(settings) and settings.beam <= _BEAMS and decoder.head_bytes <= _HEAD

    @torch.inference_mode()
    def __call__(
        self, sentences: Sequence[Sentence], settings: Settings, batch_tokens: int, progress: Callable[[int], None]
    ) -> list[list[Hypothesis]]:
        """Search the targets of all sentences; `batch_tokens` bounds what is decoded at once, as in `search`."""
        with self._busy:
            return self._search(sentences, settings, batch_tokens, progress)

    def _search(
        self, sentences: Sequence[Sentence], settings: Settings, batch_tokens: int, progress: Callable[[int], None]
    ) -> list[list[Hypothesis]]:
        found: dict[int, list[Hypothesis]] = {}
        for places in _waves(sentences, min(_MEMORY, _BUDGETS * batch_tokens)):
            wave = [sentences[place] for place in places]
            station = self._station(_shape(wave, settings, batch_tokens), settings)
            memory = self._model.encoder(Packed.of([[*sentence.source, END] for sentence in wave]).to(self._device))
            for done, hypotheses in station.run(wave, memory):
                found.update(zip([places[number] for number in done], hypotheses, strict=True))
                progress(len(done))
        return [found[place] for place in range(len(sentences))]

    @property
    def _device(self) -> torch.device:
        return self._model.decoder.output.weight.device

    def _station(self, shape: SlotShape, settings: Settings) -> "_Station":
        """The one for this shape; a new one where the model's weights stand elsewhere than when it was made."""
        weights = tuple(weight.data_ptr() for weight in cast(nn.Module, self._model.decoder).parameters())
        key = shape, settings, weights
        if key in self._stations:
            self._stations.move_to_end(key)
            return self._stations[key]
        while sum(station.bytes for station in self._stations.values()) > _HELD:
            self._stations.popitem(last=False)
        self._stations[key] = made = _Station(self._model, shape, settings)
        return made


class _Station:
    """Buffers of one shape, and the step that is recorded on them."""

    def __init__(self, model: EncoderDecoder, shape: SlotShape, settings: Settings) -> None:
        weight, self._decoder = model.decoder.output.weight, cast(SlotDecoder, model.decoder)
        self._device, self._count = weight.device, shape.slots
        self._slots = slots = self._decoder.slots(shape)
        kind: type[BeamInSlots] | type[GreedyInSlots] = BeamInSlots if settings.beam > 1 else GreedyInSlots
        self._growth: Growth
        self._growth = growth = kind(slots, settings, weight.shape[0])
        decoder = self._decoder

        def step() -> None:
            growth.grow(decoder.step_slots(growth.last_R, slots))

        self._step = recorded(step, self._device)
        self.bytes = slots.cache.nbytes + slots.memory.nbytes

    def run(self, sentences: Sequence[Sentence], memory: Packed) -> Iterator[tuple[list[int], list[list[Hypothesis]]]]:
        """Decode all sentences, given their memories; yields the numbers of some and what was found for them."""
        self._decoder.remember(memory, self._slots)
        lengths = [len(sentence.source) + 1 for sentence in sentences]
        starts = starts_of(lengths)
        waiting, free = deque(range(len(sentences))), list(range(self._count))
        held: dict[int, int] = {}  # slot: sentence
        since: dict[int, int] = {}  # slot: the first step that it took part in
        batch = max(1, self._count // _SHARE)
        watch, steps = _Watch(self._growth.done_S), 0
        while waiting or held:
            if waiting and (len(free) >= batch or not held):
                slots = [free.pop() for _ in range(min(len(free), len(waiting)))]
                chosen = [waiting.popleft() for _ in slots]
                held.update(zip(slots, chosen, strict=True))
                since.update(dict.fromkeys(slots, steps))
                index = self._tensor(slots)
                self._slots.admit(
                    index, self._tensor([starts[i] for i in chosen]), self._tensor([lengths[i] for i in chosen])
                )
                self._growth.admit(index, [sentences[i].limit for i in chosen])
            self._step()
            watch.look(steps)
            steps += 1
            seen, done = watch.before()
            ready = [slot for slot in held if since[slot] <= seen and done[slot]]
            if len(ready) == len(held) or (waiting and len(ready) >= batch):
                yield [held.pop(slot) for slot in ready], self._growth.hypotheses(self._tensor(ready))
                free += ready

    def _tensor(self, numbers: list[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self._device)


class _Watch:
    """Looks at flags on the device without waiting for what is under way: it sees those of the step before."""

    def __init__(self, flags: Tensor) -> None:
        self._flags, self._cuda = flags, flags.is_cuda
        self._copies = [torch.zeros(flags.shape, dtype=torch.bool, pin_memory=self._cuda) for _ in range(2)]
        self._events = [torch.cuda.Event() for _ in range(2)] if self._cuda else []
        self._step = -1

    def look(self, step: int) -> None:
        """Fetch the flags of a step that was just begun."""
        self._step = step
        self._copies[step % 2].copy_(self._flags, non_blocking=True)
        if self._cuda:
            self._events[step % 2].record()

    def before(self) -> tuple[int, list[bool]]:
        """The number of the step before that, and its flags; -1 and none set where there is none."""
        before = self._step - 1
        if before < 0:
            return before, [False] * len(self._flags)
        if self._cuda:
            self._events[before % 2].synchronize()
        flags: list[bool] = self._copies[before % 2].tolist()
        return before, flags


def _shape(wave: Sequence[Sentence], settings: Settings, batch_tokens: int) -> SlotShape:
    """As many slots as the budget allows and the wave needs, in powers of two: few shapes come back often."""
    room = _room(wave[0])
    budget = max(1, _positions(batch_tokens) // (settings.beam * room))
    slots = min(_power(len(wave)), _power(budget + 1) // 2)
    memory = sum(len(sentence.source) + 1 for sentence in wave)
    return SlotShape(slots, settings.beam, room, max(_SMALLEST, _power(memory)))


def _positions(batch_tokens: int) -> int:
    """Of all rows: a hypothesis may become longer than its source, and few are as long as their room."""
    return 4 * batch_tokens


def _waves(sentences: Sequence[Sentence], most: int) -> Iterator[list[int]]:
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


def _room(sentence: Sentence) -> int:
    return max(_SMALLEST, _power(sentence.limit))


def _power(number: int) -> int:
    """The least power of two that is no less."""
    return 1 << max(0, number - 1).bit_length()
