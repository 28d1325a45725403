"""Search in slots: on a GPU, a step is one recorded launch, and a finished sentence makes room for the next.

Sentences are grouped by length, encoded many at a time, and decoded by a `SlotRunner`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from threading import Lock
from typing import Final

import torch

from heedful.base.packed import Packed
from heedful.decode.constraints.tokens import NEVER
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query, pack_sources, token_ids
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.encoder import StaticEncoding
from heedful.decode.slots.frontier import can_use_slots
from heedful.decode.slots.runner import SlotRunner
from heedful.models.protocols import Generator
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.models.transformer.slots import SlotDecoder, SlotShape
from heedful.nn.kernels.sizes import next_power_of_two

_SMALLEST: Final = 64  # positions, and tokens of memory: smaller buffers gain nothing
_MEMORY: Final = 2**16  # maximum number of source tokens that are encoded at once, and
_BUDGETS: Final = 16  # the same, in multiples of the budget of a batch
_HELD: Final = 2 * 2**30  # bytes of buffers that are kept, besides those in use
_BEAMS: Final = 64  # more do not fit the registers of a program
_HEAD: Final = 512  # bytes of a head's vector: more does not fit the shared memory of every GPU


class SlotSearch:
    """Searches with one model. It keeps buffers and recordings for the shapes it has seen."""

    def __init__(self, model: Generator) -> None:
        self._model = model
        self._weights: tuple[int, ...] = ()  # addresses: recordings read weights there
        self._encoding: Callable[[Sequence[Query]], Packed | None] | None = None
        self._runners: OrderedDict[object, SlotRunner] = OrderedDict()
        self._busy = Lock()  # two threads would decode into each other's buffers

    def takes(self, settings: SearchSettings, queries: Sequence[Query]) -> bool:
        """Whether slots can do this search."""
        never = {*NEVER, *settings.never}  # slots never output these, not even in a prefix
        free = not any(never.intersection(query.prefix) for query in queries)
        decoder = self._model.decoder
        if not isinstance(decoder, SlotDecoder) or not decoder.decodes_in_slots:
            return False
        return free and can_use_slots(settings) and settings.beam <= _BEAMS and decoder.head_bytes <= _HEAD

    @torch.inference_mode()
    def __call__(
        self, queries: Sequence[Query], settings: SearchSettings, batch_tokens: int, progress: Callable[[int], None]
    ) -> list[list[Hypothesis]]:
        """Find the targets of all queries; `batch_tokens` bounds what is decoded at once, as in `search`."""
        found: dict[int, list[Hypothesis]] = {}
        with self._busy:
            weights = tuple(weight.data_ptr() for weight in self._model.parameters())
            if weights != self._weights:  # they have moved since the recordings were made
                self._weights, self._encoding = weights, None
                self._runners.clear()
            encode = self._encoding = self._encoding or self._make_encoding()
            for indices in self._waves(queries, min(_MEMORY, _BUDGETS * batch_tokens)):
                wave = [queries[index] for index in indices]
                memory = encode(wave)
                shape = _shape(self._room(wave[0]), len(wave), settings, batch_tokens)
                if memory is not None:
                    shape = replace(shape, memory=next_power_of_two(memory.layout.tokens, _SMALLEST))
                runner = self._runner(shape, settings, any(len(query.prefix) for query in wave))
                for done, hypotheses in runner.run(wave, memory, settings):
                    found.update(zip([indices[number] for number in done], hypotheses, strict=True))
                    progress(len(done))
        return [found[index] for index in range(len(queries))]

    def _waves(self, queries: Sequence[Query], most: int) -> Iterator[list[int]]:
        """Yield the indices of queries that are decoded together: equal room, longest first, at most `most` tokens."""
        order = sorted(range(len(queries)), key=lambda index: -len(queries[index].source))
        wave: list[int] = []
        tokens = 0
        for index in order:
            length = len(queries[index].source)
            if wave and (tokens + length > most or self._room(queries[index]) != self._room(queries[wave[0]])):
                yield wave
                wave, tokens = [], 0
            wave.append(index)
            tokens += length
        if wave:
            yield wave

    def _room(self, query: Query) -> int:
        """Return the positions of the slots that a query is decoded in; a source that is continued takes some."""
        taken = len(query.source) - 1 if self._model.encoder is None else 0
        return next_power_of_two(taken + query.limit, _SMALLEST)

    def _make_encoding(self) -> Callable[[Sequence[Query]], Packed | None]:
        encoder, device = self._model.encoder, self._model.decoder.output.weight.device
        if encoder is None:
            return lambda queries: None
        if isinstance(encoder, TransformerEncoder):
            static = StaticEncoding(encoder, device)
            return lambda queries: static([token_ids(query.source) for query in queries])
        return lambda queries: encoder(pack_sources(queries).to(device))  # others may ask the device for sizes

    def _runner(self, shape: SlotShape, settings: SearchSettings, prefixed: bool) -> SlotRunner:
        """Return the runner for this shape, whatever the seed."""
        if settings.sampling is not None:
            settings = replace(settings, sampling=replace(settings.sampling, seed=0))
        key = shape, settings, prefixed
        if key in self._runners:
            self._runners.move_to_end(key)
            return self._runners[key]
        while sum(runner.bytes for runner in self._runners.values()) > _HELD:
            self._runners.popitem(last=False)
        self._runners[key] = made = SlotRunner(self._model, shape, settings, prefixed)
        return made


def _shape(room: int, sentences: int, settings: SearchSettings, batch_tokens: int) -> SlotShape:
    """Return as many slots as the budget allows and the sentences need, in powers of two, so that shapes recur.

    The budget is of positions: a hypothesis may outgrow its source, and few fill their room.
    """
    budget = max(1, 4 * batch_tokens // (settings.beam * room))
    return SlotShape(min(next_power_of_two(sentences), next_power_of_two(budget + 1) // 2), settings.beam, room)
