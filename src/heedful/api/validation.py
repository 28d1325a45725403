"""How a model in training is judged: loss and perplexity on the validation corpora, BLEU and chrF when asked for."""

import math
from collections.abc import Mapping, Sequence
from itertools import islice

from heedful.api.model import Model
from heedful.data.batches import CPU_MULTIPLE, collate
from heedful.data.loader import pair_costs
from heedful.data.plan import batches_by_length
from heedful.data.readers import is_blank, read_pairs
from heedful.data.store import TokenStore
from heedful.data.text import TextForm
from heedful.decode.limits import position_limit
from heedful.errors import UserError
from heedful.evaluate.perplexity import likelihood
from heedful.evaluate.translation import bleu, chrf
from heedful.models.bundle import Bundle


class Judge:
    """Scores a model in training, as it stands; the recipe's metric comes first."""

    def __init__(self, bundle: Bundle, stores: Sequence[TokenStore]) -> None:
        self._model, self._stores = Model(bundle), stores
        _refuse_too_long(bundle, stores)
        self._settings = bundle.recipe.train.validation
        self._translates = self._settings.translate or self._settings.metric in ("bleu", "chrf")
        self._pairs = self._texts() if self._translates and stores else []

    def __call__(self) -> Mapping[str, float]:
        """All scores; none where there is nothing to judge by."""
        if not self._stores:
            return {}
        scores = self._foresight()
        if not math.isfinite(scores["loss"]):
            raise UserError(
                "The validation loss is not finite: lower the learning rate, lengthen the warm-up or set "
                "`train.clip_norm`. The last good checkpoint is intact."
            )
        if self._translates:
            scores |= self._translation()
        return {self._settings.metric: scores[self._settings.metric]} | scores

    def _foresight(self) -> dict[str, float]:
        source, target = (cost[: self._settings.max_sentences] for cost in pair_costs(self._stores))
        plan = batches_by_length((source, target), batch_tokens=self._model.recipe.data.batch_tokens)
        found = likelihood(
            self._model.network, (collate(self._stores, indices, multiple=CPU_MULTIPLE) for indices in plan)
        )
        return {"loss": found.loss, "perplexity": found.perplexity}

    def _translation(self) -> dict[str, float]:
        recipe, wording = self._model.recipe, self._model.wording
        sources, references, languages = zip(*self._pairs, strict=True)
        outputs = self._model.translate(sources, to=languages if any(languages) else None)
        if recipe.evaluate.detokenize:
            outputs = list(map(wording.ordinary, outputs, languages))
            references = tuple(map(wording.ordinary, references, languages))
        found = bleu(outputs, references, recipe.evaluate.bleu_tokenize, recipe.data.lowercase)
        return {"bleu": found.score, "chrf": chrf(outputs, references).score}

    def _texts(self) -> list[tuple[str, str, str]]:
        """Sources, references and target languages."""
        data = self._model.recipe.data
        pairs = (
            (*pair, corpus.to)
            for corpus in data.valid
            for pair in read_pairs(corpus, data.folder, TextForm.of(data))
            if not is_blank(pair)
        )
        return list(islice(pairs, self._settings.max_sentences))


def _refuse_too_long(bundle: Bundle, stores: Sequence[TokenStore]) -> None:
    """Say before training, not at its first validation, that a pair needs more positions than the model has."""
    limit = position_limit(bundle.model)
    longest = max((int(cost.max()) for cost in pair_costs(stores)), default=0) if stores else 0
    if limit is not None and longest > limit:
        raise UserError(
            f"`data.valid` has a sentence of {longest:,} tokens with its end marker, but the model has positions for "
            f'{limit:,} (`model.max_positions`): leave the pair out, or use `model.positions = "sinusoidal"`.'
        )
