"""How a model in training is judged: loss and perplexity on the validation corpora, BLEU and chrF when asked for."""

import math
import torch
from collections.abc import Mapping, Sequence

from heedful.config.schema import Recipe
from heedful.data.batches import collate
from heedful.data.loader import pair_costs
from heedful.data.plan import batches_by_length
from heedful.data.store import TokenStore
from heedful.models.bundle import Tokenizers
from heedful.models.families import EncoderDecoder
from heedful.train.objectives import NextToken


class Judge:
    """Scores a model in training; the recipe's metric comes first."""

    def __init__(
        self,
        recipe: Recipe,
        tokenizers: Tokenizers,
        stores: Sequence[TokenStore],
        model: EncoderDecoder,
        device: torch.device,
    ) -> None:
        self.recipe, self.tokenizers, self.stores, self.model, self.device = recipe, tokenizers, stores, model, device

    @torch.inference_mode()
    def __call__(self) -> Mapping[str, float]:
        if not self.stores:
            return {}
        total, count = 0.0, 0
        for ids in batches_by_length(pair_costs(self.stores), batch_tokens=self.recipe.data.batch_tokens):
            b = collate(self.stores, ids).to(self.device)
            total += float(NextToken(0.0)(self.model, b).likelihood)
            count += b.target_tokens
        return {"loss": total / count, "perplexity": math.exp(total / count)}
