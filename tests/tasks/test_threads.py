"""Threads that share a model get the answers of one thread: of every task and family, with all kinds of calls mixed."""

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pytest
import torch
from tests.shared.covering import one_in

import heedful
from heedful.config.tokenizer import Words
from heedful.data.tokenize.encoding import KnownWords
from heedful.data.tokenize.training import train_tokenizer
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.nn.layers.positions import Sinusoidal
from heedful.tasks.tag.data import WordPieces

BUNDLES = Path(__file__).parents[1] / "golden/bundles"
THREADS = 8
TEXTS = ("The film was great. The cast was funny.", "The ending was dull.", "A story")
SOURCES = ("the dog sees the tree today.", "a bird likes a small fish.")
REPORT = "On Monday, Clara Dale found 17 keys in the cave. It was Emil Holm who hid two cups at the zoo in June."
IMAGE = np.fromfunction(lambda y, x, c: (7 * y + 5 * x + 60 * c) % 256, (40, 48, 3)).astype(np.uint8)
DRAWN = heedful.Sampling(seed=3)
Calls = Mapping[str, Callable[[Any], Any]]


def vectors(made: Any) -> Any:
    return np.asarray(made).tolist()


def explained(*inputs: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda model: model.explain(*inputs, **options).to_json(gates=True, states=True)


def evaluated(*rows: Any) -> Callable[[Any], Any]:
    """Everything but the time that it took."""
    return lambda model: {key: one for key, one in model.evaluate(list(rows)).to_json().items() if "second" not in key}


def to_one(model: Any) -> dict[str, str]:
    """The language of a model that translates into several."""
    return {"to": "de"} if model.recipe.rules.name == "translate" and model.vocabularies["source"].tags else {}


TRANSLATING: Calls = {
    "translate": lambda model: model.translate(SOURCES, beam=2, max_extra=3, **to_one(model)),
    "sample": lambda model: model.translate(
        SOURCES[0], sampling=heedful.Sampling(seed=3), max_extra=3, **to_one(model)
    ),
    "score": lambda model: [
        [*pair.log_probabilities] for pair in model.score(SOURCES, ["der Hund", "ein Vogel"], *to_one(model).values())
    ],
    "embed": lambda model: vectors(model.embed(SOURCES, **to_one(model))),
    "explain": lambda model: explained(SOURCES[1], "ein Vogel", gradients=True, **to_one(model))(model),
    "silence": lambda model: silenced(model),
}
CLASSIFYING: Calls = {
    "classify": lambda model: [dict(one.probabilities) for one in model.classify(TEXTS)],
    "evaluate": lambda model: evaluated(*((text, model.labels[0]) for text in TEXTS))(model),
    "embed": lambda model: vectors(model.embed(TEXTS)),
    "explain": explained(TEXTS[0], gradients=True),
}
OF_PAIRS: Calls = {
    "classify": lambda model: [dict(one.probabilities) for one in model.classify(TEXTS, TEXTS)],
    "explain": explained(TEXTS[0], TEXTS[1], gradients=True),
}
TAGGING: Calls = {
    "tag": lambda model: [one.probabilities for one in model.tag(["a bird likes the songs .", "now the girl"])],
    "explain": explained("the dog sees a fish .", gradients=True),
}
GENERATING: Calls = {
    "generate": lambda model: model.generate(["The dog", "A bird likes"], max_tokens=5, temperature=0),
    "sample": lambda model: model.generate("The dog", max_tokens=5, seed=4),
    "evaluate": evaluated("The dog sees a house.", "A bird hears the tree."),
    "explain": explained("The dog sees a house.", gradients=True),
}
CAPTIONING: Calls = {
    "caption": lambda model: model.caption([IMAGE], beam=2, max_extra=3),
    "explain": explained(IMAGE, max_extra=2),
}
REGRESSING: Calls = {"regress": lambda model: model.regress(TEXTS), "explain": explained(TEXTS[0], gradients=True)}
ASKED: Mapping[str, Calls] = {
    "transformer": TRANSLATING,
    "transformer-int8": TRANSLATING,
    "recurrent-bahdanau": TRANSLATING,
    "classifier-hierarchical": CLASSIFYING,
    "tagger-recurrent-letters-crf": TAGGING,
    "language-recurrent": GENERATING,
    "bert": {
        "fill": lambda model: [one.text for one in model.fill(["The dog [MASK] the tree.", "A [MASK] likes it."])],
        "evaluate": evaluated(*["The dog sees a house today. A bird hears the tree. It is small."] * 2),
        "embed": lambda model: vectors(model.embed(TEXTS)),
        "explain": explained("The dog [MASK] the tree.", gradients=True),
    },
    "reader": {
        "answer": lambda model: [
            (span.start, span.probability) for span in model.answer("Who found keys?", REPORT).spans
        ],
        "explain": explained(REPORT, "Who found keys?", gradients=True),
    },
    "parser": {
        "parse": lambda model: [str(tree) for tree in model.parse(["the dog sees a fish", "now"], beam=2)],
        "explain": explained("the dog sees a fish"),
    },
    "regressor-bag": REGRESSING,
    "images-vit": {
        "classify": lambda model: dict(model.classify(IMAGE).probabilities),
        "embed": lambda model: vectors(model.embed([IMAGE])),
        "explain": explained(IMAGE, gradients=True),
    },
    "images-numbers": {"regress": lambda model: model.regress([IMAGE]), "explain": explained(IMAGE)},
    "answers-about-images": {
        "answer": lambda model: dict(model.answer("is there a red circle ?", IMAGE).probabilities),
        "explain": explained(IMAGE, "is there a red circle ?"),
    },
    "captions-recurrent": CAPTIONING,
}
OTHERS: Mapping[str, Calls] = {
    **dict.fromkeys(
        (
            "transformer-additive-entmax", "transformer-alibi-sparsemax", "transformer-kernel", "transformer-languages",
            "transformer-pre-norm-rope-separate", "transformer-relative-silu", "mixed", "recurrent-cho",
            "recurrent-luong-local", "recurrent-sutskever",
        ),
        TRANSLATING,
    ),
    **dict.fromkeys(
        ("classifier-attention-pools", "classifier-bag", "classifier-bert-several", "classifier-transformer"),
        CLASSIFYING,
    ),
    **dict.fromkeys(
        ("classifier-alternating-pairs", "classifier-gpt-pairs", "classifier-parallel-pairs",
         "classifier-recurrent-pairs"),
        OF_PAIRS,
    ),
    **dict.fromkeys(("language-llama", "language-transformer"), GENERATING),
    "regressor-parallel-pairs": {
        "regress": lambda model: model.regress(TEXTS, TEXTS),
        "explain": explained(TEXTS[0], TEXTS[1], gradients=True),
    },
    "tagger-transformer": TAGGING,
    "images-convolutional": ASKED["images-vit"],
    "captions-transformer": CAPTIONING,
}  # fmt: skip


def silenced(model: Any) -> Any:
    """What a model translates without its first head between texts; a recurrent one has none."""
    if model.recipe.model.family != "transformer":
        return None
    with model.silenced(("cross", 0, 0)):
        return model.translate(SOURCES, beam=1, max_extra=3, **to_one(model))


def dropping(name: str) -> Any:
    """An old model that would drop half of everything, if it were in training mode."""
    model = heedful.load(BUNDLES / name, device="cpu", precision="float32")
    for module in model.network.modules():
        for share in ("share", "dropout"):
            if isinstance(getattr(module, share, None), float):
                setattr(module, share, 0.5)
    return model


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Let threads take turns fifty times as often as they do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def answer_differently(name: str, calls: Calls, rounds: int) -> list[str]:
    """Ask in threads, each in an order of its own; return the calls whose answers are not those of one thread."""
    model, begin = dropping(name), Barrier(THREADS)
    alone = {call: repr(ask(model)) for call, ask in calls.items()}  # in which NaN is NaN

    def ask_all(thread: int) -> list[str]:
        order = [*calls] * rounds
        random.Random(thread).shuffle(order)
        begin.wait()
        return [call for call in order if repr(calls[call](model)) != alone[call]]

    with ThreadPoolExecutor(THREADS) as pool:
        found = [call for wrong in pool.map(ask_all, range(THREADS)) for call in wrong]
    assert not any(module.training or module._forward_hooks for module in model.network.modules())
    return found


@pytest.mark.parametrize("name", ASKED)
def test_threads_that_share_a_model_get_the_answers_of_one(name: str, many_switches: None) -> None:
    assert answer_differently(name, ASKED[name], rounds=1) == []


@pytest.mark.wide
@pytest.mark.parametrize("name", [*ASKED, *OTHERS])
def test_many_calls_of_threads_get_the_answers_of_one(name: str, many_switches: None) -> None:
    assert answer_differently(name, {**ASKED, **OTHERS}[name], rounds=3) == []


def test_every_old_model_is_asked_in_threads() -> None:
    assert {*ASKED, *OTHERS} == {folder.name for folder in BUNDLES.iterdir() if folder.is_dir()}


# --- the mode of a network --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", one_in(12, sorted({*ASKED, *OTHERS})))
def test_a_loaded_network_is_in_evaluation_mode(name: str) -> None:
    network = heedful.load(BUNDLES / name, device="cpu").network
    assert not any(module.training for module in network.modules())


def test_inference_leaves_training_mode_for_good() -> None:
    model = dropping("transformer")
    alone = model.translate(SOURCES, beam=1)
    model.network.train()
    assert model.translate(SOURCES, beam=1) == alone
    assert not any(module.training for module in model.network.modules())


def test_a_call_that_ends_does_not_switch_dropout_on_under_another() -> None:
    network = dropping("transformer").network.train()
    with evaluation_mode(network):
        with evaluation_mode(network):
            pass
        assert not network.training


# --- tables that grow while threads read them -------------------------------------------------------------------------


def test_a_table_of_positions_may_be_replaced_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    positions, rows = Sinusoidal(8, expected=4), Sinusoidal._rows

    def outrun(table: Sinusoidal, count: int) -> torch.Tensor:
        """Make rows, and let a thread with a shorter sentence put its shorter table in place meanwhile."""
        made = rows(table, count)
        monkeypatch.setattr(Sinusoidal, "_rows", rows)
        other = Thread(target=lambda: table(torch.arange(5), 5))
        other.start()
        other.join()
        return made

    monkeypatch.setattr(Sinusoidal, "_rows", outrun)
    assert torch.equal(positions(torch.arange(20), 20), rows(positions, 20))
    assert torch.equal(positions(torch.arange(30), 30), rows(positions, 30))


def test_words_that_another_thread_forgets_are_still_known_to_the_call_that_learned_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer = train_tokenizer(Words(kind="word"), ["a b c d"])
    known, encode, texts = KnownWords(tokenizer, room=0), tokenizer.encode_batch, ["a b", "b c"]
    monkeypatch.setattr("heedful.tasks.tag.data._ROOM", 0)
    pieces = WordPieces(tokenizer)
    expected = known.encode(texts), pieces.encode([text.split() for text in texts])
    others = iter([lambda: known.encode(["d"]), lambda: pieces.encode([["d"]])])

    def meanwhile(batch: list[str]) -> list[list[int]]:
        other = next(others, None)
        if other is not None:
            monkeypatch.setattr(type(tokenizer), "encode_batch", staticmethod(encode))
            thread = Thread(target=other)
            thread.start()
            thread.join()
            monkeypatch.setattr(type(tokenizer), "encode_batch", lambda _, texts: meanwhile(texts))
        return encode(batch)

    monkeypatch.setattr(type(tokenizer), "encode_batch", lambda _, texts: meanwhile(texts))
    assert (known.encode(texts), pieces.encode([text.split() for text in texts])) == expected


# --- training next to inference ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", one_in(9, sorted({*ASKED, *OTHERS})))
def test_loading_a_model_draws_nothing_from_the_global_generator(name: str) -> None:
    before = torch.get_rng_state()
    heedful.load(BUNDLES / name, device="cpu")
    assert torch.equal(torch.get_rng_state(), before)


def test_training_and_the_use_of_another_model_do_not_disturb_each_other(tmp_path: Path) -> None:
    recipe = {
        "data": {"batch_tokens": 64},
        "tokenizer": {"kind": "word"},
        "model": {"family": "transformer", "width": 16, "heads": 2, "layers": 1, "inner": 16, "dropout": 0.3},
        "train": {"steps": 12, "precision": "float32", "device": "cpu", "threads": 1, "report": False},
    }
    texts = [f"{a} {b} {c}" for a in ("the", "a") for b in ("dog", "cat", "bird") for c in ("sees", "hears")]
    pairs = [(text, " ".join(reversed(text.split()))) for text in texts]

    def train(folder: str) -> bytes:
        run = heedful.train(recipe, tmp_path / folder, train=pairs, valid=[], quiet=True)
        return (run.folder / "model.safetensors").read_bytes()

    model = dropping("transformer")
    alone, answered = train("alone"), repr(model.translate(SOURCES))
    with ThreadPoolExecutor(1) as pool:
        trained = pool.submit(train, "next to it")
        found = {repr(model.translate(SOURCES))}
        while not trained.done():
            found |= {repr(dropping("transformer").translate(SOURCES)), repr(model.translate(SOURCES))}
    assert found == {answered}
    assert trained.result() == alone
