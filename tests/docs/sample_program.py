"""A program as a user writes it: the types that a type checker sees of `heedful`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, assert_type

from torch import nn

import heedful
from heedful.tasks.shared.loaded_model import LoadedModel


class Watch(heedful.Callback):
    """Stops a run that is good enough."""

    def on_step(self, step: int) -> None:
        """Print the number of the step."""
        print(step)

    def on_validation(self, validation: heedful.Validation) -> bool:
        """Stop at a low loss."""
        return validation.scores["loss"] < 0.1


class Letters:
    """A tokenizer."""

    size = 26
    fingerprint = "a to z"

    def encode(self, text: str) -> list[int]:
        """Return the numbers of letters."""
        return [ord(letter) - ord("a") for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the letters."""
        return "".join(chr(ord("a") + number) for number in ids)


def length(outputs: list[str], references: list[str]) -> float:
    """Score outputs."""
    return len("".join(outputs)) / len("".join(references))


def network(recipe: heedful.Recipe, vocabularies: heedful.Vocabularies) -> nn.Module:
    """Build a classifier."""
    return nn.EmbeddingBag(vocabularies["text"].size, len(vocabularies.labels))


def use_own(rows: list[tuple[str, str]]) -> None:
    """Train with objects of this program."""
    letters: heedful.TextTokenizer = Letters()
    run = heedful.train(
        "my.toml",
        "own",
        train=rows,
        network=network,
        tokenizer=letters,
        metrics={"length": length, "shortness": heedful.Metric(length, better="lower")},
    )
    print(heedful.load(run, network=network, tokenizer=Letters()))
    print(heedful.evaluate(run.model, rows, metrics={"length": length}))


def use(folder: Path) -> None:
    """Use models of every task."""
    translator = heedful.Translator.load(folder, device="cpu")
    assert_type(translator, heedful.Translator)
    assert_type(translator.translate("a", beam=2, to="de", sampling=heedful.Sampling(top_k=5)), str)
    assert_type(translator.translate(["a"], length_penalty=1.0), list[str])
    assert_type(translator.translate(text for text in ("a", "b")), list[str])
    assert_type(translator.translate_detailed("a", nbest=2), list[heedful.Translation])
    assert_type(translator.translate_detailed(["a"], nbest=2), list[list[heedful.Translation]])
    assert_type(translator.score(["a"], ["b"]), list[heedful.PairScore])
    print(translator.evaluate([("a", "b")]).bleu.score, translator.to("cpu").device.type)

    classifier = heedful.TextClassifier.load(str(folder))
    assert_type(classifier.classify("a"), heedful.Classification)
    assert_type(classifier.classify(["a"]), list[heedful.Classification])
    assert_type(classifier.embed("a", of="tokens"), list[heedful.TokenVectors])
    print(classifier.embed(["a"], pool="max").shape, classifier.evaluate([("a", "x")]).result.accuracy)

    filler = heedful.MaskFiller.load(folder)
    assert_type(filler.fill("[MASK]", top=3), heedful.Filled)
    assert_type(filler.fill(["[MASK]"])[0].masks[0][0], heedful.Candidate)

    generator = heedful.TextGenerator.load(folder)
    assert_type(generator.generate("a", max_tokens=9, temperature=0.7, stop=["\n"]), heedful.GeneratedText)
    assert_type(generator.generate(["a"], beam=4), list[heedful.GeneratedText])
    assert_type(generator.generate("a", stream=True), heedful.GenerationStream)
    assert_type(generator.generate("a", stream=True).generation, heedful.Generation)
    assert_type(generator.generate_detailed("a", samples=3, seed=1), list[heedful.Generation])
    assert_type(generator.generate_detailed(["a"], top_k=5), list[list[heedful.Generation]])
    assert_type(generator.score(["a"], stride=8), list[heedful.TextScore])
    print(generator.embed(["a"], pool="last").shape)

    parser = heedful.Parser.load(folder)
    assert_type(parser.parse("the dog barks", beam=4), heedful.Tree | None)
    assert_type(parser.parse(["the dog barks"]), list[heedful.Tree | None])

    images = heedful.ImageClassifier.load(folder)
    assert_type(images.classify("a.png"), heedful.Classification)
    assert_type(images.classify(["a.png", "b.png"]), list[heedful.Classification])

    answerer = heedful.ImageAnswerer.load(folder)
    assert_type(answerer.answer("how many ?", "a.png"), heedful.ImageAnswer)
    assert_type(answerer.answer(["how many ?", "why ?"], "a.png"), list[heedful.ImageAnswer])

    model = heedful.load(folder)
    assert_type(model, LoadedModel[Any])
    if isinstance(model, heedful.MaskFiller):
        print(model.fill("[MASK]").text)


def train(rows: list[tuple[str, str]]) -> str:
    """Train, evaluate and compare."""
    try:
        run = heedful.train({"extends": "demo-en-es"}, "runs/a", train=rows, callbacks=[Watch()], quiet=True)
        again = heedful.train("my.toml", run, {"train.steps": 10}, resume=True)
    except heedful.UserError as error:
        return str(error)
    assert_type(again.best_score, float | None)
    assert_type(again.history, list[dict[str, Any]])
    for name, evaluation in heedful.evaluate(run, split="valid").items():
        print(name, [score.value for score in evaluation.scores()])
    print(heedful.evaluate(run, rows, beam=2).to_json())
    result = heedful.compare(run, heedful.System("theirs", ("a",)), references=["a"], sources=["b"])
    assert_type(result, heedful.Comparison)
    return str(run.folder / "model.safetensors")
