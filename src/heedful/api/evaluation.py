"""A model judged on sentence pairs: what it translates, and how well it foresees the references."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack, cast

from torch import nn

from heedful.api.model import Model, Options, evaluating
from heedful.data.batches import collate
from heedful.data.loader import pair_costs
from heedful.data.plan import batches_by_length
from heedful.data.store import TokenStore
from heedful.decode.limits import position_limit
from heedful.decode.search import Progress
from heedful.errors import UserError
from heedful.evaluate.perplexity import Likelihood, likelihood
from heedful.evaluate.translation import Score, bleu, chrf


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on sentence pairs, and the translations they are of."""

    translations: tuple[str, ...]
    bleu: Score
    chrf: Score
    exact: int  # translations equal to their reference
    likelihood: Likelihood  # of the references
    cut: int  # translations that were cut at the maximum length
    seconds: float  # of translating
    decoded: int  # tokens of the translations, `</s>` included

    @property
    def sentences(self) -> int:
        """How many pairs there are."""
        return len(self.translations)

    @property
    def perplexity(self) -> float:
        """Of the references' tokens."""
        return self.likelihood.perplexity

    @property
    def tokens_per_second(self) -> float:
        """Decoded tokens in a second of translating."""
        return self.decoded / self.seconds


def evaluate(
    model: Model,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    name: str = "texts",
    progress: Progress = lambda ready: None,
    **options: Unpack[Options],
) -> Evaluation:
    """Translate the sources and compare with the references; also the perplexity of the references.

    A pair with a blank side counts in BLEU and chrF, not in the perplexity. `name` is the corpus's in messages.
    """
    if len(sources) != len(references):
        raise UserError(f"There are {len(sources):,} sources but {len(references):,} references: each needs one.")
    if not any(source.strip() for source in sources):
        raise UserError(f"{name} has no sentence to translate.")
    expected = [model.normalise(reference) for reference in references]
    foreseen = perplexity(model, sources, expected, name=name)
    began = time.perf_counter()
    found = [best for best, *_ in model.translate_detailed(sources, name=name, progress=progress, **options)]
    seconds = time.perf_counter() - began
    outputs = tuple(best.text for best in found)
    return Evaluation(
        outputs,
        bleu(outputs, expected, model.recipe.evaluate.bleu_tokenize),
        chrf(outputs, expected),
        sum(output == reference for output, reference in zip(outputs, expected, strict=True)),
        foreseen,
        cut=sum(not best.complete for best in found),
        seconds=seconds,
        decoded=sum(len(best.tokens) + best.complete for best in found),
    )


def perplexity(model: Model, sources: Sequence[str], references: Sequence[str], *, name: str) -> Likelihood:
    """How well the model foresees the references, given the sources; pairs with a blank side are left out."""
    inputs = model.encode(sources)
    targets = model.tokenizers.target.encode_batch([text if text.strip() else "" for text in references])
    model.check_lengths(inputs, name)
    _refuse_too_long(model, targets, name)
    pairs = [pair for pair in zip(inputs, targets, strict=True) if all(pair)]
    if not pairs:
        return Likelihood(0.0, 0)
    store = TokenStore.of(source=[source for source, _ in pairs], target=[target for _, target in pairs])
    plan = batches_by_length(pair_costs([store]), batch_tokens=model.recipe.data.batch_tokens)
    with evaluating(model.network):
        return likelihood(model.network, (collate([store], indices) for indices in plan))


def _refuse_too_long(model: Model, targets: Sequence[Sequence[int]], name: str) -> None:
    longest = position_limit(cast(nn.Module, model.network.decoder))
    for number, target in enumerate(targets, start=1):
        if longest is not None and len(target) + 1 > longest:
            raise UserError(
                f"{name}, line {number:,}: the reference has {len(target) + 1:,} tokens with `</s>`, but this model "
                f"has positions for {longest:,} (`model.max_positions`): leave the pair out."
            )
