"""Work, parameters, memory, rates and pieces, against torch's own counters and counting by hand."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from heedful.config.corpora import TextCorpus
from heedful.config.data import Data
from heedful.config.model.transformer import TransformerModel
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import ByteBpe, Words
from heedful.data.batches.pairs import PairFeed, collate
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.lab import memory as memory_module
from heedful.lab.device_speed import measure_matrix_rate
from heedful.lab.flops import STEP, count_parameters, forward_flop
from heedful.lab.memory import Memory, largest_batch, measure_memory, saved_bytes
from heedful.lab.token_statistics import TokenStatistics, count_tokens, find_token_problems
from heedful.models.build.network import build_model
from heedful.models.networks import set_precision
from heedful.nn.attention.backends import explicit
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.training.objectives import NextToken

VOCABULARY = 50
CONFIGS: list[dict[str, Any]] = [
    {},
    {"activation": "swiglu", "norm": "pre"},
    {"activation": "silu"},
    {"layers": 1, "decoder_layers": 3, "tie": "none"},
    {"positions": "learned", "activation": "gelu", "tie": "decoder", "dropout_attention": 0.1, "dropout_inner": 0.1},
    {"positions": "rope"},
    {"positions": "alibi", "norm": "pre"},
    {"positions": "relative", "max_distance": 3},
]


def config(**options: Any) -> TransformerModel:
    return TransformerModel.model_validate({"width": 32, "heads": 4, "layers": 2, "inner": 48, **options})


def store(lengths: list[tuple[int, int]]) -> TokenStore:
    chance = np.random.default_rng(0)
    source, target = (
        [chance.integers(4, VOCABULARY, size).tolist() for size in side] for side in zip(*lengths, strict=True)
    )
    return TokenStore.of(source=source, target=target)


def expected(options: dict[str, Any], lengths: list[tuple[int, int]]) -> float:
    """By the formula; lengths are without markers."""
    source, target = (np.array(side) + 1 for side in zip(*lengths, strict=True))
    return forward_flop(config(**options), source, target, VOCABULARY)


def counter() -> FlopCounterMode:
    """Torch's counter, told of two operations of the CPU that it passes over."""
    aten = torch.ops.aten
    attention = aten._scaled_dot_product_flash_attention_for_cpu
    return FlopCounterMode(
        display=False,
        custom_mapping={
            aten.addmm_: lambda into, left, right, *_, out_shape=None, **options: 2 * left[0] * left[1] * right[1],
            attention: lambda q, k, v, *_, out_shape=None, **options: sdpa_flop_count(q, k, v),
        },
    )


ACTIVATIONS = get_args(TransformerModel.model_fields["activation"].annotation)

# --- work -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", CONFIGS)
def test_the_formula_counts_what_torch_counts_in_a_forward_pass(options: dict[str, Any]) -> None:
    """Sentences of equal length: attention on a CPU pads, and padding is not counted by us."""
    lengths = [(6, 9)] * 5
    model = build_model(config(**options), VOCABULARY, VOCABULARY).eval()
    batch = collate([store(lengths)], np.arange(5))
    with counter() as counted, torch.no_grad():
        NextToken(0.1)(model, batch)
    assert counted.get_total_flops() == expected(options, lengths)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_of_a_recipe_has_its_work_and_its_memory(activation: str) -> None:
    lengths = [(6, 9)] * 5
    options = {"activation": activation, "layers": 1}
    model = build_model(config(**options), VOCABULARY, VOCABULARY).eval()
    with counter() as counted, torch.no_grad():
        NextToken(0.1)(model, collate([store(lengths)], np.arange(5)))
    assert counted.get_total_flops() == expected(options, lengths)
    assert measured(options, torch.float32).activations == really_saved(options, torch.float32)


@pytest.mark.parametrize("options", CONFIGS)
def test_a_training_step_is_three_forward_passes(options: dict[str, Any]) -> None:
    """With attention as written; fused kernels compute the scores once more on the way back."""
    lengths = [(6, 9)] * 5
    model = build_model(config(**options), VOCABULARY, VOCABULARY)
    for module in model.modules():
        if isinstance(module, SelfAttention | CrossAttention):
            module.backend = explicit
    batch = collate([store(lengths)], np.arange(5))
    with counter() as counted:
        NextToken(0.1)(model, batch).loss.backward()
    assert counted.get_total_flops() == STEP * expected(options, lengths)


def test_work_on_sentences_adds_up() -> None:
    """Each sentence by itself, counted by torch, is what the formula says of all: no work crosses sentences."""
    lengths = [(3, 8), (12, 2), (7, 7)]
    model = build_model(config(), VOCABULARY, VOCABULARY).eval()
    pairs = store(lengths)
    with counter() as counted, torch.no_grad():
        for i in range(3):
            NextToken(0.1)(model, collate([pairs], np.array([i])))
    assert counted.get_total_flops() == expected({}, lengths)


def test_sums_of_squares_do_not_overflow() -> None:
    many = np.full(1_000_000, 3000, np.int32)
    assert forward_flop(config(), many, many, VOCABULARY) > 4 * 32 * 3000**2 * 1e6


@pytest.mark.parametrize(
    ("tie", "positions", "embeddings"),
    [
        ("all", "sinusoidal", 50 * 32),
        ("decoder", "sinusoidal", 2 * 50 * 32),
        ("none", "sinusoidal", 3 * 50 * 32),
        ("all", "learned", 50 * 32 + 2 * 300 * 32),
    ],
)
def test_shared_matrices_are_counted_once(tie: str, positions: str, embeddings: int) -> None:
    model = build_model(config(tie=tie, positions=positions, max_positions=300), VOCABULARY, VOCABULARY)
    parameters = count_parameters(model)
    assert parameters.embeddings == embeddings
    assert parameters.rest == sum(p.numel() for n, p in model.named_parameters() if ".blocks." in n)
    assert parameters.total == sum(p.numel() for p in model.parameters())


def test_a_rate_is_one_that_a_processor_can_have() -> None:
    rate = measure_matrix_rate(torch.device("cpu"), torch.float32)
    assert 1e8 < rate < 1e15


# --- memory ---------------------------------------------------------------------------------------------------------

RAGGED = [(3, 8), (12, 2), (7, 7), (20, 25), (1, 1)]


def feed(lengths: list[tuple[int, int]], batch_tokens: int = 1000) -> PairFeed:
    return PairFeed([store(lengths)], [1.0], 1, batch_tokens, multiple=64)


def measured(options: dict[str, Any], precision: torch.dtype) -> Memory:
    return measure_memory(
        config(**options), (VOCABULARY, VOCABULARY), feed(RAGGED), 0.1, torch.device("cpu"), precision
    )


def really_saved(options: dict[str, Any], precision: torch.dtype) -> int:
    model = build_model(config(**options), VOCABULARY, VOCABULARY)
    set_precision(model, precision)
    whole = feed(RAGGED)
    return saved_bytes(model, whole.batch(next(iter(whole.plan(0)))), 0.1)


@pytest.mark.parametrize("options", CONFIGS)
def test_memory_without_values_is_that_of_a_real_forward_pass(options: dict[str, Any]) -> None:
    assert measured(options, torch.float32).activations == really_saved(options, torch.float32)


@pytest.mark.parametrize("options", CONFIGS)
def test_in_bfloat16_it_differs_by_the_statistics_of_norms_at_most(options: dict[str, Any]) -> None:
    assert measured(options, torch.bfloat16).activations == pytest.approx(
        really_saved(options, torch.bfloat16), rel=0.01
    )


def test_a_storage_that_is_saved_twice_counts_once_and_weights_not_at_all() -> None:
    class Tiny(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(10))

        def states(self, source: object, target: object) -> torch.Tensor:
            twice = self.weight.exp()  # saves its result: 40 bytes
            return twice * twice * self.weight  # saves the same again, its square (40 bytes), and the weight

    class Summing:
        def __init__(self, smoothing: float) -> None: ...

        def __call__(self, model: Tiny, batch: object) -> torch.Tensor:
            return model.states(batch, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_module, "NextToken", Summing)
        assert saved_bytes(Tiny(), None, 0.0) == 80  # type: ignore[arg-type]


def test_adam_holds_two_numbers_a_weight_beside_weight_and_gradient() -> None:
    memory = measured({}, torch.float32)
    model = build_model(config(), VOCABULARY, VOCABULARY)
    weights = 4 * sum(p.numel() for p in model.parameters())
    assert (memory.parameters, memory.gradients, memory.optimizer) == (weights, weights, 2 * weights)
    assert memory.activations is not None
    assert memory.total == 4 * weights + memory.activations
    optimizer = torch.optim.Adam(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    state = [value for values in optimizer.state.values() for name, value in values.items() if name != "step"]
    assert sum(value.nbytes for value in state) == memory.optimizer


def test_the_largest_batch_is_the_one_with_most_tokens() -> None:
    chance = np.random.default_rng(1)
    lengths = [(int(a), int(b)) for a, b in chance.integers(1, 30, (200, 2))]
    whole = feed(lengths, batch_tokens=120)
    tokens = [sum(sum(lengths[i]) + 2 for i in indices) for indices in whole.plan(0)]
    chosen = largest_batch(whole)
    assert sum(sum(lengths[i]) + 2 for i in chosen) == max(tokens)
    batch = measure_memory(config(), (50, 50), whole, 0.1, torch.device("cpu"), torch.float32).batch
    assert batch.source_tokens + batch.target_tokens == max(tokens)
    assert batch.sentences == len(chosen)
    assert batch.longest == max(max(lengths[i]) + 1 for i in chosen)


# --- pieces ---------------------------------------------------------------------------------------------------------


def words_recipe(size: int = 100, **data: Any) -> Recipe:
    corpus = TextCorpus(source="a", target="b")
    return Recipe(data=Data.model_validate({"train": [corpus], **data}), tokenizer=Words(kind="word", size=size))


def pieces_of(recipe: Recipe, tokenizer: Tokenizer, pairs: list[tuple[str, str]], valid: list[str]) -> TokenStatistics:
    train = TokenStore.of(
        source=tokenizer.encode_batch([source for source, _ in pairs]),
        target=tokenizer.encode_batch([target for _, target in pairs]),
    )
    seen = tokenizer.encode_batch(valid)
    prepared = Prepared(
        Vocabularies({"source": tokenizer, "target": tokenizer}),
        (train,),
        (1.0,),
        (TokenStore.of(source=seen, target=seen),),
    )
    return count_tokens(recipe, prepared, ["corpus"], pairs)


def test_pieces_are_counted_as_by_hand() -> None:
    tokenizer = train_tokenizer(Words(kind="word", size=100), ["a b c d e"])
    pairs = [("a b", "a"), ("a x", "b b b")] + [("c", "c")] * 5 + [("d", "d d")] * 3
    pieces = pieces_of(words_recipe(), tokenizer, pairs, ["a x x"])
    source, target = pieces.sides
    assert (source.pieces, source.longest, target.longest) == (12, 2, 3)
    assert source.unknown == pytest.approx(1 / 12)
    assert target.unknown == 0
    assert source.unknown_valid == pytest.approx(2 / 3)
    assert source.pieces_per_word == 1
    assert source.byte_pieces is None
    (vocabulary,) = pieces.vocabularies
    assert (vocabulary.size, vocabulary.asked, vocabulary.markers) == (9, 100, 4)
    assert (vocabulary.never, vocabulary.rare) == (1, 3)  # e; a, b and d, which is there 9 times, but not c


def test_lone_bytes_are_those_that_spell_characters_the_vocabulary_does_not_hold() -> None:
    tokenizer = train_tokenizer(ByteBpe(size=300), ["plain text only"] * 20)
    recipe = words_recipe().model_copy(update={"tokenizer": ByteBpe(size=300)})
    pieces = pieces_of(recipe, tokenizer, [("é", "plain"), ("a", "plain")], ["x"])
    assert pieces.sides[0].byte_pieces == pytest.approx(2 / 3)  # two bytes of é, and one a
    assert pieces.sides[1].byte_pieces == 0


def test_two_bytes_of_a_character_are_no_lone_byte() -> None:
    """These characters share their first two bytes, which become one piece."""
    tokenizer = train_tokenizer(ByteBpe(size=261), ["一丁丂七丄丅丆万丈三"])
    recipe = words_recipe().model_copy(update={"tokenizer": ByteBpe(size=261)})
    assert len(tokenizer.encode("丏")) == 2
    assert pieces_of(recipe, tokenizer, [("丏", "a")], ["x"]).sides[0].byte_pieces == 0.5


@pytest.mark.parametrize("scale", [1, 5, 80])
def test_a_histogram_counts_every_sentence_in_its_bin(scale: int) -> None:
    tokenizer = train_tokenizer(Words(kind="word", size=100), ["a"])
    lengths = [1 + n * n * scale // 40 for n in range(30)]
    pieces = pieces_of(words_recipe(), tokenizer, [("a " * length, "a") for length in lengths], ["a"])
    edges, counts = [*pieces.lengths.edges, 10**9], pieces.lengths.source
    assert counts == tuple(sum(low <= length < high for length in lengths) for low, high in pairwise(edges))
    assert sum(pieces.lengths.target) == 30
    assert len(counts) <= 14


def kinds(pieces: TokenStatistics) -> Iterator[tuple[str, str, str]]:
    return ((finding.kind, finding.severity, finding.what) for finding in find_token_problems(pieces))


def test_findings_about_pieces_say_what_and_how_bad() -> None:
    tokenizer = train_tokenizer(Words(kind="word", size=100), ["a b c d e"])
    pieces = pieces_of(words_recipe(), tokenizer, [("a b", "a b")] * 40 + [("c x", "c")], ["a x x"])
    assert list(kinds(pieces)) == [
        ("unknown", "warning", "1.2% of the source pieces of train are unknown"),
        ("unknown", "problem", "66.7% of the source pieces of valid are unknown"),
        ("unknown", "problem", "66.7% of the target pieces of valid are unknown"),
        ("small_vocabulary", "note", "the vocabulary has 9 pieces, not the 100 asked for"),
        ("rare_pieces", "warning", "3 of 5 learned pieces of the vocabulary are used fewer than 10 times"),
    ]


@pytest.mark.parametrize(("size", "found"), [(260, []), (262, ["rare_pieces"])])
def test_the_single_bytes_that_a_vocabulary_always_has_are_not_rare_pieces(size: int, found: list[str]) -> None:
    config = ByteBpe(size=size)
    tokenizer = train_tokenizer(config, ["plain text only"] * 20)
    assert [len(tokenizer.encode_batch([chr(byte)])[0]) for byte in range(128)] == [1] * 128
    recipe = words_recipe().model_copy(update={"tokenizer": config})
    pieces = pieces_of(recipe, tokenizer, [("abc", "abc")] * 3, ["a"])
    (vocabulary,) = pieces.vocabularies
    assert (vocabulary.learned, vocabulary.hardly) == (size - 260, size - 260)
    assert vocabulary.never == size - 4 - 3
    assert [kind for kind, _, _ in kinds(pieces)] == found


def test_a_vocabulary_that_is_kept_gets_no_advice_to_change_it() -> None:
    tokenizer = train_tokenizer(Words(kind="word", size=100), ["a b c d e"])
    recipe = words_recipe()
    recipe = recipe.model_copy(update={"train": recipe.train.model_copy(update={"start_from": "runs/first"})})
    findings = list(find_token_problems(pieces_of(recipe, tokenizer, [("a b", "a b")] * 40 + [("c x", "c")], ["a"])))
    assert [(finding.kind, finding.advice) for finding in findings] == [
        (
            "unknown",
            "The vocabulary comes from `train.start_from`: start from a model for this kind of text, or from scratch.",
        )
    ]


@pytest.mark.parametrize(("dropped", "severity"), [(5, None), (6, "warning"), (200, "problem")])
def test_many_dropped_pairs_are_a_finding(dropped: int, severity: str | None) -> None:
    tokenizer = train_tokenizer(Words(kind="word", size=5), ["a"])
    ids = [[4]] * 100
    train = TokenStore(TokenStore.of(source=ids, target=ids).streams, "", {"too long": dropped - 1, "ratio": 1})
    recipe = words_recipe(size=5)
    pieces = count_tokens(
        recipe,
        Prepared(Vocabularies({"source": tokenizer, "target": tokenizer}), (train,), (1.0,), ()),
        ["corpus"],
        [("a", "a")],
    )
    total = 100 + dropped
    what = (
        f"dropped pairs: {dropped} of {total} ({dropped / total:.1%}), "
        f"{dropped - 1} for `data.max_length`, 1 for `data.max_ratio`"
    )
    assert list(kinds(pieces)) == ([("dropped", severity, what)] if severity else [])
