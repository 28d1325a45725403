"""The names of `import heedful`: complete, each what it says, and none of them costs torch until it is used."""

import inspect
import pkgutil
import subprocess
import sys

import pytest
from tests.shared.refusals import refuses

import heedful
from heedful.config.decode import SearchOptions


def test_dir_shows_every_public_name() -> None:
    assert set(heedful.__all__) <= set(dir(heedful))
    assert set(heedful._HOMES) <= set(heedful.__all__)
    assert sorted(heedful.__all__) == sorted(set(heedful.__all__))


@pytest.mark.parametrize("name", heedful.__all__)
def test_a_public_name_is_there_and_says_what_it_is(name: str) -> None:
    found = getattr(heedful, name)
    assert name == "__version__" or inspect.getdoc(found)


def test_no_public_name_is_that_of_a_part_of_the_package() -> None:
    parts = {part.name for part in pkgutil.iter_modules(heedful.__path__)}
    assert not parts & set(heedful.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with refuses("module 'heedful' has no attribute 'lode'", AttributeError):
        heedful.lode  # noqa: B018


def test_errors_and_recipes_need_no_torch() -> None:
    code = "import sys, heedful; dir(heedful); heedful.UserError; heedful.Recipe; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


@pytest.mark.parametrize("method", ["translate", "translate_detailed", "stream", "stream_detailed"])
def test_help_shows_every_option_of_a_search_with_its_meaning(method: str) -> None:
    function = getattr(heedful.Translator, method)
    parameters = inspect.signature(function).parameters
    options = SearchOptions.__annotations__
    assert set(options) <= set(parameters)
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in options)
    assert not [each for each in parameters.values() if each.kind is inspect.Parameter.VAR_KEYWORD]
    assert parameters["beam"].default is None
    assert parameters["raw"].default is False
    assert "\n    beam: Beam size; 1 is greedy search (default: the recipe's)." in (inspect.getdoc(function) or "")


def test_help_shows_the_options_of_embeddings() -> None:
    for kind in (heedful.TextClassifier, heedful.MaskFiller):
        parameters = inspect.signature(kind.embed).parameters
        assert [parameters[name].default for name in ("of", "pool", "layer", "markers")] == ["text", None, -1, False]


def test_an_old_name_is_the_new_one_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match=r"heedful.PictureClassifier is called heedful.ImageClassifier now"):
        assert heedful.PictureClassifier is heedful.ImageClassifier
