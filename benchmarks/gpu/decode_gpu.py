"""Translation speed on one GPU: ours against transformers' MarianMT, on the same sentences in one run.

    python -m benchmarks.gpu.decode_gpu [--parts speed,agreement,model] [--merge] [--tiny]
                                    [--model FOLDER --sources FILE --references FILE]

The model is Transformer-base with random weights. Both sides read 27 tokens, `</s>` included, and put out exactly 30:
256 sentences or one with a beam of 4, and 256 greedily; in bfloat16, and in float32 (where keys end in `_float32`).
Tokens are sentences times 30. The reference is our search without its fast engine: in float32 both should find the
same. With a trained model its BLEU and sentences per second are measured too: fast in float32 and in bfloat16, and by
the reference in float32.
"""

import argparse
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from benchmarks.shared.gpu_work import FIRST_PIECE, Results, Shape, choose_names, rate
from torch import Tensor, nn

from heedful.base.devices import choose_device
from heedful.data.corpora.formats.lines import read_lines
from heedful.data.tokenize.tokenizer import END
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import text_queries
from heedful.decode.scorer import SingleModel
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.metrics.recorded_results import RESULTS
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import set_precision, store_in
from heedful.nn.kernels import without_kernels
from heedful.nn.layers.embedding import Embedding, Output

SOURCE, OUTPUT = 27, 30  # tokens, `</s>` included
DECISIVE = 3.0  # the vocabularies' vectors are longer by this: where scores nearly tie, rounding decides what is found
PRECISIONS = {"": torch.bfloat16, "_float32": torch.float32}  # by what keys end in


@dataclass(frozen=True)
class Scale:
    """The sizes of everything in the benchmark."""

    shape: Shape
    batch: int
    warm: int
    repeats: int


FULL = Scale(Shape(), batch=256, warm=2, repeats=5)
TINY = Scale(Shape(32, 64, 2, 1, 100), batch=4, warm=1, repeats=1)


@dataclass(frozen=True)
class Case:
    """How many sentences at once, and how they are searched."""

    batch: int
    beam: int

    @property
    def name(self) -> str:
        return f"batch{self.batch}_" + ("greedy" if self.beam == 1 else f"beam{self.beam}")

    @property
    def tokens(self) -> int:
        return self.batch * OUTPUT


def cases(scale: Scale) -> list[Case]:
    return [Case(scale.batch, 4), Case(1, 4), Case(scale.batch, 1)]


def sources(scale: Scale, count: int) -> Tensor:
    """Random sentences without `</s>`."""
    draw = torch.Generator().manual_seed(0)
    return torch.randint(FIRST_PIECE, scale.shape.vocabulary, (scale.batch, SOURCE - 1), generator=draw)[:count]


# --- ours -------------------------------------------------------------------------------------------------------------


def translator(scale: Scale, precision: torch.dtype, device: torch.device) -> SingleModel:
    """A random model that puts out different sentences. With one tied matrix it would repeat one piece for ever; three
    matrices cost a step the same."""
    torch.manual_seed(0)
    config = scale.shape.ours(0.0).model_copy(update={"tie": "none"})
    model = build_model(config, scale.shape.vocabulary, scale.shape.vocabulary).to(device).eval()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, Embedding | Output):
                module.weight.mul_(DECISIVE)
    store_in(model, precision)  # as `heedful.load` does
    set_precision(model, precision)
    return SingleModel(model)


def found(model: SingleModel, pieces: Sequence[Sequence[int]], beam: int) -> list[Hypothesis]:
    """The best of each sentence, all of them in one batch."""
    settings = SearchSettings(beam=beam, min_length=OUTPUT - 1, max_extra=OUTPUT - (SOURCE - 1))
    queries = text_queries(pieces, settings.max_extra)
    return [best for best, *_ in search(model, queries, settings, batch_tokens=len(pieces) * beam * SOURCE)]


def our_rate(model: SingleModel, scale: Scale, case: Case) -> float:
    pieces = sources(scale, case.batch).tolist()

    def step() -> int:
        if any(hypothesis.length != OUTPUT for hypothesis in found(model, pieces, case.beam)):
            raise ValueError(f"a translation has not {OUTPUT} tokens")
        return case.tokens

    return rate(step, warm=scale.warm, stretches=scale.repeats)


# --- the peer ---------------------------------------------------------------------------------------------------------


def marian(scale: Scale, precision: torch.dtype, device: torch.device) -> nn.Module:
    torch.manual_seed(0)
    return scale.shape.marian(0.0).to(device, precision).eval()


def marian_rate(model: nn.Module, scale: Scale, case: Case, device: torch.device) -> float:
    ids = torch.nn.functional.pad(sources(scale, case.batch), (0, 1), value=END).to(device)
    mask = torch.ones_like(ids)

    @torch.inference_mode()
    def step() -> int:
        put_out: Tensor = model.generate(  # type: ignore[operator]
            input_ids=ids, attention_mask=mask, num_beams=case.beam, do_sample=False,
            min_new_tokens=OUTPUT, max_new_tokens=OUTPUT,
        )  # fmt: skip
        if put_out.shape != (case.batch, OUTPUT + 1):  # the first is what it begins with
            raise ValueError(f"MarianMT put out {tuple(put_out.shape)}")
        return case.tokens

    return rate(step, warm=scale.warm, stretches=scale.repeats)


# --- the parts --------------------------------------------------------------------------------------------------------


def measure_speed(results: Results, scale: Scale, device: torch.device) -> None:
    for ending, precision in PRECISIONS.items():
        with results.part(f"ours{ending}"):
            model = translator(scale, precision, device)
            for case in cases(scale):
                results.add(**{f"tokens_s_{case.name}{ending}": our_rate(model, scale, case)})
        with results.part(f"marian{ending}"):
            peer = marian(scale, precision, device)
            for case in cases(scale):
                theirs = f"tokens_s_marian_{case.name}{ending}"
                results.add(**{theirs: marian_rate(peer, scale, case, device)})
                results.ratio(f"ratio_{case.name}{ending}", f"tokens_s_{case.name}{ending}", theirs)
        with results.part(f"reference{ending}"), without_kernels():
            model = translator(scale, precision, device)
            for case in cases(scale):
                results.add(**{f"tokens_s_reference_{case.name}{ending}": our_rate(model, scale, case)})


def measure_agreement(results: Results, scale: Scale, device: torch.device) -> None:
    """How many sentences have the same tokens by the fast engine and by the reference, both in float32."""
    for beam, key in ((4, "same_tokens_float32"), (1, "same_tokens_float32_greedy")):
        with results.part(key):
            model, pieces = translator(scale, torch.float32, device), sources(scale, scale.batch).tolist()
            fast = found(model, pieces, beam)
            with without_kernels():
                plain = found(model, pieces, beam)
            pieces_found = {token for hypothesis in plain for token in hypothesis.tokens}
            distinct = len({hypothesis.tokens for hypothesis in plain})
            results.say(
                f"{key}: of {len(plain)}, {distinct} of them distinct, with {len(pieces_found):,} pieces in all"
            )
            pairs = list(zip(fast, plain, strict=True))
            results.add(**{key: sum(one.tokens == other.tokens for one, other in pairs)})
            largest = max(abs(one.log_probability - other.log_probability) for one, other in pairs)
            results.add(**{f"{key}_log_probability_difference": largest})


def measure_model(
    results: Results, folder: Path, texts: Sequence[str], references: Sequence[str], device: torch.device
) -> None:
    """BLEU and speed of a trained model, and the share of its translations that the reference search finds too."""
    from heedful.tasks.translate.model import Translator

    ways: dict[str, tuple[str, Callable[[], AbstractContextManager[None]]]] = {
        "reference": ("float32", without_kernels),
        "float32": ("float32", nullcontext),
        "bf16": ("bfloat16", nullcontext),
    }
    plain: tuple[str, ...] = ()
    for name, (precision, around) in ways.items():
        with results.part(f"model_{name}"), around():
            model = Translator.load(folder, device.type, precision)
            model.translate(texts[:64] if name == "reference" else texts)  # to warm up
            judged = model.evaluate_rows(list(zip(texts, references, strict=True)))
            plain = judged.translations if name == "reference" else plain
            results.add(**{f"bleu_{name}": judged.bleu.score, f"sentences_s_{name}": judged.sentences / judged.seconds})
            if plain and name != "reference":
                same = sum(one == other for one, other in zip(judged.translations, plain, strict=True))
                results.add(**{f"same_as_reference_{name}": same / len(plain)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="speed,agreement,model", help="some of speed, agreement, model")
    parser.add_argument("--model", type=Path, help="a trained model to judge")
    parser.add_argument("--sources", type=Path, help="what it translates")
    parser.add_argument("--references", type=Path, help="what its translations are compared with")
    parser.add_argument("--merge", action="store_true", help="keep what is recorded and not measured again")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the program out; records nothing")
    options = parser.parse_args()
    parts = choose_names(parser, "--parts", options.parts, ("speed", "agreement", "model"))
    files = (options.model, options.sources, options.references)
    if any(files) and not all(files):
        parser.error("--model, --sources and --references belong together")
    scale, device = TINY if options.tiny else FULL, choose_device("auto")
    results = Results("decode_gpu", None if options.tiny else options.results, options.merge)
    if "speed" in parts:
        measure_speed(results, scale, device)
    if "agreement" in parts:
        measure_agreement(results, scale, device)
    if "model" in parts and options.model:
        texts, references = (list(read_lines(file)) for file in (options.sources, options.references))
        measure_model(results, options.model, texts, references, device)
    results.exit()


if __name__ == "__main__":
    main()
