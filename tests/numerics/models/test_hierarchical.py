"""Documents encoded level by level equal a loop over documents and sentences, each by itself."""

from collections.abc import Sequence
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from heedful.base.packed import Nested, Packed
from heedful.config.model.transformer import TransformerModel
from heedful.models.from_recipe.transformer import transformer_encoder
from heedful.models.hierarchical import HierarchicalEncoder, Pooled, VectorEncoder
from heedful.nn.initialization import init_xavier
from heedful.nn.layers.embedding import Embedding
from heedful.nn.layers.pooling import POOLS, AttentionPool, Pool
from heedful.nn.recurrent.stack import RecurrentStack

WORDS, WIDTH = 11, 4
Document = list[list[int]]
DOCUMENTS: list[Document] = [
    [[1, 2, 3], [4], [], [5, 6]],
    [],
    [[7, 8, 9, 10, 1]],
    [[], []],
    [[2, 3], [1, 2, 3]],
]


class RecurrentWords(nn.Module):
    """Tokens to vectors, in both directions."""

    def __init__(self, stack: RecurrentStack) -> None:
        super().__init__()
        self.embedding = Embedding(nn.Parameter(torch.randn(WORDS, WIDTH)), None, 0.0)
        self.stack = stack

    def forward(self, tokens: Packed) -> Packed:
        return tokens.with_values(self.stack(self.embedding(tokens.values, tokens.layout), tokens.layout)[0])


def recurrent_words() -> nn.Module:
    return RecurrentWords(RecurrentStack("gru", WIDTH, WIDTH // 2, bidirectional=True))


def transformer_words() -> nn.Module:
    config = TransformerModel(width=WIDTH, heads=2, layers=2, inner=8, dropout=0.0)
    encoder = transformer_encoder(config, nn.Parameter(torch.randn(WORDS, WIDTH)))
    init_xavier(encoder)
    return encoder


WORD_ENCODERS = {"recurrent": recurrent_words, "transformer": transformer_words}
every_word_encoder = pytest.mark.parametrize("words", WORD_ENCODERS)


def network(words: str = "recurrent", pool: str = "attention") -> Pooled:
    """A hierarchical attention network, or one that pools otherwise."""
    sentences = VectorEncoder(RecurrentStack("lstm", WIDTH, 3, bidirectional=True))
    lower = Pooled(WORD_ENCODERS[words](), POOLS[pool](WIDTH))
    made = Pooled(HierarchicalEncoder(lower, sentences), POOLS[pool](6)).double()
    for module in made.modules():
        if isinstance(module, Embedding):
            module.precision = torch.float64
    return made


def attended(pool: Pool, vectors: Sequence[Tensor]) -> tuple[Tensor, list[float]]:
    """u = tanh(W h + b), alpha = softmax(u . c), sum alpha h, one vector after the other."""
    assert isinstance(pool, AttentionPool)
    context = pool.context.weight[0]
    powers = [torch.exp((pool.inner.weight @ h + pool.inner.bias).tanh() @ context) for h in vectors]
    total = torch.stack(powers).sum()
    shares = [power / total for power in powers]
    return torch.stack([p * h for p, h in zip(shares, vectors, strict=True)]).sum(0), [p.item() for p in shares]


def by_loop(han: Pooled, document: Document) -> tuple[Tensor, list[float], list[list[float]]]:
    """A document's vector, the weights of its sentences, and those of their words; one sentence at a time."""
    encoder = cast(HierarchicalEncoder, han.encoder)
    vectors: list[Tensor] = []
    word_weights: list[list[float]] = []
    for sentence in document:
        if not sentence:
            vectors.append(torch.zeros(WIDTH, dtype=torch.float64))
            word_weights.append([])
            continue
        words = encoder.words.encoder
        if isinstance(words, RecurrentWords):
            embedded = words.embedding.weight[torch.tensor(sentence)] * WIDTH**0.5
            encoded = cast(nn.GRU, words.stack.layers[0])(embedded)[0]
        else:
            encoded = words(Packed.of([sentence])).values
        vector, shares = attended(encoder.words.pool, list(encoded))
        vectors.append(vector)
        word_weights.append(shares)
    lstm = cast(nn.LSTM, cast(VectorEncoder, encoder.sentences).stack.layers[0])
    vector, shares = attended(han.pool, list(lstm(torch.stack(vectors))[0]))
    return vector, shares, word_weights


@every_word_encoder
def test_documents_equal_a_loop_with_all_gradients_and_empty_ones_are_zeros(words: str) -> None:
    han = network(words)
    found = han(Nested.of(DOCUMENTS))
    expected = torch.stack(
        [by_loop(han, document)[0] if document else torch.zeros(6, dtype=torch.float64) for document in DOCUMENTS]
    )
    torch.testing.assert_close(found, expected)
    upstream = torch.randn_like(found)
    wanted = torch.autograd.grad((expected * upstream).sum(), list(han.parameters()))
    for gradient, known in zip(
        torch.autograd.grad((found * upstream).sum(), list(han.parameters())), wanted, strict=True
    ):
        assert known.abs().sum() > 0
        torch.testing.assert_close(gradient, known)


@every_word_encoder
def test_the_weights_of_sentences_and_words_are_those_of_the_loop(words: str) -> None:
    han, documents = network(words), Nested.of(DOCUMENTS)
    encoder = cast(HierarchicalEncoder, han.encoder)
    sentence_weights = han.weights(documents).flatten().tolist()
    word_weights = encoder.words.weights(documents.words).flatten().tolist()
    known = [by_loop(han, document)[1:] for document in DOCUMENTS if document]
    assert sentence_weights == pytest.approx([share for shares, _ in known for share in shares])
    assert word_weights == pytest.approx([share for _, words in known for shares in words for share in shares])


@every_word_encoder
def test_a_neighbour_cannot_change_a_document(words: str) -> None:
    han = network(words)
    others: list[Document] = [[[6, 5, 4], [3, 3, 3, 3]], DOCUMENTS[0], [[1]], [[9, 9]], []]
    torch.testing.assert_close(han(Nested.of(DOCUMENTS))[0], han(Nested.of(others))[1], rtol=0, atol=1e-14)
    torch.testing.assert_close(han(Nested.of(DOCUMENTS))[0], han(Nested.of(DOCUMENTS[:1]))[0], rtol=0, atol=1e-14)


def test_a_sentence_is_seen_in_the_light_of_its_document() -> None:
    han = network()
    encoder = cast(HierarchicalEncoder, han.encoder)
    encoded = encoder(Nested.of([[[1, 2], [3]], [[1, 2], [4]], [[1, 2]]]))
    assert encoded.layout.lengths.tolist() == [2, 2, 1]
    first, second, alone = encoded.values[0], encoded.values[2], encoded.values[4]
    assert not torch.allclose(first, second)
    assert not torch.allclose(first, alone)


@pytest.mark.parametrize("pool", POOLS)
def test_every_pool_serves_both_levels(pool: str) -> None:
    han = network(pool=pool)
    found = han(Nested.of(DOCUMENTS))
    assert found.shape == (5, 6)
    assert (found[1] == 0).all()
    assert (found[[0, 2, 3, 4]] != 0).any(1).all()
    found.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in han.parameters())


def test_plain_sentences_are_pooled_too() -> None:
    words = Pooled(transformer_words(), POOLS["first"](WIDTH))
    sentences = Packed.of([[1, 2, 3], [4]])
    assert torch.equal(words(sentences), words.encoder(sentences).values[[0, 3]])
    assert words.weights(sentences).flatten().tolist() == [1, 0, 0, 1]


def test_nested_documents_are_packed_on_both_levels() -> None:
    documents = Nested.of(DOCUMENTS).to(torch.device("cpu"))
    flat = [sentence for document in DOCUMENTS for sentence in document]
    assert [words.tolist() for words in documents.words.split()] == flat
    assert documents.sentences.lengths.tolist() == [4, 0, 1, 2, 2]
    assert documents.sentences.bound == 4


def test_levels_that_count_other_sentences_are_refused() -> None:
    message = r"^words of 9 sentences, but documents of 2: both must have the same sentences$"
    with pytest.raises(ValueError, match=message):
        Nested(Nested.of(DOCUMENTS).words, Nested.of([[[1], [2]]]).sentences)


def test_a_hierarchical_network_learns_which_sentence_tells() -> None:
    """A document is of the second class where one of its sentences holds words 1 and 2 together."""
    torch.manual_seed(3)
    telling, silent = [[1, 2], [2, 5, 1], [7, 1, 2]], [[1, 7], [8, 2], [3, 4, 5], [6], [9, 1, 9], [2, 2]]
    draw = torch.Generator().manual_seed(0)

    def pick(choices: Document) -> list[int]:
        return choices[int(torch.randint(len(choices), (), generator=draw))]

    documents, labels = [], []
    for number in range(60):
        document = [pick(silent) for _ in range(int(torch.randint(1, 5, (), generator=draw)))]
        if number % 2:
            document[int(torch.randint(len(document), (), generator=draw))] = pick(telling)
        documents.append(document)
        labels.append(number % 2)
    han = network().float()
    for module in han.modules():
        if isinstance(module, Embedding):
            module.precision = torch.float32
    head, nested, target = nn.Linear(6, 2), Nested.of(documents), torch.tensor(labels)
    optimizer = torch.optim.Adam([*han.parameters(), *head.parameters()], lr=2e-2)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(han(nested)), target).backward()
        optimizer.step()
    assert (head(han(nested)).argmax(1) == target).float().mean() > 0.95
