"""What the checkers of memory watch: our kernels on small random inputs, recorded updates, searches in slots.

    python -m benchmarks.gpu.sanitize_work PART

Each part prints a line per piece of work. It imports nothing of the tests, so that it runs where PyTorch, Triton and
pydantic are all there is. With TRITON_INTERPRET=1 it runs without a GPU, where nothing is recorded.
"""

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.config.model.encoder_only import BertModel
from heedful.config.model.encoders import TransformerEncoderTable
from heedful.config.model.language import LanguageModelTable
from heedful.config.model.pooled import ClassifierModel
from heedful.config.model.transformer import TransformerModel
from heedful.config.train.optimizers import AdamW
from heedful.config.train.table import Masking
from heedful.data.batches.masked import MaskedFeed
from heedful.data.batches.pairs import PairCollator
from heedful.data.batches.texts import TextCollator
from heedful.data.batches.windows import Streams
from heedful.data.collate import StaticShape
from heedful.data.epochs.loader import RowFeed
from heedful.data.token_store import TokenStore
from heedful.decode.engine import Engine
from heedful.decode.query import text_queries
from heedful.decode.scorer import SingleModel
from heedful.decode.settings import SearchSettings
from heedful.models.from_recipe.encoder_only import build_classifier, build_masked_model
from heedful.models.from_recipe.language import build_language_model
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import set_precision
from heedful.nn.attention.backends import PackedHeads, short
from heedful.nn.decoding.tree_step import TreeRows, TreeTables
from heedful.nn.kernels import chain_sums
from heedful.nn.kernels.beam_state import BeamState
from heedful.nn.kernels.beam_step import beam_step_kernel
from heedful.nn.kernels.best_tokens import best_tokens_kernel
from heedful.nn.kernels.residual_norm import norm_and_skip, norm_of_sum
from heedful.nn.kernels.residual_sum import dropped_sum
from heedful.nn.kernels.step_attention import attend_memory_kernel, attend_past_kernel
from heedful.nn.kernels.tree_step import tree_step_kernel
from heedful.nn.layers import linear_gpu
from heedful.nn.losses.cross_entropy_gpu import chunked_cross_entropy
from heedful.tasks.classify.objective import OneLabel
from heedful.tasks.fill.objective import MaskedTokens
from heedful.training.objectives import NextToken, Objective
from heedful.training.optimizers.build import build_optimizer
from heedful.training.truncated import TruncatedBackPropagation
from heedful.training.updates import CapturedUpdates, EagerUpdates, ModelLoss

HAS_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
DTYPES = (torch.float32, torch.float16, torch.bfloat16) if HAS_GPU else (torch.float32,)
VOCABULARY, UPDATES = 50, 6
Pieces = Iterator[tuple[str, list[Tensor]]]  # a name, and results that must be finite


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, device=DEVICE).to(dtype).requires_grad_()


def whole(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int32, device=DEVICE)


def with_gradients(outputs: list[Tensor], leaves: list[Tensor]) -> list[Tensor]:
    """The outputs, and the gradients of their sum."""
    total = sum((one.float().sum() for one in outputs if one.requires_grad), torch.zeros((), device=DEVICE))
    return [*outputs, *torch.autograd.grad(total, leaves)]


# --- kernels ----------------------------------------------------------------------------------------------------------


def norms() -> Pieces:
    """Widths that are no powers of two, as those of the two trainings that were not finite."""
    for dtype in DTYPES:
        for rows, width in ((5, 20), (131, 400), (67, 640)):
            x, f, w, b = leaf(rows, width, dtype=dtype), leaf(rows, width, dtype=dtype), leaf(width), leaf(width)
            y, skip = norm_and_skip(norm_of_sum(x, f, w, b, 1e-5, 0.2), w, b, 1e-5)
            yield f"norms {dtype} {rows} x {width}", with_gradients([y, skip, dropped_sum(x, f, 0.2)], [x, f, w, b])


def linear_maps() -> Pieces:
    """Maps with the sums of columns that are the gradients of biases; and the loss, in blocks of a vocabulary."""
    for dtype in DTYPES:
        for rows, width, inner in ((5, 20, 9), (203, 400, 640)):
            x, w, b = leaf(rows, width, dtype=dtype), leaf(inner, width), leaf(inner)
            v, c = leaf(width, inner), leaf(width)
            outputs = [
                linear_gpu.linear(x, w, b),
                linear_gpu.linear_relu(x, w, b),
                *(linear_gpu.gelu_network(x, w, b, v, c, tanh) for tanh in (False, True)),
            ]
            yield f"linear maps {dtype} {rows} x {width} x {inner}", with_gradients(outputs, [x, w, b, v, c])
        for rows, width, words in ((6, 20, 37), (70, 400, 9001)):
            x, w, b = leaf(rows, width, dtype=dtype), leaf(words, width), leaf(words)
            labels = torch.randint(words, (rows,), device=DEVICE).masked_fill_(
                torch.arange(rows, device=DEVICE) % 3 == 1, -100
            )
            loss, miss = chunked_cross_entropy(x, w, b, labels, 0.1)
            yield f"loss {dtype} {rows} x {width} x {words}", with_gradients([loss, miss], [x, w, b])


def attention() -> Pieces:
    """Short sentences, empty ones, and some of several blocks; bounds of static batches are larger than any length."""
    lengths = [3, 0, 34, 1, 70, 0, 129]
    for dtype in DTYPES:
        for width, causal, bound, dropout in ((12, False, 129, 0.0), (64, True, 256, 0.2), (100, False, 512, 0.2)):
            queries = replace(Layout.of(lengths).to(DEVICE), bound=bound)
            keys = queries if causal else replace(Layout.of([9, 0, 2, 66, 3, 0, 90]).to(DEVICE), bound=bound)
            q, k, v = (leaf(one.tokens, 2, width, dtype=dtype) for one in (queries, keys, keys))
            y = short(PackedHeads(q, k, v, queries, keys), causal, dropout)
            yield f"attention {dtype} {width} causal={causal} bound={bound}", with_gradients([y], [q, k, v])


def steps() -> Pieces:
    """Sums over paths, and the kernels of a step of a search. What is not decoded yet was never written."""
    for count in (5, 40):
        layout = Layout.of([4, 1, 0, 7]).to(DEVICE)
        x, steps_BCC = leaf(layout.tokens, count).detach(), leaf(4, count, count).detach()
        start, end = leaf(4, count).detach(), leaf(4, count).detach()
        alphas, totals = chain_sums.sum_forward(x, start, steps_BCC, end, layout.offsets, layout.lengths)
        ones = torch.ones(4, device=DEVICE)
        given = (x, steps_BCC, end, layout.offsets, layout.lengths, alphas, totals, ones)
        yield f"sums over paths of {count} labels", [totals, *chain_sums.sum_backward(*given)]
    for dtype in DTYPES:
        logits = leaf(6, 9001, dtype=dtype).detach()
        allowed, ends = torch.arange(9001, device=DEVICE) % 3 > 0, torch.arange(6, device=DEVICE) > 0
        yield f"best tokens {dtype}", [*best_tokens_kernel(logits, 7, allowed, ends, 2)]
        for heads, width in ((2, 12), (8, 64)):
            positions, room, beams = whole(0, 3, 16, 9), 16, 3
            cache = torch.empty(2, 4, room, beams, heads, width, device=DEVICE, dtype=dtype)
            for slot, position in enumerate(positions.tolist()):
                cache[:, slot, :position] = leaf(2, position, beams, heads, width, dtype=dtype).detach()
            ancestors = torch.randint(beams, (4, beams, room), device=DEVICE, dtype=torch.int32)
            q, k, v = leaf(3, 4 * beams, heads, width, dtype=dtype).detach().unbind()
            memory_k, memory_v = leaf(2, 50, heads, width, dtype=dtype).detach().unbind()
            starts, lengths = whole(0, 5, 0, 9), whole(5, 1, 0, 41)
            found = [
                attend_past_kernel(q, k, v, cache, ancestors, positions),
                attend_memory_kernel(q, memory_k, memory_v, starts, lengths),
            ]
            yield f"attention of a step {dtype} {heads} x {width}", found
    yield from beams_and_trees()


def beams_and_trees() -> Pieces:
    """Steps of a beam search, of several widths, and of trees deeper than a block of the kernel."""
    for beams, best in ((1, 1), (3, 3), (5, 4)):
        room, slots, size = 14, 6, 33
        ancestors = torch.zeros((slots, beams, room), dtype=torch.int32, device=DEVICE)
        state = BeamState.idle(ancestors, whole(*[0] * slots), best, 2)
        busy = torch.arange(slots - 1, device=DEVICE)
        penalties = torch.arange(1, room + 3, dtype=torch.float64, device=DEVICE).expand(len(busy), -1)
        state.begin(busy, room - busy % 5, torch.zeros_like(busy), penalties, torch.ones_like(busy))
        for _ in range(room):
            scores = leaf(slots * beams, size).detach()
            tokens = torch.rand(slots * beams, size, device=DEVICE).argsort(1)
            beam_step_kernel(state, scores, tokens, scores.logsumexp(1))
        yield f"beams of {beams}", [state.ceiling_S]
    tables = TreeTables.of((4, 5, 6), (7, 8, 9), (10, 11), 2, 13, 66, DEVICE)
    rows, beams = 6, 3
    trees = TreeRows.begin([30] * rows, [60] * rows, tables)
    first = torch.arange(rows, device=DEVICE) // beams * beams
    for step in range(100):
        last = torch.randint(4, 7 if step < 70 else 13, (rows,), device=DEVICE)
        extended = first + torch.randint(beams, (rows,), device=DEVICE)
        tree_step_kernel(extended, last, tables.changes_V5, trees.counts_R4, trees.open_RD, trees.which_R, 3, beams)
    yield "trees", [trees.counts_R4]


# --- recorded updates -------------------------------------------------------------------------------------------------


def sentences() -> list[list[int]]:
    chance = random.Random(0)
    return [[chance.randrange(4, VOCABULARY) for _ in range(chance.randint(2, 9))] for _ in range(300)]


def updates() -> Pieces:
    """Updates of a translator, a classifier, a masked model and a carried state: recorded once, and then replayed."""
    static, read = StaticShape.around(128, 24, 12), sentences()
    store = TokenStore.of(source=read, target=[sentence[::-1] for sentence in read])
    translator = TransformerModel(width=80, heads=2, layers=2, inner=96, dropout=0.2, dropout_attention=0.2)
    pairs = RowFeed(
        [store], [1.0], PairCollator(), seed=3, batch_tokens=128, max_sentences=24, static=static, pin=HAS_GPU
    )
    yield from updated("translator", build_model(translator, VOCABULARY, VOCABULARY), NextToken(0.1), pairs)
    encoder = TransformerEncoderTable(width=64, heads=2, layers=2, inner=64, dropout=0.2)
    texts = TokenStore.of(text=read, label=[[sentence[0] % 2] for sentence in read])
    for pool in ("max", "attention"):
        reader = ClassifierModel(family="classifier", pool=pool, encoder=encoder)
        rows = RowFeed([texts], [1.0], TextCollator(12), 3, 128, 24, static, pin=HAS_GPU)
        yield from updated(f"classifier, {pool}", build_classifier(reader, VOCABULARY, 2), OneLabel(0.0), rows)
    bert = BertModel(family="bert", width=64, heads=2, layers=2, inner=64, dropout=0.2, max_positions=32)
    documents = TokenStore.of(text=[[5 + n % 40] * 20 for n in range(60)], sentences=[[4, 3, 5, 4, 4]] * 60)
    masked = MaskedFeed(
        [documents], [1.0], 3, 128, 12, True, Masking(), 4, range(5, VOCABULARY), max_sentences=24, static=static,
        pin=HAS_GPU,
    )  # fmt: skip
    yield from updated("masked model", build_masked_model(bert, VOCABULARY), MaskedTokens(), masked)
    decoder = {"family": "recurrent", "width": 48, "embedding": 32, "last_width": 32, "dropout": 0.2}
    language = LanguageModelTable.model_validate({"family": "language", "decoder": decoder})
    text = [random.Random(0).randrange(4, VOCABULARY) for _ in range(1000)]
    streams = Streams.of(text, 8, 16, seed=3).placed(StaticShape(128, 8, 16), pin=False)
    model = build_language_model(language, VOCABULARY)
    yield from updated("carried state", model, TruncatedBackPropagation(), streams)


def updated(name: str, model: nn.Module, objective: Objective[Any], feed: Any) -> Pieces:
    """Some updates, each on its own batch."""
    model.to(DEVICE)
    if HAS_GPU:
        set_precision(model, torch.bfloat16)
    kind: type[EagerUpdates[Any]] = CapturedUpdates if HAS_GPU else EagerUpdates
    computation = kind(ModelLoss(objective, model), build_optimizer(AdamW(kind="adamw"), model), 1.0, DEVICE)
    losses = []
    for _, planned in zip(range(UPDATES), feed.plan(0), strict=False):
        losses.append(computation.add(feed.batch(planned), first=True).loss.detach().clone())
        computation.step(128, 1e-3)
    yield f"{UPDATES} updates, {name}", [*losses, *model.parameters()]


# --- searches in slots ------------------------------------------------------------------------------------------------


def slots() -> Pieces:
    """Greedy search, beams, and few slots that many sentences pass through."""
    chance = random.Random(1)
    sources = [[chance.randrange(4, VOCABULARY) for _ in range(chance.randint(1, 9))] for _ in range(20)]
    config = TransformerModel(width=48, heads=2, layers=2, inner=48, dropout=0.0)
    for dtype in (torch.float32, torch.bfloat16) if HAS_GPU else (torch.float32,):
        model = build_model(config, VOCABULARY, VOCABULARY).to(DEVICE).eval()
        set_precision(model, dtype)
        for beam, count in ((1, 32), (4, 32), (3, 2)):
            engine = Engine(SingleModel(model), in_slots=True)
            assert engine.slots is not None
            engine.slots.sizes = (count,)
            found = engine.run(text_queries(sources, 6), SearchSettings(beam=beam, max_extra=6))
            yield f"beam {beam} {dtype}", [torch.tensor([nbest[0].log_probability for nbest in found])]


PARTS: Mapping[str, Callable[[], Pieces]] = {
    "norms": norms,
    "linear": linear_maps,
    "attention": attention,
    "steps": steps,
    "updates": updates,
    "slots": slots,
}


def main() -> None:
    torch.manual_seed(1)
    for name, results in PARTS[sys.argv[1]]():
        if HAS_GPU:
            torch.cuda.synchronize()
        finite = all(bool(one.detach().isfinite().all()) for one in results)
        print(f"ran: {name}" if finite else f"NOT FINITE: {name}", flush=True)
    print("complete", flush=True)


if __name__ == "__main__":
    main()
