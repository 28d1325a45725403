"""`heedful.metrics.language`: sums over masked tokens and pairs, against a loop over single inputs."""

from dataclasses import replace

import pytest
import torch

from heedful.base.packed import Packed
from heedful.config.model.encoder_only import BertModel
from heedful.config.train.table import Masking
from heedful.data.batches.masked import MaskedFeed
from heedful.data.collate import StaticShape
from heedful.data.token_store import TokenStore
from heedful.metrics.language.perplexity import Likelihood, MaskedPredictions, predict_masked
from heedful.models.from_recipe.encoder_only import build_masked_model
from heedful.models.networks import MaskedModel

SIZE = 30
DOCUMENTS = TokenStore.of(
    text=[[5 + (7 * row + place) % 25 for place in range(12 + row)] for row in range(20)],
    sentences=[[4, 5, 3 + row] for row in range(20)],
)
FEED = MaskedFeed([DOCUMENTS], [1.0], 3, 64, 16, True, Masking(), 4, range(5, SIZE))


def model_of(next_sentence: bool) -> MaskedModel:
    shape = {"family": "bert", "width": 16, "heads": 2, "layers": 1, "inner": 16, "max_positions": 16}
    torch.manual_seed(1)
    model = build_masked_model(BertModel.model_validate({**shape, "next_sentence": next_sentence}), SIZE)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model.eval()


@torch.inference_mode()
def one_by_one(model: MaskedModel, feed: MaskedFeed) -> MaskedPredictions:
    """Each input by itself."""
    loss, tokens, right, pairs, right_pairs = 0.0, 0, 0, 0, 0
    for batch in map(feed.batch, feed.plan(0)):
        ends = batch.text.layout.offsets.tolist()
        for number in range(batch.sentences):
            begin, end = ends[number], ends[number + 1]
            segments = None if batch.text.segments is None else batch.text.segments[begin:end]
            alone = Packed.of([batch.text.values[begin:end].tolist()])
            encoded = model(Packed(alone.values, alone.layout, segments))
            for place, label in zip(batch.places.tolist(), batch.labels.tolist(), strict=True):
                if begin <= place < end and label >= 0:
                    scores = model.head(encoded.values[place - begin][None])[0].log_softmax(dim=0).tolist()
                    loss -= scores[label]
                    right += scores.index(max(scores)) == label
                    tokens += 1
            if feed.next_sentence:
                follows, drawn = model.following(encoded)[0].tolist()
                right_pairs += (drawn > follows) == bool(batch.next[number])
                pairs += 1
    return MaskedPredictions(Likelihood(loss, tokens), right, pairs, right_pairs)


FORMS = {
    "ragged": FEED,
    "filled up": replace(FEED, multiple=64),
    "static": replace(FEED, static=StaticShape.around(64, 8, 16)),
}


@pytest.mark.parametrize("next_sentence", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_sums_are_those_of_single_inputs(form: str, next_sentence: bool) -> None:
    model, feed = model_of(next_sentence), replace(FORMS[form], next_sentence=next_sentence)
    expected, found = one_by_one(model, feed), predict_masked(model, map(feed.batch, feed.plan(0)))
    assert 0 < expected.right < expected.likelihood.tokens
    assert found.likelihood.total == pytest.approx(expected.likelihood.total, rel=1e-5)
    assert replace(found, likelihood=expected.likelihood) == expected
    assert found.likelihood.tokens == expected.likelihood.tokens


def test_shares_are_of_tokens_and_of_pairs() -> None:
    found = MaskedPredictions(Likelihood(8.0, 4), 3, 10, 7)
    assert (found.accuracy, found.next_accuracy) == (0.75, 0.7)
    assert MaskedPredictions(Likelihood(8.0, 4), 3, 0, 0).next_accuracy is None
