"""GPT-2 on one GPU: training and generation, ours against transformers and a plain compiled loop, on the same work.

    python -m benchmarks.gpu.gpt_gpu [--parts train,mixed,generate,lstm] [--peers plain,transformers] [--merge] [--tiny]

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
lstm        an LSTM over words against the loop of PyTorch's word-language-model example, in float32 (with TF32) and
            under autocast, of which the faster counts

A rate counts real tokens, and is the median over stretches; the clock is read after the GPU has finished.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import cast

import numpy as np
import torch
from benchmarks.gpu.gpt_gpu_lstm import CLIP_NORM, FULL_LSTM, TINY_LSTM, LstmScale, example_rate
from benchmarks.gpu.gpt_gpu_peers import PEERS, full_batches, hugging_face, padded_documents, peer_rate
from benchmarks.gpu.gpt_gpu_work import FIRST_PIECE, FULL, TINY, Scale, full_text, mixed_documents
from benchmarks.shared.gpu_work import Results, choose_names, peak_gib, trained_rate, wait

from heedful.base.devices import choose_device
from heedful.config.corpora.containers import PlainText
from heedful.config.data import Data
from heedful.config.model.language import LanguageModelTable
from heedful.config.recipe import Recipe
from heedful.config.task_rules import model_of
from heedful.config.train.optimizers import AdamW
from heedful.config.train.schedules import Constant
from heedful.config.train.table import Train, Validation
from heedful.data.batches.windows import Borders
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.decode.query import Query
from heedful.decode.scorer import SingleModel
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.metrics.recorded_results import RESULTS
from heedful.models.from_recipe.language import build_language_model
from heedful.models.networks import set_precision, store_in
from heedful.runs.training_run import set_up
from heedful.tasks.generate.task import GenerateTask

NEVER = 10**9
PARTS = ("train", "mixed", "generate", "lstm")


# --- ours -------------------------------------------------------------------------------------------------------------


def our_rate(scale: Scale, store: TokenStore, borders: Borders, device: torch.device) -> tuple[float, float]:
    """Tokens per second, and the share of time spent waiting for batches."""
    data = Data(train=(_IN_MEMORY,), batch_tokens=scale.batch_tokens, max_length=scale.length, borders=borders)
    train = _train(device, scale.warm, scale.stretches, scale.steps)
    return _trained_rate(Recipe(data=data, model=scale.model, train=train), scale.vocabulary, store, device, scale.warm)


def our_lstm_rate(scale: LstmScale, store: TokenStore, device: torch.device) -> float:
    """Tokens per second of the LSTM."""
    data = Data(train=(_IN_MEMORY,), batch_tokens=scale.tokens, max_length=scale.steps, borders="open")
    train = _train(device, scale.warm, scale.stretches, scale.updates).model_copy(update={"clip_norm": CLIP_NORM})
    recipe = Recipe(data=data, model=scale.model, train=train)
    return _trained_rate(recipe, scale.vocabulary, store, device, scale.warm)[0]


_IN_MEMORY = PlainText(text="none")  # a recipe needs a corpus; nothing reads it


def _train(device: torch.device, warm: int, stretches: int, steps: int) -> Train:
    return Train(
        steps=warm + stretches * steps,
        optimizer=AdamW(kind="adamw"),
        schedule=Constant(kind="constant", lr=1e-4),
        seed=0,
        device=device.type,
        precision="bfloat16",
        log_every=steps,
        checkpoint_every=NEVER,
        validation=Validation(every=NEVER),
    )


def _trained_rate(
    recipe: Recipe, vocabulary: int, store: TokenStore, device: torch.device, warm: int
) -> tuple[float, float]:
    set_up(recipe)
    vocabularies = Vocabularies({"text": cast(Tokenizer, None)})  # there is no text
    prepared, task = Prepared(vocabularies, train=(store,), weights=(1.0,), valid=()), GenerateTask()
    torch.manual_seed(0)
    model = build_language_model(model_of(recipe, LanguageModelTable), vocabulary).to(device)
    return trained_rate(recipe, task, prepared, model, device, warm)


# --- generation -------------------------------------------------------------------------------------------------------


def per_second(generate: Callable[[], int], warm: int = 2, rounds: int = 5) -> float:
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


def our_generation(scale: Scale, prompts: Sequence[Sequence[int]], device: torch.device) -> Callable[[], int]:
    """A call that continues all prompts and returns the number of tokens."""
    torch.manual_seed(0)
    model = build_language_model(scale.model, scale.vocabulary).to(device).eval()
    store_in(model, torch.bfloat16)
    set_precision(model, torch.bfloat16)
    scorer = SingleModel(model)
    queries = [Query(prompt, scale.generated + 1, (), number) for number, prompt in enumerate(prompts)]
    settings = SearchSettings(beam=1, min_length=scale.generated)

    def generate() -> int:
        found = search(scorer, queries, settings, len(prompts) * scale.length)
        return sum(min(len(best.tokens), scale.generated) for best, *_ in found)

    return generate


def their_generation(
    scale: Scale, prompts: Sequence[Sequence[int]], device: torch.device, static: bool
) -> Callable[[], int]:
    """The same with transformers' `generate`."""
    torch.manual_seed(0)
    model = hugging_face(scale).to(device, torch.bfloat16).eval()
    tokens = torch.tensor(prompts, device=device)
    options = {"cache_implementation": "static"} if static else {}

    @torch.inference_mode()
    def generate() -> int:
        made = model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            do_sample=False,
            min_new_tokens=scale.generated,
            max_new_tokens=scale.generated,
            **options,
        )
        return int(made.shape[0] * (made.shape[1] - tokens.shape[1]))

    return generate


# --- the parts --------------------------------------------------------------------------------------------------------


def measure_train(results: Results, scale: Scale, device: torch.device, peers: Sequence[str]) -> None:
    """Full windows."""
    store = full_text(scale)
    with results.part("train"):
        tokens_s, waited = our_rate(scale, store, "open", device)
        results.add(tokens_s=tokens_s, memory_gib=peak_gib(), data_wait=waited)
    for name in peers:
        with results.part(f"train_{name}"):
            theirs = peer_rate(scale, name, full_batches(scale, store, device), device, dynamic=False)
            results.add(**{f"tokens_s_{name}": theirs, f"memory_gib_{name}": peak_gib()})
    _ratio(results, "ratio_train", "tokens_s", [f"tokens_s_{name}" for name in peers])
    figures = results.figures
    measured = [name for name in peers if f"tokens_s_{name}" in figures]
    if "memory_gib" in figures and measured:
        fastest = max(measured, key=lambda name: figures[f"tokens_s_{name}"])
        with results.part("ratio_memory"):
            results.add(ratio_memory=figures["memory_gib"] / max(1e-9, figures[f"memory_gib_{fastest}"]))


def measure_mixed(results: Results, scale: Scale, device: torch.device, peers: Sequence[str]) -> None:
    """Documents of mixed lengths."""
    store = mixed_documents(scale)
    with results.part("mixed"):
        tokens_s, waited = our_rate(scale, store, "closed", device)
        results.add(tokens_s_mixed=tokens_s, memory_gib_mixed=peak_gib(), data_wait_mixed=waited)
    keys = []
    for name, way in (("plain", "sorted"), ("plain", "one_shape"), ("transformers", "sorted")):
        if name not in peers:
            continue
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


def measure_generate(results: Results, scale: Scale, device: torch.device, peers: Sequence[str]) -> None:
    """Greedy continuations of equal length."""
    random = np.random.default_rng(0)
    for batch in scale.batches:
        prompts = random.integers(FIRST_PIECE, scale.vocabulary, (batch, scale.prompt)).tolist()
        ours = f"generate_s_batch{batch}"
        with results.part(f"generate_{batch}"):
            results.add(**{ours: per_second(our_generation(scale, prompts, device))})
        for way, ratio in (("dynamic", f"ratio_generate_batch{batch}"), ("static", f"ratio_static_batch{batch}")):
            with results.part(f"generate_{batch}_{way}"):
                theirs = per_second(their_generation(scale, prompts, device, way == "static"))
                results.add(**{f"{ours}_{way}": theirs})
            _ratio(results, ratio, ours, [f"{ours}_{way}"])


def measure_lstm(results: Results, tiny: bool, device: torch.device) -> None:
    """Two layers of LSTM cells, softmax included."""
    scale = TINY_LSTM if tiny else FULL_LSTM
    text = np.random.default_rng(0).integers(FIRST_PIECE, scale.vocabulary, scale.segments * scale.tokens + 1)
    with results.part("lstm"):
        rate = our_lstm_rate(scale, TokenStore.of(text=[text.tolist()]), device)
        results.add(tokens_s_lstm=rate, memory_gib_lstm=peak_gib())
    ways = {"float32": False, "autocast": True}
    for name, autocast in ways.items():
        with results.part(f"lstm_{name}"):
            theirs = example_rate(scale, device, autocast)
            results.add(**{f"tokens_s_lstm_{name}": theirs, f"memory_gib_lstm_{name}": peak_gib()})
    _ratio(results, "ratio_lstm", "tokens_s_lstm", [f"tokens_s_lstm_{name}" for name in ways])


MEASURED = {"train": measure_train, "mixed": measure_mixed, "generate": measure_generate}


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help="what to measure; by default everything")
    parser.add_argument("--merge", action="store_true", help="keep what is recorded and not measured again")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the program out; records nothing")
    parser.add_argument("--peers", default=",".join(PEERS), help="whom to train beside ours; by default all")
    options = parser.parse_args()
    peers = choose_names(parser, "--peers", options.peers, tuple(PEERS))
    scale, device = TINY if options.tiny else FULL, choose_device("auto")
    results = Results("gpt_gpu", None if options.tiny else options.results, options.merge)
    for part in choose_names(parser, "--parts", options.parts, PARTS):
        if part == "lstm":
            measure_lstm(results, options.tiny, device)
        else:
            MEASURED[part](results, scale, device, peers)
    results.exit()


if __name__ == "__main__":
    main()
