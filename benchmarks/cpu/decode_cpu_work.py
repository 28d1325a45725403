"""Our side of benchmarks.cpu.decode_cpu: the sizes of everything, networks with random weights, and engines."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast
from unittest.mock import patch

import numpy as np
import torch
from benchmarks.cpu.decode_cpu_engines import Answering
from benchmarks.gpu import decode_gpu, gpt_gpu_work
from benchmarks.shared.gpu_work import FIRST_PIECE, Shape
from torch import Tensor, nn

from heedful.base.files import read_json
from heedful.base.packed import Packed
from heedful.config.model.encoder_only import BertModel
from heedful.data.epochs.plan import batches_by_length
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.query import Query
from heedful.decode.scorer import SingleModel
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.models.from_recipe.encoder_only import build_masked_model
from heedful.models.from_recipe.language import build_language_model
from heedful.models.networks import EncoderDecoder, LanguageModel
from heedful.models.transformer.blocks import DecoderBlock
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.nn.layers.feedforward import FeedForward
from heedful.nn.layers.linear import Linear
from heedful.nn.layers.pooling import MeanPool
from heedful.nn.layers.positions import Learned
from heedful.tasks.shared.embeddings import states_of
from heedful.tasks.shared.loaded_model import Placement

CPU = torch.device("cpu")
LENGTH = decode_gpu.OUTPUT  # of every output, `</s>` included
VECTOR_BATCH = 4096  # tokens of a batch of texts


@dataclass(frozen=True)
class Scale:
    """The sizes of everything in the benchmark."""

    translator: decode_gpu.Scale
    language: gpt_gpu_work.Scale
    bert: dict[str, Any]
    bert_vocabulary: int
    prompt: int
    generated: int
    texts: int
    text: tuple[int, int]  # tokens of a text, at least and at most
    rounds: int


FULL = Scale(
    decode_gpu.Scale(Shape(), batch=64, warm=1, repeats=1),
    gpt_gpu_work.FULL,
    {"preset": "base"},
    30_522,
    prompt=32,
    generated=64,
    texts=256,
    text=(14, 26),
    rounds=5,
)
TINY = Scale(
    decode_gpu.Scale(Shape(32, 64, 2, 1, 100), batch=4, warm=1, repeats=1),
    gpt_gpu_work.TINY,
    {"width": 32, "heads": 2, "layers": 2, "inner": 64, "max_positions": 64},
    100,
    prompt=8,
    generated=8,
    texts=8,
    text=(3, 9),
    rounds=1,
)

Network = TypeVar("Network", bound=nn.Module)


def scale_of(tiny: bool) -> Scale:
    """The sizes that were asked for."""
    return TINY if tiny else FULL


def in_precision(network: Network, precision: str) -> Network:
    """Let a network compute as a model that is loaded with this precision."""
    Placement.of("cpu", precision).put(network)
    return network


# --- networks ---------------------------------------------------------------------------------------------------------


def translator(tiny: bool) -> EncoderDecoder:
    """A translator whose outputs differ, with the same weights in every process."""
    model = decode_gpu.translator(scale_of(tiny).translator, torch.float32, CPU).model
    assert isinstance(model, EncoderDecoder)
    return model


def language_scale(tiny: bool) -> gpt_gpu_work.Scale:
    """The sizes of the language model."""
    return scale_of(tiny).language


def language_model(tiny: bool) -> LanguageModel:
    """A language model, with the same weights in every process."""
    torch.manual_seed(0)
    scale = language_scale(tiny)
    return build_language_model(scale.model, scale.vocabulary).eval()


def random_ids(count: int, lengths: tuple[int, int], vocabulary: int) -> list[list[int]]:
    """Random texts, without markers."""
    draw = np.random.default_rng(0)
    sizes = draw.integers(lengths[0], lengths[1] + 1, count)
    return [draw.integers(FIRST_PIECE, vocabulary, size).tolist() for size in sizes]


# --- engines ----------------------------------------------------------------------------------------------------------


def translate_ids(threads: int, precision: str, tiny: bool) -> Answering:
    """Translate the first sentences, all of them in one batch, to outputs of one length."""
    torch.set_num_threads(threads)
    scale = scale_of(tiny).translator
    model = SingleModel(in_precision(translator(tiny), precision))
    pieces = decode_gpu.sources(scale, scale.batch).tolist()

    def answer(case: Any) -> list[list[int]]:
        found = decode_gpu.found(model, pieces[: case["batch"]], case["beam"])
        if any(hypothesis.length != LENGTH for hypothesis in found):
            raise ValueError(f"a translation has not {LENGTH} tokens")
        return [[*each.tokens, END] if each.complete else list(each.tokens) for each in found]

    return answer


def translate_file(threads: int, model: str, precision: str, beam: int, penalty: float, listed: bool) -> Answering:
    """Translate a file of texts by `heedful translate`, without the start of a process and the loading of the model.

    Where they are translated one by one, `Translator.translate` does it.
    """
    from heedful.cli.main import run
    from heedful.tasks.translate.model import Translator

    torch.set_num_threads(threads)
    loaded = Translator.load(model, "cpu", precision)
    patch.object(Translator, "load", return_value=loaded).start()
    # CTranslate2 divides by a power of the length: this penalty is the closest to it.
    settings = [
        "--device", "cpu", "--precision", precision, "--beam", str(beam), "--length-penalty", str(penalty),
        "--length-penalty-kind", "shifted",
    ]  # fmt: skip
    settings += ["--shortlist"] if listed else []
    penalized: dict[str, Any] = {"length_penalty": penalty, "length_penalty_kind": "shifted"}

    def one(line: str) -> str:
        return loaded.translate(line, beam=beam, shortlist=listed, **penalized)

    def answer(case: Any) -> None:
        if case["alone"]:
            lines = Path(case["sources"]).read_text(encoding="utf-8").splitlines()
            Path(case["out"]).write_text("".join(f"{one(line)}\n" for line in lines), encoding="utf-8")
            return
        code = run(["--quiet", "translate", model, case["sources"], "--output", case["out"], *settings])
        if code:
            raise RuntimeError(f"heedful translate ended with {code}")

    return answer


def continue_ids(threads: int, precision: str, prompts: str, generated: int, tiny: bool) -> Answering:
    """Continue the first prompts of a file of ids, greedily."""
    torch.set_num_threads(threads)
    model = SingleModel(in_precision(language_model(tiny), precision))
    ids: Any = read_json(Path(prompts))
    queries = [Query(each, generated, (), number) for number, each in enumerate(ids)]
    settings = SearchSettings(beam=1, min_length=generated - 1)

    def answer(case: Any) -> list[list[int]]:
        asked = queries[: case["batch"]]
        found = search(model, asked, settings, len(asked) * (len(ids[0]) + generated))
        if any(best.length != generated for best, *_ in found):
            raise ValueError(f"a continuation has not {generated} tokens")
        return [[*best.tokens, END] if best.complete else list(best.tokens) for best, *_ in found]

    return answer


def vectors(threads: int, precision: str, tiny: bool) -> Answering:
    """Embed texts as `heedful embed` does: the mean of the vectors of their tokens."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    scale = scale_of(tiny)
    network = build_masked_model(BertModel(family="bert", **scale.bert), scale.bert_vocabulary).eval()
    encoder = in_precision(network, precision).encoder
    texts = [[BEGIN, *ids, END] for ids in random_ids(scale.texts, scale.text, scale.bert_vocabulary)]

    @torch.inference_mode()
    def answer(case: Any) -> list[list[float]]:
        some, found = texts[: case["texts"]], dict[int, list[float]]()
        for rows in batches_by_length([np.array([len(text) for text in some])], batch_tokens=VECTOR_BATCH):
            means = embedded(encoder, [some[row] for row in rows])
            found.update(zip(rows.tolist(), means, strict=True))
        return [found[row] for row in range(len(some))]

    return answer


def embedded(encoder: nn.Module, texts: Sequence[Sequence[int]]) -> list[list[float]]:
    """The mean vector of the tokens of each text."""
    states = states_of(encoder, Packed.of(texts))
    means: list[list[float]] = MeanPool()(states.values.float(), states.layout).tolist()
    return means


def put_gpt2(network: LanguageModel, model: nn.Module) -> None:
    """Put the weights of a language model into a GPT2LMHeadModel of the same shape."""
    decoder = network.decoder
    assert isinstance(decoder, TransformerDecoder)
    positions = decoder.embedding.positions
    assert isinstance(positions, Learned)
    transformer: Any = model.get_submodule("transformer")
    pairs: list[tuple[nn.Module, nn.Module]] = [(decoder.final, transformer.ln_f)]
    for ours, theirs in zip(decoder.blocks, transformer.h, strict=True):
        block = cast(DecoderBlock, ours)
        network_of = cast(FeedForward, block.network)
        pairs += [
            (block.around_attention.before, theirs.ln_1),
            (block.attention.project, theirs.attn.c_attn),
            (block.attention.output, theirs.attn.c_proj),
            (block.around_network.before, theirs.ln_2),
            (network_of.into, theirs.mlp.c_fc),
            (network_of.out, theirs.mlp.c_proj),
        ]
    with torch.no_grad():
        transformer.wte.weight.copy_(decoder.embedding.weight)
        transformer.wpe.weight.copy_(positions.weight)
        for source, target in pairs:
            weight = cast(Tensor, source.weight)
            cast(Tensor, target.weight).copy_(weight.T if isinstance(source, Linear) else weight)
            cast(Tensor, target.bias).copy_(cast(Tensor, source.bias))
