"""GPT-2 on one GPU: training and generation, ours against transformers and a plain compiled loop, on the same work.

    python -m benchmarks.gpt_gpu [--parts train,mixed,generate] [--merge] [--tiny]

The work is GPT-2 small (12 layers, width 768, 12 heads, a vocabulary of 50,304, the usual size padded to a multiple of
64, tied) without dropout, in windows of 1,024 tokens, 32,768 tokens per step, in bfloat16 with float32 weights, AdamW.

train       full windows: rates, ratios and memory. Ours runs through the trainer that `heedful train` uses, loader
            included. The peers get batches that are on the device already, autocast, torch.compile with static shapes,
            fused AdamW: transformers' GPT2LMHeadModel, and a plain loop over a GPT-2 in a hundred lines with PyTorch's
            fused attention, as people write it. The faster one counts.
mixed       documents of 30 to 1,024 tokens that must not see each other: ours packs them; the peers pad batches of
            similar lengths to a multiple of 8, with dynamic shapes, or all rows to 1,024, and the faster way counts
generate    256 tokens after prompts of 32, greedily, in bfloat16: ours, transformers' `generate` as it is, and with its
            static cache, which it compiles; batches of 1 and 64

A rate counts real tokens, and is the median over stretches; the clock is read after the GPU has finished.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.gpu_work import Listener, Results, choose_names, peak_gib, rate, wait
from torch import Tensor, nn

from heedful.config.corpora import PlainTexts
from heedful.config.data import Data
from heedful.config.model.language import LanguageModelTable, TransformerDecoderTable
from heedful.config.recipe import Recipe
from heedful.config.train import AdamW, Constant, Train, Validation
from heedful.data.batches.windows import Borders
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.decode.query import Query
from heedful.decode.scorer import SingleModel
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.devices import choose_device
from heedful.metrics.recorded_results import RESULTS
from heedful.models.build.language import build_language_model
from heedful.models.networks import set_precision, store_in
from heedful.runs.job import Job, set_up
from heedful.runs.run import build_trainer
from heedful.tasks.generate.task import GenerateTask
from heedful.training.optimizers import build_optimizer
from heedful.training.signals import StopRequest

FIRST_PIECE = 4
IGNORED = -100
NEVER = 10**9
PARTS = ("train", "mixed", "generate")


@dataclass(frozen=True)
class Scale:
    """The sizes of everything in the benchmark."""

    decoder: TransformerDecoderTable
    vocabulary: int
    length: int
    batch_tokens: int
    windows: int  # tokens of the text, in windows
    warm: int
    stretches: int
    steps: int  # of a stretch
    peer_batches: int
    prompt: int
    generated: int
    batches: tuple[int, ...]

    @property
    def model(self) -> LanguageModelTable:
        return LanguageModelTable(family="language", decoder=self.decoder)


def _decoder(**shape: Any) -> TransformerDecoderTable:
    return TransformerDecoderTable(dropout=0.0, dropout_attention=0.0, **shape)


FULL = Scale(_decoder(preset="small"), 50_304, 1024, 32_768, 2000, 30, 5, 10, 16, 32, 256, (1, 64))
TINY = Scale(
    _decoder(width=32, heads=2, layers=2, inner=64, max_positions=64), 192, 32, 128, 40, 2, 2, 2, 3, 8, 16, (1, 4)
)


def full_text(scale: Scale) -> TokenStore:
    """One long text of random pieces."""
    random = np.random.default_rng(0)
    return TokenStore.of(text=[random.integers(FIRST_PIECE, scale.vocabulary, scale.windows * scale.length).tolist()])


def mixed_documents(scale: Scale) -> TokenStore:
    """Documents of random pieces, of lengths that spread evenly in their logarithm, with their markers."""
    random = np.random.default_rng(0)
    lengths = np.exp(random.uniform(np.log(scale.length / 32), np.log(scale.length), 4 * scale.windows)).astype(int)
    texts = [[BEGIN, *random.integers(FIRST_PIECE, scale.vocabulary, length - 1).tolist(), END] for length in lengths]
    return TokenStore.of(text=texts)


# --- ours -------------------------------------------------------------------------------------------------------------


def our_rate(scale: Scale, store: TokenStore, borders: Borders, device: torch.device) -> tuple[float, float]:
    """Tokens per second, and the share of time spent waiting for batches."""
    in_memory = PlainTexts(text="none")  # a recipe needs one; nothing reads it
    recipe = Recipe(
        data=Data(train=(in_memory,), batch_tokens=scale.batch_tokens, max_length=scale.length, borders=borders),
        model=scale.model,
        train=Train(
            steps=scale.warm + scale.stretches * scale.steps,
            optimizer=AdamW(kind="adamw"),
            schedule=Constant(kind="constant", lr=1e-4),
            seed=0,
            device=device.type,
            precision="bfloat16",
            log_every=scale.steps,
            checkpoint_every=NEVER,
            validation=Validation(every=NEVER),
        ),
    )
    set_up(recipe)
    vocabularies = Vocabularies({"text": cast(Tokenizer, None)})  # there is no text
    prepared, task = Prepared(vocabularies, train=(store,), weights=(1.0,), valid=()), GenerateTask()
    torch.manual_seed(0)
    model = build_language_model(scale.model, scale.vocabulary).to(device)
    optimizer = build_optimizer(recipe.train.optimizer, model)
    objective, feed = task.objective(recipe, prepared), task.feed(recipe, prepared)
    job = Job(recipe, task, prepared, device, model, optimizer, objective, feed)
    position, listener = job.begin(), Listener()  # which settles precision and shape: the trainer is made for them
    build_trainer(job, listener).run(position, StopRequest())
    settled = [reading for reading in listener.readings if reading.step > scale.warm]
    return median(r.tokens_per_second for r in settled), median(r.data_wait for r in settled)


# --- the peers --------------------------------------------------------------------------------------------------------


class PlainBlock(nn.Module):
    """A pre-norm block, as people write it."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.into, self.out = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.project(self.first(x)).chunk(3, 2)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(attended.transpose(1, 2).flatten(2))
        updated: Tensor = x + self.out(F.gelu(self.into(self.second(x)), approximate="tanh"))
        return updated


class PlainGpt(nn.Module):
    """GPT-2 in PyTorch's own modules."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        table = scale.decoder
        self.tokens = nn.Embedding(scale.vocabulary, table.width)
        self.positions = nn.Embedding(table.max_positions, table.width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.blocks = nn.ModuleList(PlainBlock(table.width, table.heads, table.inner) for _ in range(table.layers))
        self.final = nn.LayerNorm(table.width)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        scores = F.linear(self.final(x), self.tokens.weight)
        return F.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


class HuggingFaceGpt(nn.Module):
    """GPT2LMHeadModel; labels are shifted already."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self.model = hugging_face(scale)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        scores = self.model(input_ids=tokens, use_cache=False).logits
        return F.cross_entropy(scores.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED)


def hugging_face(scale: Scale) -> Any:
    """The same model of transformers, with PyTorch's fused attention."""
    from transformers import GPT2Config, GPT2LMHeadModel

    table = scale.decoder
    config = GPT2Config(
        vocab_size=scale.vocabulary, n_positions=table.max_positions, n_embd=table.width, n_layer=table.layers,
        n_head=table.heads, n_inner=table.inner, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=BEGIN, eos_token_id=END, pad_token_id=PAD, attn_implementation="sdpa",
    )  # fmt: skip
    return GPT2LMHeadModel(config)


PEERS: dict[str, Callable[[Scale], nn.Module]] = {"plain": PlainGpt, "transformers": HuggingFaceGpt}


@dataclass(frozen=True, eq=False)
class Padded:
    """A batch as peers want it."""

    tokens: Tensor
    labels: Tensor
    real: int  # the labels that count


def full_batches(scale: Scale, store: TokenStore, device: torch.device) -> list[Padded]:
    """Windows of one text, all of one shape."""
    values = torch.from_numpy(store.streams["text"].values.astype(np.int64))
    rows, batches = scale.batch_tokens // scale.length, []
    for number in range(scale.peer_batches):
        begin = number * scale.batch_tokens
        batch = values[begin : begin + scale.batch_tokens + 1].to(device)
        tokens, labels = (part.view(rows, scale.length) for part in (batch[:-1], batch[1:]))
        batches.append(Padded(tokens, labels, scale.batch_tokens))
    return batches


def padded_documents(scale: Scale, store: TokenStore, device: torch.device, one_shape: bool) -> list[Padded]:
    """Documents as padded rows: all to the longest, or similar lengths together, to a multiple of 8."""
    random, text = np.random.default_rng(0), store.streams["text"]
    cuts = list(_cuts(text.lengths() - 1, scale, one_shape))
    chosen = random.permutation(len(cuts))[: scale.peer_batches]
    return [_padded(store, cuts[number], scale.length if one_shape else None, device) for number in chosen]


def _cuts(lengths: np.ndarray[Any, Any], scale: Scale, one_shape: bool) -> Iterator[list[int]]:
    if one_shape:
        rows = scale.batch_tokens // scale.length
        order = np.random.default_rng(1).permutation(len(lengths)).tolist()
        yield from (order[begin : begin + rows] for begin in range(0, len(order) - rows, rows))
        return
    begun: list[int] = []
    for index in np.argsort(lengths, kind="stable").tolist():
        if (len(begun) + 1) * int(lengths[index]) > scale.batch_tokens:
            yield begun
            begun = []
        begun.append(index)


def _padded(store: TokenStore, rows: Sequence[int], width: int | None, device: torch.device) -> Padded:
    texts = [store.sentence("text", row).astype(np.int64) for row in rows]
    width = width or -(-(max(map(len, texts)) - 1) // 8) * 8
    tokens, labels = np.full((len(rows), width), PAD), np.full((len(rows), width), IGNORED)
    for row, text in enumerate(texts):
        tokens[row, : len(text) - 1], labels[row, : len(text) - 1] = text[:-1], text[1:]
    real = sum(len(text) - 1 for text in texts)
    return Padded(torch.from_numpy(tokens).to(device), torch.from_numpy(labels).to(device), real)


def peer_rate(scale: Scale, name: str, batches: list[Padded], device: torch.device, dynamic: bool) -> float:
    """Tokens per second."""
    torch.manual_seed(0)
    model: Any = PEERS[name](scale).to(device).train()
    model.compile(dynamic=dynamic)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    ahead = cycle(batches)

    def step() -> int:
        batch = next(ahead)
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(batch.tokens, batch.labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return batch.real

    return rate(step, warm=max(len(batches), scale.warm), stretches=scale.stretches, steps=scale.steps)


# --- the parts --------------------------------------------------------------------------------------------------------


def measure_train(results: Results, scale: Scale, device: torch.device) -> None:
    """Full windows."""
    store = full_text(scale)
    with results.part("train"):
        tokens_s, waited = our_rate(scale, store, "open", device)
        results.add(tokens_s=tokens_s, memory_gib=peak_gib(), data_wait=waited)
    for name in PEERS:
        with results.part(f"train_{name}"):
            theirs = peer_rate(scale, name, full_batches(scale, store, device), device, dynamic=False)
            results.add(**{f"tokens_s_{name}": theirs, f"memory_gib_{name}": peak_gib()})
    _ratio(results, "ratio_train", "tokens_s", [f"tokens_s_{name}" for name in PEERS])
    figures = results.figures
    if {"memory_gib", "memory_gib_plain", "memory_gib_transformers"} <= figures.keys():
        fastest = max(PEERS, key=lambda name: figures[f"tokens_s_{name}"])
        with results.part("ratio_memory"):
            results.add(ratio_memory=figures["memory_gib"] / max(1e-9, figures[f"memory_gib_{fastest}"]))


def measure_mixed(results: Results, scale: Scale, device: torch.device) -> None:
    """Documents of mixed lengths."""
    store = mixed_documents(scale)
    with results.part("mixed"):
        tokens_s, waited = our_rate(scale, store, "closed", device)
        results.add(tokens_s_mixed=tokens_s, memory_gib_mixed=peak_gib(), data_wait_mixed=waited)
    keys = []
    for name, way in (("plain", "sorted"), ("plain", "one_shape"), ("transformers", "sorted")):
        with results.part(f"mixed_{name}_{way}"):
            batches = padded_documents(scale, store, device, way == "one_shape")
            theirs = peer_rate(scale, name, batches, device, dynamic=way == "sorted")
            keys.append(f"tokens_s_mixed_{name}_{way}")
            results.add(**{keys[-1]: theirs, f"memory_gib_mixed_{name}_{way}": peak_gib()})
    _ratio(results, "ratio_train_mixed", "tokens_s_mixed", keys)


def _ratio(results: Results, name: str, ours: str, theirs: Sequence[str]) -> None:
    known = [results.figures[key] for key in theirs if key in results.figures]
    if ours in results.figures and known:
        with results.part(name):
            results.add(**{name: results.figures[ours] / max(known)})


def _per_second(generate: Callable[[], int], warm: int = 2, rounds: int = 5) -> float:
    """Tokens per second of a call that returns how many it made: the median over calls."""
    for _ in range(warm):
        generate()
    rates = []
    for _ in range(rounds):
        wait()
        began = time.perf_counter()
        made = generate()
        wait()
        rates.append(made / (time.perf_counter() - began))
    return median(rates)


def measure_generate(results: Results, scale: Scale, device: torch.device) -> None:
    """Greedy continuations of equal length."""
    random = np.random.default_rng(0)
    for batch in scale.batches:
        prompts = random.integers(FIRST_PIECE, scale.vocabulary, (batch, scale.prompt)).tolist()
        with results.part(f"generate_{batch}"):
            torch.manual_seed(0)
            model = build_language_model(scale.model, scale.vocabulary).to(device).eval()
            store_in(model, torch.bfloat16)
            set_precision(model, torch.bfloat16)
            scorer = SingleModel(model)
            queries = [Query(prompt, scale.generated + 1, (), number) for number, prompt in enumerate(prompts)]
            settings = SearchSettings(beam=1, min_length=scale.generated)

            def ours() -> int:
                found = search(scorer, queries, settings, batch * scale.length)
                return sum(min(len(best.tokens), scale.generated) for best, *_ in found)

            results.add(**{f"generate_s_batch{batch}": _per_second(ours)})
        for way in ("dynamic", "static"):
            with results.part(f"generate_{batch}_{way}"):
                torch.manual_seed(0)
                peer = hugging_face(scale).to(device, torch.bfloat16).eval()
                tokens = torch.tensor(prompts, device=device)
                options = {"cache_implementation": "static"} if way == "static" else {}

                @torch.inference_mode()
                def theirs() -> int:
                    made = peer.generate(
                        tokens,
                        attention_mask=torch.ones_like(tokens),
                        do_sample=False,
                        min_new_tokens=scale.generated,
                        max_new_tokens=scale.generated,
                        **options,
                    )
                    return int(made.shape[0] * (made.shape[1] - tokens.shape[1]))

                results.add(**{f"generate_s_batch{batch}_{way}": _per_second(theirs)})
        short = {"dynamic": f"ratio_generate_batch{batch}", "static": f"ratio_static_batch{batch}"}
        for way, name in short.items():
            _ratio(results, name, f"generate_s_batch{batch}", [f"generate_s_batch{batch}_{way}"])


MEASURED = {"train": measure_train, "mixed": measure_mixed, "generate": measure_generate}


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help="what to measure; by default everything")
    parser.add_argument("--merge", action="store_true", help="keep what is recorded and not measured again")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the program out; records nothing")
    options = parser.parse_args()
    scale, device = TINY if options.tiny else FULL, choose_device("auto")
    results = Results("gpt_gpu", None if options.tiny else options.results, options.merge)
    for part in choose_names(parser, "--parts", options.parts, PARTS):
        MEASURED[part](results, scale, device)
    results.exit()


if __name__ == "__main__":
    main()
