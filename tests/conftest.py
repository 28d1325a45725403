"""What every test shares: shapes are checked types, one thread per worker, the same examples in every run."""

import gc
import itertools
import math
import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jaxtyping
import numpy as np
import pytest
import torch
from filelock import FileLock
from jaxtyping import install_import_hook
from tests.shared.covering import take_turns
from tests.shared.examples import load_profile
from tests.shared.shapes import WHOLE, SampledChecks

if TYPE_CHECKING:
    from heedful.data.tokenize.tokenizer import Tokenizer
    from heedful.models.networks import EncoderDecoder
    from heedful.tasks.translate.model import Translator

HAS_GPU = torch.cuda.is_available()
if not HAS_GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton: the kernels then run on the CPU
import_module("torch.nn.attention.varlen")  # under the hook it would be compiled from source in every run: 10 s

# Before anything imports them: from here on a wrong shape in a call is an error.
# Not the kernels: what Triton compiles has no types of Python.
NN = Path(__file__).parents[1] / "src/heedful/nn"
LAYERS = sorted(
    f"nn.{entry.stem}" for entry in NN.iterdir() if entry.stem not in ("kernels", "__init__", "__pycache__")
)
CHECKED = ("base.packed", *LAYERS, "models", "decode.constraints", "decode.frontiers", "decode.hypothesis",
           "decode.scorer", "decode.slots.beam", "decode.slots.frontier", "decode.slots.greedy")  # fmt: skip
install_import_hook([f"heedful.{module}" for module in CHECKED], "beartype.beartype")
SHAPES = SampledChecks()
jaxtyping._decorator.config = SHAPES  # type: ignore[attr-defined]  # what its decorator asks at every call

# A shell may hand down ignored signals, as `nohup` and `&` do: tests and the processes that they start would keep them.
if threading.current_thread() is threading.main_thread():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

DEADLINE = pytest.StashKey[float]()


# --- few kinds for each law -------------------------------------------------------------------------------------------

SWEPT = (
    "tests/contract/",
    "tests/numerics/",
    "tests/unit/decode/",
    "tests/unit/interop/bert/test_vocabulary.py",
    "tests/unit/interop/sentencepiece/test_tokenizer.py",
    "tests/unit/doctor/",
    "tests/unit/explain/test_",
    "tests/unit/lab/",
    "tests/unit/nn/",
    "tests/unit/runs/",
    "tests/unit/tasks/shared/",
    "tests/unit/training/test_truncated.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave most of the long sweeps to `make test-all`, before tests are selected by their marks.

    There properties are tried again, with all their examples.
    """
    take_turns(items, SWEPT)
    for item in items if is_wide(config) else ():
        if getattr(getattr(item, "function", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.wide)


def is_wide(config: pytest.Config) -> bool:
    """Whether this is the run of `make test-all`."""
    return bool(config.getoption("markexpr") == "wide")


def pytest_collection_finish() -> None:
    """Leave the thousands of tests, and all modules, out of every later search for garbage."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let everything go in the usual way: extensions complain of objects that are never freed."""
    gc.unfreeze()


# --- a time limit -----------------------------------------------------------------------------------------------------

NOT_RUN = "not run: the minutes of --minutes were over"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a wide sweep end in time on a machine that is slow or busy, and say what it left out."""
    parser.addoption("--minutes", type=float, help="skip what has not begun after this many minutes")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count, and choose how much is checked."""
    load_profile(few=not is_wide(config))
    SHAPES.whole = WHOLE if is_wide(config) else WHOLE // 2
    minutes = config.getoption("--minutes")
    config.stash[DEADLINE] = math.inf if minutes is None else time.monotonic() + 60 * minutes


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that begins too late."""
    if time.monotonic() > item.config.stash[DEADLINE]:
        pytest.skip(NOT_RUN)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests the time limit left out."""
    late = [report for report in terminalreporter.stats.get("skipped", []) if NOT_RUN in str(report.longrepr)]
    if late:
        terminalreporter.write_line(f"{len(late):,} tests were {NOT_RUN}", yellow=True)


# --- the same in every run --------------------------------------------------------------------------------------------


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Two workers of pytest-xdist share two cores; more threads would fight over them."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """A test draws the same numbers, and has the same calls checked, whatever ran before it."""
    if HAS_GPU:
        torch.manual_seed(0)
    else:  # torch.manual_seed would note the stack of calls for later: a millisecond in each of thousands of tests
        torch.default_generator.manual_seed(0)
    SHAPES.begin()


# --- folders ----------------------------------------------------------------------------------------------------------

FOLDERS = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder; pytest's own fixture reads the names of all others first, which adds up over thousands."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}-{next(FOLDERS)}"
    folder.mkdir(mode=0o700)
    return folder


# --- a trained model --------------------------------------------------------------------------------------------------

ANIMALS = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen")


def animal_sentences(count: int, seed: int = 0) -> list[str]:
    """One to six animals a sentence."""
    chance = random.Random(seed)
    return [" ".join(chance.choices(ANIMALS, k=chance.randint(1, 6))) for _ in range(count)]


def turned_round(sentence: str) -> str:
    """What the trained model is to make of a sentence."""
    return " ".join(reversed(sentence.split()))


@pytest.fixture(scope="session")
def sentences() -> Callable[[int], list[str]]:
    """Sentences that the trained model understands, most of which it never saw."""
    return animal_sentences


@pytest.fixture(scope="session")
def reverse() -> Callable[[str], str]:
    """What the trained model is to make of a sentence."""
    return turned_round


@pytest.fixture(scope="session")
def reversing_folder(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """A bundle of a tiny Transformer that learned in seconds to reverse the words of a sentence.

    Its recipe has two test corpora, the second with a name, and no validation corpus. Copy it to damage it.
    The workers of pytest-xdist share it: the first that needs it trains it.
    """
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "reversing"
    with FileLock(f"{home}.lock"):
        if not home.exists():
            home.mkdir()
            _train_reversing(home, home / "model")
    return home / "model"


def _train_reversing(texts: Path, bundle: Path) -> None:
    from heedful.config.corpora.containers import AlignedFiles
    from heedful.config.data import Data
    from heedful.config.decode import Decode
    from heedful.config.model.transformer import TransformerModel
    from heedful.config.recipe import Recipe
    from heedful.config.tokenizer import Words
    from heedful.data.tokenize.training import train_tokenizer
    from heedful.data.tokenize.vocabularies import Vocabularies
    from heedful.models.bundle import write_description, write_weights
    from heedful.models.from_recipe.network import build_model

    for name, count in (("first", 40), ("second", 10)):
        lines = animal_sentences(count, seed=count)
        (texts / f"{name}.in").write_text("\n".join(lines) + "\n")
        (texts / f"{name}.out").write_text("\n".join(map(turned_round, lines)) + "\n")
    corpora = (
        AlignedFiles(source="first.in", target="first.out"),
        AlignedFiles(name="second", source="second.in", target="second.out"),
    )
    recipe = Recipe(
        data=Data(folder=str(texts), train=corpora[:1], test=corpora),
        tokenizer=Words(kind="word"),
        model=TransformerModel(width=32, heads=2, layers=1, inner=64, dropout=0.0, norm="pre"),
        decode=Decode(max_extra=6),
    )
    tokenizer = train_tokenizer(recipe.tokenizer, ANIMALS)
    torch.manual_seed(1)
    model = build_model(recipe.pair_model, tokenizer.size, tokenizer.size)
    _learn_to_reverse(model, tokenizer, updates=300)
    write_description(bundle, recipe, Vocabularies({"source": tokenizer, "target": tokenizer}))
    write_weights(bundle, model)


def _learn_to_reverse(model: "EncoderDecoder", tokenizer: "Tokenizer", updates: int, batch: int = 48) -> None:
    from heedful.data.batches.pairs import collate
    from heedful.data.token_store import TokenStore
    from heedful.nn.losses.cross_entropy import smoothed_cross_entropy

    texts = animal_sentences(updates * batch, seed=1)
    pairs = TokenStore.of(
        source=tokenizer.encode_batch(texts), target=tokenizer.encode_batch([turned_round(text) for text in texts])
    )
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    output = model.decoder.output
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = 8e-3 * min(1, (update + 1) / 30) * (1 - update / updates)
        made = collate([pairs], np.arange(update * batch, (update + 1) * batch))
        states = model.states(made.source, made.target)
        loss, _ = smoothed_cross_entropy(states, output.weight, output.bias, made.labels, smoothing=0.0)
        optimizer.zero_grad()
        (loss / made.target_tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@pytest.fixture(scope="session")
def reversing(reversing_folder: Path) -> "Translator":
    """The model of `reversing_folder`, on the CPU."""
    from heedful.tasks.translate.model import Translator

    return Translator.load(reversing_folder, device="cpu")
