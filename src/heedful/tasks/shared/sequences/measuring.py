"""Translators whose outputs are explained in numbers: see `explain.measuring`."""

from abc import abstractmethod
from collections.abc import Sequence

from heedful.base.arguments import check_text
from heedful.data.tokenize.tokenizer import END
from heedful.explain.generators import read_pair
from heedful.explain.measuring import Chosen, Given, Measures, single_text
from heedful.explain.readings import Reading
from heedful.tasks.shared.sequences.model import SequenceModel
from heedful.tasks.shared.sequences.token_scores import refuse_long_side, refuse_side_without_positions


class MeasuredPairs(SequenceModel, Measures):
    """A model that maps one text to another, whose outputs are explained in numbers; of an ensemble, the first one."""

    @abstractmethod
    def _found(self, text: str, to: str | None) -> list[int]:
        """Return the tokens of the best output for a text, `</s>` included if it is complete."""

    def check_lengths(self, sources: Sequence[Sequence[int]], name: str, first: int = 1) -> None:
        """Refuse a source that cannot be scored, as it is too long; `first` is the number of the first line."""
        self._check_positions(sources, name, first)
        for number, source in enumerate(sources, start=first):
            refuse_long_side(source, f"{name}, line {number:,}")

    def check_targets(self, targets: Sequence[Sequence[int]], name: str, first: int = 1) -> None:
        """Refuse a target that cannot be scored, as it is too long."""
        limits = [network.decoder.longest for network in self.networks]
        longest = min((limit for limit in limits if limit is not None), default=None)
        for number, target in enumerate(targets, start=first):
            where = f"{name}, line {number:,}: the reference"
            refuse_long_side(target, where)
            refuse_side_without_positions(target, longest, self._limiting_key, where)

    def _choose(self, text: Given, output: str | None, each: bool, to: str | None) -> Chosen:
        if output is None:
            return self._found(single_text(text), to)
        sources = self.encode_sources([single_text(text)], to, "`text`", 1)
        (tokens,) = self.wording.encode_target([check_text(output, "`output`")], sources)
        self.check_targets([tokens], "`output`")
        return [*tokens, END]

    def _read(self, text: Given, chosen: Chosen, to: str | None) -> Reading:
        (source,) = self.encode_sources([single_text(text)], to, "`text`", 1)
        return read_pair(self.network, self.vocabularies, source, chosen or ())
