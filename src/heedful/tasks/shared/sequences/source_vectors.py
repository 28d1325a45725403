"""Sources as vectors: what the encoder of a translator or a parser makes of a text."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from heedful.base.errors import UserError
from heedful.base.packed import Packed
from heedful.config.model.mixed import MixedModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.data.epochs.plan import Indices, batches_by_length
from heedful.data.tokenize.tokenizer import END
from heedful.tasks.shared.embeddings import PoolName, VectorRequest
from heedful.tasks.shared.loaded_model import LoadedModel


class SourceVectors(VectorRequest):
    """One request for vectors of sources: `text </s>`, after the tag of its target language if there are several.

    Where the decoder does not attend, all that it gets of a source is one vector, the context: the encoder's last state
    or, of an encoder that is not recurrent, the mean of its states (`models.recurrent.encoder.summary`).
    """

    vocabulary = "source"

    def __init__(self, model: Any, to: str | None = None, **options: Any) -> None:
        if options.get("pool") == "first":
            raise UserError('`pool` is "first", the vector of `<s>`, but a source has none: use "mean" or "last".')
        super().__init__(model, **options)
        self._read, self._to = model.encode_sources, to
        self.before = int(bool(model.vocabularies["source"].tags))

    def usual_pool(self, model: LoadedModel[Any]) -> PoolName:
        """Return the pool of a call that names none: the context, where the decoder has nothing else."""
        table = model.recipe.model
        decoder = table.decoder if isinstance(table, MixedModel) else table
        return "context" if isinstance(decoder, RecurrentModel) and not decoder.attends else "mean"

    def _batches(self, texts: Sequence[str], name: str, first: int) -> Iterator[tuple[Indices, Packed]]:
        """Yield batches of all texts but blank ones."""
        sources = self._read(texts, self._to, name, first)
        rows = np.array([row for row, source in enumerate(sources) if source], np.int64)
        costs = np.array([len(sources[row]) + 1 for row in rows], np.int64)
        for chosen in batches_by_length([costs], batch_tokens=self._model.recipe.data.batch_tokens):
            yield rows[chosen], Packed.of([[*sources[row], END] for row in rows[chosen]])

    def _width(self) -> int:
        width: int = self._model.recipe.model.memory_width  # type: ignore[union-attr]
        return width
