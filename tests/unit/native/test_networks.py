"""What kernels compute is what the modules compute that they stand in for, in int8 and float32, for every family."""

from collections.abc import Sequence
from copy import deepcopy

import pytest
import torch
from tests.contract.families import FAMILIES, config_of
from tests.models.language import TRANSFORMERS as TRANSFORMERS_ALONE
from tests.models.language import language_model
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.query import text_queries
from heedful.decode.scorer import SingleModel
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.protocols import Decoder
from heedful.native.decoder import NativeDecoder, NativeState, native_decoder
from heedful.native.encoder import use_native_blocks
from heedful.native.floats import use_float_maps
from heedful.native.int8 import to_int8
from heedful.native.library import library

WORDS = 40
SOURCES = [[5, 9, 7, 12, 30, 31], [4], [8, 8, 10, 11, 6, 6, 6, 7, 9]]
BY_MODULES = {  # families whose decoders kernels cannot run, and why
    "post-alibi": "its attention adds to scores by position",
    "pre-alibi-three-heads": "its attention adds to scores by position",
    "post-relative": "its attention adds to scores by position",
    "pre-relative": "its attention adds to scores by position",
    "additive-entmax": "AlignedSelfAttention is not among their kinds of attention",
    "alignment-per-site": "AlignedSelfAttention is not among their kinds of attention",
}

PRECISIONS = ("int8", "float32")
BY_MODULES_ALONE = ("alibi", "relative", "additive", "area", "kernel", "entmax", "location")

pytestmark = pytest.mark.skipif(library() is None, reason="the kernels cannot be compiled here")


def place(network: nn.Module, precision: str) -> None:
    """Let kernels multiply."""
    if precision == "int8":
        to_int8(network)
    else:
        use_float_maps(network)


def translator(family: str, precision: str = "int8") -> EncoderDecoder:
    """A random translator for which kernels multiply, and do nothing else."""
    torch.manual_seed(0)
    network = build_model(config_of(family, 0.0), WORDS, WORDS).eval()
    with torch.no_grad():
        for parameter in network.parameters():  # so that zeros, such as biases and the weights of ReZero, count too
            parameter.add_(torch.randn_like(parameter) * 0.1)
    place(network, precision)
    return network


def packed(sources: Sequence[Sequence[int]]) -> Packed:
    return Packed.of([[*source, END] for source in sources])


def close(ours: Tensor, theirs: Tensor, precision: str, most: float = 1e-5) -> bool:
    """Equal but for rounding. Where it changes a number in int8, a row differs by some thousandths."""
    scale = float(theirs.abs().max())
    apart = (ours - theirs).abs() / scale
    return float(apart.median()) < most and float(apart.max()) < (0.03 if precision == "int8" else 1e-5)


def steps(decoder: Decoder, memory: Packed | None, prompt: Packed | None = None, beams: int = 3) -> list[Tensor]:
    """Scores of some steps, with rows that are reordered, and a sentence that leaves."""
    chance, found = torch.Generator().manual_seed(1), []
    with torch.no_grad():
        state = decoder.start(memory, beams, prompt=prompt)
        sentences = 3
        for step in range(9):
            tokens_R = torch.randint(4, WORDS, (sentences * beams,), generator=chance)
            logits_RV, state = decoder.step(torch.full_like(tokens_R, BEGIN) if step == 0 else tokens_R, state)
            found.append(logits_RV.clone())
            if step == 4:
                state, sentences = state.narrow(torch.tensor([2, 0])), 2
            state = state.reorder(torch.randint(beams, (sentences, beams), generator=chance))
    return found


TRANSFORMERS = [name for name, options in FAMILIES.items() if options.get("family", "transformer") == "transformer"]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("family", [*TRANSFORMERS, "lstm-to-transformer"])
def test_steps_of_kernels_are_steps_of_modules(family: str, precision: str) -> None:
    network = translator(family, precision)
    found = native_decoder(network.decoder)
    if family in BY_MODULES:
        assert found == BY_MODULES[family]
        return
    assert isinstance(found, NativeDecoder), found
    with torch.no_grad():
        memory = network.encoder(packed(SOURCES))
        assert isinstance(found.start(memory), NativeState)
    for ours, theirs in zip(steps(found, memory), steps(network.decoder, memory), strict=True):
        assert close(ours, theirs, precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("family", ["post-sinusoidal", "llama", "uneven-heads-radius", "tfixup-swiglu", "deepnorm"])
def test_blocks_of_kernels_are_blocks_of_modules(family: str, precision: str) -> None:
    network, native = translator(family, precision), translator(family, precision)
    assert not use_native_blocks(native)
    with torch.no_grad():
        ours, theirs = (model.encoder(packed(SOURCES)).values for model in (native, network))
    most = 5e-3 if family == "tfixup-swiglu" and precision == "int8" else 1e-5  # its first block has such numbers
    assert close(ours, theirs, precision, most)
    assert not torch.equal(ours, theirs) or family == "deepnorm"  # kernels add in another order: they did run


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("family", TRANSFORMERS_ALONE)
def test_prompts_and_steps_of_kernels_are_those_of_modules(family: str, beams: int, precision: str) -> None:
    network = deepcopy(language_model(family, WORDS)).float()
    set_precision(network, torch.float32)
    place(network, precision)
    found = native_decoder(network.decoder)
    if family in BY_MODULES_ALONE:
        assert isinstance(found, str)
        return
    assert isinstance(found, NativeDecoder), found
    prompts = Packed.of([[BEGIN, 5, 9, 7], [BEGIN], [BEGIN, 8, 8, 10, 11, 6]])
    ours, theirs = (steps(decoder, None, prompts, beams) for decoder in (found, network.decoder))
    assert all(close(each, other, precision) for each, other in zip(ours, theirs, strict=True))
    none = Packed.of([[], [], []])
    ours, theirs = (steps(decoder, None, none, beams) for decoder in (found, network.decoder))
    assert all(close(each, other, precision) for each, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("family", ["post-sinusoidal", "llama", "uneven-heads-radius"])
def test_a_sentence_alone_has_the_bits_that_it_has_in_a_batch_with_any_number_of_threads(
    family: str, beam: int, precision: str
) -> None:
    network = translator(family, precision)
    use_native_blocks(network)
    model, settings = SingleModel(network), SearchSettings(beam=beam, max_extra=8)

    def found(sources: Sequence[Sequence[int]]) -> list[tuple[tuple[int, ...], float]]:
        hypotheses = search(model, text_queries(sources, settings.max_extra), settings, batch_tokens=10_000)
        return [(tuple(best.tokens), best.score) for best, *_ in hypotheses]

    many = [[4 + (3 * i + j * j) % 30 for j in range(1 + i % 7)] for i in range(40)]
    together, before = found(many), torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            assert [*found(many[:1]), *found(many[1:3]), *found(many[3:20]), *found(many[20:])] == together
    finally:
        torch.set_num_threads(before)
