"""Models and files on one footing."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from heedful.api.evaluation import Evaluation, evaluate
from heedful.api.model import Model, load
from heedful.config.schema import Recipe, TextCorpus, Tokenized
from heedful.evaluate.buckets import count_words
from heedful.lab import contestants
from heedful.lab.compare import Contest, Sentences, System
from heedful.lab.contestants import Messages, _training_texts, contest
from heedful.models.bundle import Bundle


@contextmanager
def no_bar(total: int) -> Iterator[Callable[[int], None]]:
    yield lambda ready: None


SILENT = Messages(lambda message: None, no_bar)


def with_data(model: Model, folder: Path, *train: TextCorpus, **settings: object) -> Model:
    """The model with other training corpora in its recipe."""
    data = model.recipe.data.model_copy(update={"folder": str(folder), "train": train, **settings})
    recipe = model.recipe.model_copy(update={"data": data})
    return Model(Bundle(recipe, model.tokenizers, model.network))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for language, text in {"de": "Der Hund\nder Hund\n", "fr": "le chien\nle chat\n"}.items():
        (tmp_path / f"x.{language}").write_text(text)
    (tmp_path / "x.en").write_text("the dog\nthe dog\n")
    return tmp_path


def test_translations_and_files_are_systems_with_one_set_of_references(reversing_folder: Path) -> None:
    found = contest([str(reversing_folder)], [System("file", tuple("ab" * 20))], None, SILENT, device="cpu")
    assert isinstance(found, Contest)
    model = load(reversing_folder, "cpu")
    folder = Path(model.recipe.data.folder)
    sources, references = (tuple((folder / f"first.{side}").read_text().splitlines()) for side in ("in", "out"))
    assert found.sentences == Sentences("first.in + first.out", sources, references)
    assert found.systems["file"].translations == tuple("ab" * 20)
    assert found.systems[str(reversing_folder)].translations == tuple(model.translate(sources))
    assert (found.bleu_tokenize, found.bleu_lowercase) == ("13a", False)
    assert found.frequencies is not None
    assert found.frequencies.counts == count_words(reference.split() for reference in references)


def test_models_are_asked_for_the_target_language_by_the_search_of_the_options(
    reversing_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, object] = {}

    def asking(model: Model, sources: Sequence[str], references: Sequence[str], **options: object) -> Evaluation:
        asked.update(options)
        return evaluate(model, sources, references)

    monkeypatch.setattr(contestants, "evaluate", asking)
    sentences = Sentences("two animals", ("ant", "bee"), ("ant", "bee"), "de")
    contest([str(reversing_folder)], [], sentences, SILENT, device="cpu", beam=3)
    assert (asked["name"], asked["to"], asked["beam"]) == ("two animals", "de", 3)


def test_training_words_have_the_form_of_the_translations(reversing: Model, folder: Path) -> None:
    corpus = TextCorpus(source="x.en", target="x.de")
    assert list(_training_texts(with_data(reversing, folder, corpus), "")) == ["Der Hund", "der Hund"]
    lower = with_data(reversing, folder, corpus, lowercase=True)
    assert list(_training_texts(lower, "")) == ["der hund", "der hund"]


def test_training_words_are_ordinary_text_where_that_is_scored(reversing: Model, folder: Path) -> None:
    (folder / "x.de").write_text("der Hund , ja .\nder Hund !\n")
    tokenized = Tokenized(source="en", target="de")
    model = with_data(reversing, folder, TextCorpus(source="x.en", target="x.de"), tokenized=tokenized)
    assert list(_training_texts(model, "")) == ["der Hund , ja .", "der Hund !"]
    scored = model.recipe.evaluate.model_copy(update={"detokenize": True})
    recipe: Recipe = model.recipe.model_copy(update={"evaluate": scored})
    ordinary = Model(Bundle(recipe, model.tokenizers, model.network))
    assert list(_training_texts(ordinary, "")) == ["der Hund, ja.", "der Hund!"]


def test_training_words_are_of_the_language_that_is_judged(reversing: Model, folder: Path) -> None:
    model = with_data(
        reversing,
        folder,
        TextCorpus(source="x.en", target="x.de", to="de"),
        TextCorpus(source="x.en", target="x.fr", to="fr"),
    )
    assert list(_training_texts(model, "fr")) == ["le chien", "le chat"]
    assert len(list(_training_texts(model, ""))) == 4
