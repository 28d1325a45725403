"""Networks and tokenizers of one's own: trained, saved, loaded and resumed, and never imported from a recipe."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tokenizers
import torch
from tests.shared.refusals import refuses
from tests.unit.runs.python.test_own_metrics import CLASSIFIER, TEXTS
from tests.unit.runs.python.test_train import PAIRS, TINY
from tests.unit.runs.run_folders import Make, same_bits
from tokenizers import models, pre_tokenizers, trainers
from torch import Tensor, nn

import heedful
from heedful.base.errors import UserError
from heedful.base.packed import Packed
from heedful.cli.main import run as command
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.from_recipe.network import build_network
from heedful.models.own_parts import OwnParts, hand_over
from heedful.runs.run import choose_computation
from heedful.training.updates import CapturedUpdates, EagerUpdates


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


# --- networks ---------------------------------------------------------------------------------------------------------


class WordAverage(nn.Module):
    """The mean of the vectors of a text's words, and a linear layer."""

    def __init__(self, words: int, classes: int) -> None:
        super().__init__()
        self.words, self.output = nn.EmbeddingBag(words, 4), nn.Linear(4, classes)

    def forward(self, text: Packed) -> Tensor:
        scores_BC: Tensor = self.output(self.words(text.values, text.layout.offsets[:-1].long()))
        return scores_BC


def word_average(recipe: heedful.Recipe, vocabularies: Vocabularies) -> nn.Module:
    return WordAverage(vocabularies["text"].size, len(vocabularies.labels))


def test_a_network_of_ones_own_is_trained_saved_loaded_and_resumed() -> None:
    given: dict[str, Any] = {"train": TEXTS, "valid": TEXTS[:4], "network": word_average, "quiet": True}
    whole = heedful.train(CLASSIFIER, "whole", **given)
    heedful.train(CLASSIFIER, "run", {"train.steps": 2}, **given)
    rest = heedful.train(CLASSIFIER, "run", resume=True, **given)
    same_bits(whole / "model.safetensors", rest / "model.safetensors")
    model = heedful.load("run", device="cpu", network=word_average)
    assert isinstance(model.network, WordAverage)
    assert isinstance(model, heedful.TextClassifier)
    assert model.classify("ant bee").label in ("pos", "neg")
    with refuses("The network of this model is its program's own and has no pool: it has..."):
        model.weights("ant")
    with refuses("The network of this model is its program's own and has no `encoder`: it..."):
        model.embed("ant")
    assert isinstance(rest.model.network, WordAverage)
    assert json.loads((rest / "config.json").read_text())["network"] == "word_average"


def test_parts_of_the_usual_network_can_be_replaced() -> None:
    class Loud(nn.Module):
        """An encoder whose output is scaled."""

        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner, self.scale = inner, nn.Parameter(torch.ones(1))

        def forward(self, source: Packed) -> Packed:
            encoded: Packed = self.inner(source)
            return encoded.with_values(encoded.values * self.scale)

    def louder(recipe: heedful.Recipe, vocabularies: Vocabularies) -> nn.Module:
        network: Any = build_network(recipe.model, vocabularies)
        network.encoder = Loud(network.encoder)
        return network

    run = heedful.train(TINY, "run", train=PAIRS, valid=PAIRS[:5], network=louder, quiet=True)
    translated = heedful.load(run, device="cpu", network=louder).translate("1 2", max_extra=3)  # type: ignore[attr-defined]
    assert isinstance(translated, str)


def test_a_network_of_ones_own_must_be_passed_again(capsys: pytest.CaptureFixture[str]) -> None:
    given: dict[str, Any] = {"train": TEXTS, "valid": TEXTS[:4], "quiet": True}
    heedful.train(CLASSIFIER, "run", {"train.steps": 2}, network=word_average, **given)
    line = (
        "run has a network of the program that trained it (`word_average`): only `heedful.load(..., network=...)` and "
        "`heedful.train(..., network=...)` can use it."
    )
    for use in (heedful.load, heedful.TextClassifier.load, lambda folder: heedful.average([folder], "mean", last=1)):
        with refuses(line):
            use("run")
    assert command(["classify", "run", "--text", "ant"]) == 2
    assert line in capsys.readouterr().err
    with refuses("run was trained with `network=word_average`: pass it again, or train into..."):
        heedful.train(CLASSIFIER, "run", resume=True, **given)
    heedful.train(CLASSIFIER, "usual", {"train.steps": 2}, **given)
    with refuses("usual was trained without a..."):
        heedful.train(CLASSIFIER, "usual", resume=True, network=word_average, **given)
    with refuses("usual was trained without a network of its own: leave out `network`."):
        heedful.load("usual", network=word_average)
    with refuses("`network` cannot be combined with `train.start_from`, which has its own: l..."):
        heedful.train(CLASSIFIER, "tuned", {"train.start_from": "usual"}, network=word_average, **given)


def counting(recipe: heedful.Recipe, vocabularies: Vocabularies) -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (nn.Linear(2, 2), r"^`network` is Linear\(.*\), but must be a function of a recipe and its vocabularies that"),
        ("mine.network", r"^`network` is 'mine\.network', but must be a function"),
        (lambda recipe, vocabularies: None, r"^`network` returned None, but must return a module with parameters\.$"),
        (counting, r"^`network` returned a module with the buffer `1.running_mean`, but only parameters are saved: "),
    ],
)
def test_what_is_not_a_network_is_refused(network: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        heedful.train(CLASSIFIER, "run", train=TEXTS, network=network, quiet=True)
    assert not Path("run").exists()


def test_a_network_must_have_the_parts_that_its_task_uses() -> None:
    with refuses(
        "`network` returned a Linear without `encoder`, but a translator needs `encoder`, `decoder`, `output`, "
        "`next_token_states`, as those of `build_network` have."
    ):
        heedful.train(TINY, "run", train=PAIRS, network=lambda recipe, vocabularies: nn.Linear(2, 2), quiet=True)


@pytest.mark.parametrize(
    ("capture", "own", "usual"),
    [("auto", EagerUpdates, CapturedUpdates), (True, CapturedUpdates, CapturedUpdates), (False, EagerUpdates, None)],
)
def test_steps_of_a_network_of_ones_own_are_captured_and_compiled_only_on_request(
    make: Make, capture: Any, own: type, usual: type | None
) -> None:
    job: Any = SimpleNamespace(recipe=make(capture=capture), feed=SimpleNamespace(static="one shape"))
    assert usual is None or choose_computation(job) is usual
    with hand_over(OwnParts(network=word_average)):
        assert choose_computation(job) is own


# --- tokenizers -------------------------------------------------------------------------------------------------------


class Letters:
    """A tokenizer that is a Python object: every letter of an alphabet is a piece."""

    def __init__(self, alphabet: str) -> None:
        self.alphabet, self.size = alphabet, len(alphabet)
        self.fingerprint = hashlib.sha256(alphabet.encode()).hexdigest()

    def encode(self, text: str) -> list[int]:
        return [self.alphabet.index(letter) for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.alphabet[i] for i in ids)


LETTERS = Letters(" 123abcdefghijklmnopqrstuvwxyz")


def words() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.WordLevel(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.train_from_iterator(
        [text for pair in (*PAIRS, *TEXTS) for text in pair], trainers.WordLevelTrainer(special_tokens=["[UNK]"])
    )
    made.enable_truncation(1)  # a setting of the caller's program, not of the model
    return made


@pytest.mark.parametrize("tokenizer", [LETTERS, words()], ids=["object", "library"])
def test_a_tokenizer_of_ones_own_is_trained_with_saved_loaded_and_resumed(tokenizer: Any) -> None:
    given: dict[str, Any] = {"train": PAIRS, "valid": PAIRS[:5], "tokenizer": tokenizer, "quiet": True}
    whole = heedful.train(TINY, "whole", **given)
    heedful.train(TINY, "run", {"train.steps": 2}, **given)
    rest = heedful.train(TINY, "run", resume=True, **given)
    same_bits(whole / "model.safetensors", rest / "model.safetensors")
    model = heedful.load(rest, device="cpu", tokenizer=tokenizer)
    assert isinstance(model, heedful.Translator)
    used = model.vocabularies["source"]
    ids = used.encode("1 2")
    assert len(ids) == len("1 2" if tokenizer is LETTERS else ["1", "2"])
    assert min(ids) >= used.markers
    assert used.decode(ids) == "1 2"
    assert "".join(used.pieces(ids)) in ("1▁2", "12")
    assert used.words(ids)[-1] == 1
    assert set(model.translate("1 2", max_extra=4)) <= set(LETTERS.alphabet) | set("[UNK]")
    assert isinstance(rest.model, heedful.Translator)


def test_a_tokenizer_of_the_library_is_part_of_the_bundle() -> None:
    run = heedful.train(TINY, "run", train=PAIRS, valid=PAIRS[:5], tokenizer=words(), quiet=True)
    loaded = heedful.load("run", device="cpu")
    assert loaded.vocabularies["target"].decode(loaded.vocabularies["target"].encode("two one")) == "two one"
    assert (
        heedful.load("run", device="cpu", tokenizer=words()).vocabularies.first_difference(loaded.vocabularies) is None
    )
    other = tokenizers.Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    with refuses("`tokenizer` is not the one that the model was trained with (see run/token..."):
        heedful.load(run, tokenizer=other)


def test_an_object_must_be_passed_again_and_be_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    heedful.train(TINY, "run", {"train.steps": 2}, train=PAIRS, valid=PAIRS[:5], tokenizer=LETTERS, quiet=True)
    line = (
        "run/tokenizer.json is a tokenizer of the program that trained the model: only `heedful.load(..., "
        "tokenizer=...)` and `heedful.train(..., tokenizer=...)` can use it."
    )
    with refuses(line):
        heedful.load("run")
    assert command(["translate", "run", "--text", "1 2"]) == 2
    assert line in capsys.readouterr().err
    with refuses("`tokenizer` is not the one..."):
        heedful.load("run", tokenizer=Letters(LETTERS.alphabet[::-1]))
    assert heedful.Run("run").recipe.train.steps == 2


def test_another_tokenizer_never_meets_the_data_of_the_first() -> None:
    stores = []
    for number, alphabet in enumerate((LETTERS.alphabet, LETTERS.alphabet[::-1])):
        run = heedful.train(
            TINY, f"run{number}", {"train.steps": 1}, train=PAIRS, tokenizer=Letters(alphabet), quiet=True
        )
        position = json.loads((run / "checkpoints/step-00000001/position.json").read_text())
        stores.append(position["facts"]["data"])
    assert stores[0] != stores[1]


def test_each_side_can_have_its_own() -> None:
    sides: dict[str, Any] = {"source": LETTERS, "target": words()}
    apart = {"tokenizer.joint": False}
    run = heedful.train(TINY, "run", apart, train=PAIRS, valid=PAIRS[:5], tokenizer=sides, quiet=True)
    model = heedful.load(run, device="cpu", tokenizer=sides)
    assert [len(model.vocabularies[side].encode("one two")) for side in sides] == [7, 2]


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (
            len,
            "`tokenizer` is <built-in function len>, but must be a `tokenizers.Tokenizer`, or have `size`, `fing",
        ),
        ({"text": LETTERS}, '`tokenizer` has the names [\'text\'], but must have "source", "target".'),
        ({"source": LETTERS, "target": words()}, "`tokenizer` has one for each side, but the recipe's `tokenizer.joi"),
        (Letters("12 "), "`tokenizer` encodes "),
    ],
)
def test_what_is_not_a_tokenizer_is_refused(tokenizer: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Letters, "encode", lambda self, text: [28])
    with pytest.raises(UserError) as caught:
        heedful.train(TINY, "run", train=PAIRS, tokenizer=tokenizer, quiet=True)
    assert str(caught.value).startswith(message)
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("size", 0, "`tokenizer.size` is 0, but must be a whole number from 1 to 10,000,000."),
        ("size", 10**9, "`tokenizer.size` is 1000000000, but must be a whole number from 1 to 10,000,000."),
        ("fingerprint", "", "`tokenizer.fingerprint` is '', but must be a text, such as a hash."),
    ],
)
def test_a_tokenizer_says_its_size_and_its_identity(part: str, value: object, message: str) -> None:
    tokenizer = Letters("ab")
    setattr(tokenizer, part, value)
    with refuses(message):
        heedful.train(TINY, "run", train=PAIRS, tokenizer=tokenizer, quiet=True)


def test_tokenizers_of_heedful_are_not_replaced() -> None:
    heedful.train(TINY, "run", {"train.steps": 1}, train=PAIRS, quiet=True)
    with refuses("run/tokenizer.json is a tokenizer that Heedful trained: leave out `token..."):
        heedful.load("run", tokenizer=LETTERS)


def test_a_damaged_tokenizer_is_refused() -> None:
    run = heedful.train(TINY, "run", {"train.steps": 1}, train=PAIRS, tokenizer=words(), quiet=True)
    file = run / "tokenizer.json"
    whole = json.loads(file.read_text())
    for damaged, message in (
        (
            {**whole, "languages": 3},
            "run/tokenizer.json is not a tokenizer that Heedful wrote: restore it",
        ),
        ({**whole, "tokenizer": {"model": 3}}, "run/tokenizer.json is not a tokenizer ("),
    ):
        file.write_text(json.dumps(damaged))
        with pytest.raises(UserError) as caught:
            heedful.load(run)
        assert str(caught.value).startswith(message)
    file.write_text(json.dumps(whole)[:-9])
    with refuses("run/tokenizer.json is not JSON (..."):
        heedful.load(run)


def test_masked_language_models_have_tokenizers_of_heedful() -> None:
    recipe = {"model": {"family": "bert", "width": 8, "heads": 2, "layers": 1, "inner": 8}}
    with refuses("`tokenizer` does not apply to a masked language model: leave it out."):
        heedful.train(recipe, "run", train=["a b"], tokenizer=LETTERS, quiet=True)
