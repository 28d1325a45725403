"""BERT: masked tokens predicted from both sides, pairs of sentences, inputs with segments, and fine-tuning."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch

from heedful.base.packed import Packed
from heedful.config.model.encoder_only import BertModel
from heedful.config.model.pooled import ClassifierModel
from heedful.config.train.table import Masking
from heedful.data.batches.masked import MaskedFeed, mask
from heedful.data.batches.next_sentences import SentencePairs
from heedful.data.batches.stretches import plan_spans
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.from_recipe.encoder_only import build_classifier, build_masked_model
from heedful.models.networks import MaskedModel, set_precision
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.nn.attention.multi_head import CrossAttention
from heedful.runs.fine_tuning import StartModel
from heedful.texts.checks.computed import Computed, drawn, randomize

_MASK, _VOCABULARY = 4, 12
_TABLE = {"width": 8, "heads": 2, "layers": 2, "inner": 12, "max_positions": 16}


def _bert() -> MaskedModel:
    table = {"family": "bert", **_TABLE}
    model = cast(MaskedModel, randomize(build_masked_model(BertModel.model_validate(table), _VOCABULARY)))
    set_precision(model, torch.float64)
    return model


def from_both_sides() -> Computed:
    """p(<mask> = w | all other tokens): of 7 tokens, how many others change the prediction at the masked one"""
    with drawn():
        model, tokens = _bert(), [BEGIN, 6, 7, _MASK, 9, 10, END]

        def predicted(text: list[int]) -> torch.Tensor:
            states = model.masked(model(Packed.of([text])), torch.tensor([3]))
            return cast(torch.Tensor, model.head.output(states).softmax(-1).detach())

        own = predicted(tokens)
        changed = [[*tokens[:place], 11, *tokens[place + 1 :]] for place in range(7) if place != 3]
        seen = sum(not torch.allclose(predicted(text), own) for text in changed)
        return Computed([6, 1], [seen, float(own.sum())])


def three_fates() -> Computed:
    """The chosen word of a sentence becomes <mask>, another word, or stays: 80%, 10% and 10% of 20,000 sentences

    One word of six is chosen in each, as 15% of six words are rounded to one.
    """
    count = 20_000
    tokens = np.tile(np.arange(5, 11), count)  # la niña miraba por la ventana
    random = np.random.default_rng(1)
    owners = np.repeat(np.arange(count), 6)
    found = mask(tokens, np.ones(6 * count, bool), owners, None, Masking(), range(5, 30_005), _MASK, random)
    chosen = found.inputs_N[found.places_P]
    masked, kept = float((chosen == _MASK).mean()), float((chosen == found.labels_P).mean())
    return Computed([1, 0.8, 0.1, 0.1], [len(found.places_P) / count, masked, 1 - masked - kept, kept], tolerance=0.01)


def next_sentences() -> Computed:
    """IsNext where B follows A in its document, NotNext where B is drawn from another: half of the pairs each

    Shares of pairs that follow; of those, pairs of one document in order; of the others, pairs of two documents.
    """
    random = np.random.default_rng(1)
    lengths = [random.integers(2, 6, 20).tolist() for _ in range(100)]
    store = TokenStore.of(text=[list(range(sum(one))) for one in lengths], sentences=lengths)
    follows, in_order, apart = [], [], []
    for spans in plan_spans([store], (1.0,), SentencePairs(23), seed=1, epoch=0, batch_tokens=500):
        assert spans.second is not None
        assert spans.drawn is not None
        same = spans.first.documents == spans.second.documents
        next_one = spans.drawn == 0
        follows += next_one.tolist()
        in_order += (same & (spans.first.ends <= spans.second.begins))[next_one].tolist()
        apart += (~same)[~next_one].tolist()
    return Computed([0.5, 1.0, 1.0], [float(np.mean(one)) for one in (follows, in_order, apart)], tolerance=0.03)


def markers_of_a_pair() -> Computed:
    """<CLS> A <SEP> B <SEP>, segments 0 up to the first <SEP> and 1 after it; Heedful's <s> and </s> are the markers"""
    store = TokenStore.of(text=[[5, 6, 7, 8], [9, 10, 11, 12]], sentences=[[2, 2], [2, 2]])
    feed = MaskedFeed(
        [store], (1.0,), 1, 100, 16, True, Masking(share=0.01, masked=0.0, random=0.0), _MASK, range(5, 13)
    )
    batch = feed.batch(next(iter(feed.plan(0))))
    first, segments = batch.text.split()[0].tolist(), batch.text.segments
    assert segments is not None
    second = first.index(END) + 1
    marked = [*[0] * second, *[1] * (len(first) - second)]
    text = [BEGIN, END, END, *marked]
    return Computed(text, [first[0], first[second - 1], first[-1], *segments[: len(first)].tolist()])


def sum_of_embeddings() -> Computed:
    """The input: the embedding of the token, plus that of its position, plus that of its sentence (before the norm)"""
    with drawn():
        model, inputs = _bert(), list[torch.Tensor]()
        embedding = cast(TransformerEncoder, model.encoder).embedding
        embedding.norm.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
        packed = Packed.of([[BEGIN, 6, END, 8, END]])
        segments = torch.tensor([0, 0, 0, 1, 1])
        embedding(packed.values, packed.layout, segments)
        positions, of_segments = cast(Any, embedding.positions), embedding.segments
        assert of_segments is not None
        rows = [
            embedding.weight[token] + positions.weight[place] + of_segments[segment]
            for place, (token, segment) in enumerate(zip(packed.values, segments, strict=True))
        ]
        return Computed(torch.stack(rows).detach(), inputs[0].detach())


def encoder_alone() -> Computed:
    """BERT has the blocks of an encoder, no decoder and no attention over another sequence; one vector per token"""
    with drawn():
        model = _bert()
        counted = [sum(isinstance(one, kind) for one in model.modules()) for kind in (DecoderBlock, CrossAttention)]
        blocks = sum(isinstance(one, EncoderBlock) for one in model.modules())
        vectors = model(Packed.of([[BEGIN, 6, 7, END]])).values
        return Computed([2, 0, 0, 4, 8], [blocks, *counted, *vectors.shape])


def fine_tuning_start() -> Computed:
    """A classifier that starts from BERT represents a text, before its first update, exactly as BERT does"""
    with drawn():
        bert = _bert()
        table = {"family": "classifier", "encoder": {"family": "bert", **_TABLE}}
        classifier = build_classifier(ClassifierModel.model_validate(table), _VOCABULARY, 2).double().eval()
        start = StartModel(cast(Any, None), cast(Any, None), cast(Any, SimpleNamespace(model=bert)), ())
        start.into(classifier, Vocabularies({}))
        set_precision(classifier, torch.float64)
        text = Packed.of([[BEGIN, 6, 7, END]])
        return Computed(bert(text).values.detach(), classifier.encoder(text).values.detach())
