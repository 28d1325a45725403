"""Models and files on one footing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Tokenized
from heedful.config.recipe import Recipe
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.lab import compare_models
from heedful.lab.compare import Frequencies, System, compare
from heedful.lab.compare_models import training_texts
from heedful.lab.comparison_request import ComparisonRequest, Sentences, Translated
from heedful.lab.test_sets import describe
from heedful.metrics.buckets import count_words
from heedful.metrics.summed_metrics import word_splitter
from heedful.models.bundle import Bundle, read_description, write_description, write_weights
from heedful.models.from_recipe.network import build_model
from heedful.tasks.translate.evaluation import TranslationEvaluation
from heedful.tasks.translate.model import Translator

TWO = Sentences("two animals", ("ant", "bee"), ("ant", "bee"))


def translated(
    models: Sequence[str | Path],
    given: Sentences | None = None,
    files: Sequence[System] = (),
    say: Callable[[str], None] = lambda message: None,
    **options: object,
) -> Translated:
    """What models make of a test set."""
    names = list(map(str, models))
    runs = {**dict.fromkeys(names), **{file.name: file for file in files}}
    request = ComparisonRequest(runs, runs, given, device="cpu", options=options, say=say)
    return compare_models.translate_test_set(request, describe(names))


@pytest.fixture(scope="module")
def several_folder(reversing_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows two target languages by name, and nothing else: it was never trained."""
    folder = tmp_path_factory.mktemp("several") / "model"
    recipe = read_description(reversing_folder)[0]
    tokenizer = train_tokenizer(recipe.tokenizer, ["ant bee cat"], ["de", "fr"])
    write_description(folder, recipe, Vocabularies({"source": tokenizer, "target": tokenizer}))
    write_weights(folder, build_model(recipe.pair_model, tokenizer.size, tokenizer.size))
    return folder


def with_data(model: Translator, folder: Path, *train: AlignedFiles, **settings: object) -> Translator:
    """The model with other training corpora in its recipe."""
    data = model.recipe.data.model_copy(update={"folder": str(folder), "train": train, **settings})
    recipe = model.recipe.model_copy(update={"data": data})
    return Translator(Bundle(recipe, model.vocabularies, model.network))


def texts_of(model: Translator, to: str = "") -> list[str]:
    return list(training_texts(model.recipe, model.wording, to))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for language, text in {"de": "Der Hund\nder Hund\n", "fr": "le chien\nle chat\n"}.items():
        (tmp_path / f"x.{language}").write_text(text)
    (tmp_path / "x.en").write_text("the dog\nthe dog\n")
    return tmp_path


def test_translations_and_files_are_systems_with_one_set_of_references(reversing_folder: Path) -> None:
    found = translated([reversing_folder], files=[System("file", tuple("ab" * 20))])
    model = Translator.load(reversing_folder, "cpu")
    folder = Path(model.recipe.data.folder)
    sources, references = (tuple((folder / f"first.{side}").read_text().splitlines()) for side in ("in", "out"))
    assert found.sentences == Sentences("first.in + first.out", sources, references)
    assert found.systems["file"].translations == tuple("ab" * 20)
    assert found.systems[str(reversing_folder)].translations == tuple(model.translate(sources))
    assert found.scoring[:2] == ("13a", False)
    assert found.frequencies is not None
    assert found.frequencies.counts == count_words(reference.split() for reference in references)


def test_models_of_several_languages_are_asked_for_the_target_language_and_others_are_not(
    reversing_folder: Path, several_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, object]] = []

    evaluate_rows = Translator.evaluate_rows

    def asking(model: Translator, rows: Sequence[tuple[str, str]], **options: object) -> TranslationEvaluation:
        asked.append(options)
        return evaluate_rows(model, rows, to="de" if model.vocabularies["source"].tags else None)

    monkeypatch.setattr(Translator, "evaluate_rows", asking)
    translated([several_folder, reversing_folder], replace(TWO, to="de"), beam=3)
    assert [(of["name"], of["to"], of["beam"]) for of in asked] == [("two animals", "de", 3), ("two animals", None, 3)]


def test_every_source_needs_a_reference(reversing_folder: Path) -> None:
    with refuses("1 source, but 2 references: each source needs one."):
        translated([reversing_folder], Sentences("uneven", ("ant",), ("ant", "bee")))


def untranslated(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on nothing may be translated."""

    def fail(*arguments: object, **options: object) -> TranslationEvaluation:
        raise AssertionError("translated")

    monkeypatch.setattr(Translator, "evaluate_rows", fail)


@pytest.mark.parametrize(
    ("sources", "to", "message"),
    [
        (("ant", "bee"), "", "two animals, line 1 does not say its target"),
        (("ant", "bee"), "es", "<2es> is not in the vocabulary: it has <2de>, <2fr>."),
        (("ant", "<2fr> bee"), "de", "two animals, line 2 begins with <2fr>, but `to` is given too"),
    ],
)
def test_a_target_language_that_is_not_clear_is_refused_before_anything_is_translated(
    sources: tuple[str, ...],
    to: str,
    message: str,
    reversing_folder: Path,
    several_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    untranslated(monkeypatch)
    with refuses(f"...{several_folder}: {message}..."):
        translated([reversing_folder, several_folder], replace(TWO, sources=sources, to=to))


def test_a_target_language_for_models_of_one_is_refused_before_anything_is_translated(
    reversing_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    untranslated(monkeypatch)
    message = r"^`to` is `de`, but none of the models has several target languages: leave out `to`\.$"
    with pytest.raises(UserError, match=message):
        translated([reversing_folder], replace(TWO, to="de"))


def test_the_training_words_of_a_model_of_one_language_count_beside_a_model_of_several(
    reversing_folder: Path, several_folder: Path
) -> None:
    """The first has training data in which no corpus has a `to`."""
    found = translated([reversing_folder, several_folder], replace(TWO, to="de")).frequencies
    assert found is not None
    lines = (Path(Translator.load(reversing_folder, "cpu").recipe.data.folder) / "first.out").read_text().split()
    assert {word: found.counts[word] for word in ("ant", "bee")} == {
        "ant": lines.count("ant"),
        "bee": lines.count("bee"),
    }


# --- training data ----------------------------------------------------------------------------------------------------


def test_only_words_that_are_judged_are_counted(reversing_folder: Path) -> None:
    found = translated([reversing_folder], TWO, [System("file", ("hen zebra", "x"))])
    assert found.frequencies is not None
    judged = {word for system in found.systems.values() for text in system.translations for word in text.split()}
    assert set(found.frequencies.counts) <= judged | {"ant", "bee"}
    lines = (Path(Translator.load(reversing_folder, "cpu").recipe.data.folder) / "first.out").read_text().split()
    assert found.frequencies.counts["hen"] == lines.count("hen")


def test_the_figures_are_those_of_all_training_words(reversing_folder: Path) -> None:
    found = translated([reversing_folder], files=[System("file", ("ant ant",) * 40)])
    lines = (Path(Translator.load(reversing_folder, "cpu").recipe.data.folder) / "first.out").read_text().splitlines()
    everything = Frequencies(f"the training data of {reversing_folder}", count_words(map(word_splitter(), lines)))
    a, b = found.systems.values()
    few, all_ = (
        compare([a], [b], found.sentences.references, samples=100, frequencies=frequencies)
        for frequencies in (found.frequencies, everything)
    )
    assert few == all_
    assert few.frequencies_of == f"the training data of {reversing_folder}"


@pytest.mark.parametrize(("most", "part"), [(40, ""), (39, "the first 39 lines of ")])
def test_words_are_counted_in_the_first_lines_alone_and_the_title_says_so(
    most: int, part: str, reversing_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare_models, "_MOST", most)
    monkeypatch.setattr(compare_models, "_TELL_EVERY", 15)
    said: list[str] = []
    found = translated([reversing_folder], say=said.append).frequencies
    assert found is not None
    assert found.text == f"{part}the training data of {reversing_folder}"
    lines = (Path(Translator.load(reversing_folder, "cpu").recipe.data.folder) / "first.out").read_text().splitlines()
    assert found.counts == count_words(line.split() for line in lines[:most])
    counting = f"{reversing_folder}: counting words in its training data"
    assert said[1:] == [counting, f"{counting}: 15 lines so far", f"{counting}: 30 lines so far"]


def test_training_words_have_the_form_of_the_translations(reversing: Translator, folder: Path) -> None:
    corpus = AlignedFiles(source="x.en", target="x.de")
    assert texts_of(with_data(reversing, folder, corpus)) == ["Der Hund", "der Hund"]
    lower = with_data(reversing, folder, corpus, lowercase=True)
    assert texts_of(lower) == ["der hund", "der hund"]


def test_training_words_are_ordinary_text_where_that_is_scored(reversing: Translator, folder: Path) -> None:
    (folder / "x.de").write_text("der Hund , ja .\nder Hund !\n")
    tokenized = Tokenized(source="en", target="de")
    model = with_data(reversing, folder, AlignedFiles(source="x.en", target="x.de"), tokenized=tokenized)
    assert texts_of(model) == ["der Hund , ja .", "der Hund !"]
    scored = model.recipe.evaluate.model_copy(update={"detokenize": True})
    recipe: Recipe = model.recipe.model_copy(update={"evaluate": scored})
    ordinary = Translator(Bundle(recipe, model.vocabularies, model.network))
    assert texts_of(ordinary) == ["der Hund, ja.", "der Hund!"]


def test_training_words_are_of_the_language_that_is_judged(reversing: Translator, folder: Path) -> None:
    model = with_data(
        reversing,
        folder,
        AlignedFiles(source="x.en", target="x.de", to="de"),
        AlignedFiles(source="x.en", target="x.fr", to="fr"),
    )
    assert texts_of(model, "fr") == ["le chien", "le chat"]
    assert len(texts_of(model)) == 4
