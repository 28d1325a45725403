"""Given translations judged by a model: for filtering corpora and for rescoring what others found."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from heedful.data.batches.pairs import collate
from heedful.data.epochs.loader import pair_costs
from heedful.data.epochs.plan import batches_by_length
from heedful.data.token_store import TokenStore
from heedful.errors import UserError
from heedful.metrics.log_probabilities import token_log_probabilities
from heedful.tasks.shared.evaluation_mode import evaluation_mode
from heedful.tasks.shared.streaming import CHUNK, chunks
from heedful.tasks.translate.text_codec import Languages

if TYPE_CHECKING:
    from heedful.tasks.translate.model import Translator

END_PIECE: Final = "</s>"


@dataclass(frozen=True)
class PairScore:
    """How probable a model finds a given target of a source."""

    pieces: tuple[str, ...]  # of the target as people read them (see `Tokenizer.pieces`), `</s>` last
    log_probabilities: tuple[float, ...]  # of each piece

    @property
    def log_probability(self) -> float:
        """Of the whole target."""
        return sum(self.log_probabilities)

    @property
    def per_piece(self) -> float:
        """The mean over the pieces: long and short targets can be compared by it."""
        return self.log_probability / len(self.log_probabilities)


def score(model: "Translator", sources: Sequence[str], targets: Sequence[str], to: Languages = None) -> list[PairScore]:
    """Score each target as a translation of its source, in batches; the texts are in the form of the model's own."""
    if len(sources) != len(targets):
        raise UserError(f"There are {len(sources):,} sources but {len(targets):,} targets: each needs one.")
    return _score(model, sources, targets, to, "texts", 1)


def score_stream(
    model: "Translator", pairs: Iterable[tuple[str, str]], to: str | None = None, name: str = "texts"
) -> Iterator[PairScore]:
    """Score an endless or very large number of (source, target) pairs, some at a time, in order.

    Before an error, everything that came before its line is yielded.
    """
    first = 1
    for part in chunks(pairs, CHUNK):
        try:
            scored = _score(model, [source for source, _ in part], [target for _, target in part], to, name, first)
        except UserError:  # somewhere in the part: what came before it is scored, then it is raised again
            for number, (source, target) in enumerate(part, start=first):
                yield from _score(model, [source], [target], to, name, number)
            raise
        yield from scored
        first += len(part)


def score_pieces(
    model: "Translator", sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[list[float]]:
    """The log probabilities of each target's pieces, `</s>` last."""
    store = TokenStore.of(source=sources, target=targets)
    plan = batches_by_length(pair_costs([store]), batch_tokens=model.recipe.data.batch_tokens)
    found: dict[int, list[float]] = {}
    with evaluation_mode(*model.networks):
        scored = token_log_probabilities(model.networks, (collate([store], indices) for indices in plan))
        for indices, batch in zip(plan, scored, strict=True):
            found.update(zip(indices.tolist(), batch, strict=True))
    return [found[place] for place in range(len(sources))]


def _score(
    model: "Translator", sources: Sequence[str], targets: Sequence[str], to: Languages, name: str, first: int
) -> list[PairScore]:
    inputs = model.encode(sources, to, name=name, first=first)
    outputs = model.wording.encode_target(targets)
    model.check_lengths(inputs, name, first)
    model.check_targets(outputs, name, first)
    tokenizer = model.tokenizers.target
    return [
        PairScore((*tokenizer.pieces(ids), END_PIECE), tuple(log_p))
        for ids, log_p in zip(outputs, score_pieces(model, inputs, outputs), strict=True)
    ]
