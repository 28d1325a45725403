"""What a Python caller passes by mistake is refused in one line that says what it is and what it must be."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.shared.refusals import like, refuses

from heedful.base.arguments import check_flag, check_number, check_path, check_several, check_texts, check_whole
from heedful.tasks.shared.answering.streaming import chunks


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a", None], "texts, line 2 is None, but must be a text: leave it out, or give an empty one."),
        ([float("nan")], "texts, line 1 is nan, but must be a text: leave it out, or give an empty one."),
        (["a", "b", 5], "texts, line 3 is 5, but must be a text: convert it with `str()`."),
        ([b"a"], "texts, line 1 is b'a', but must be a text: decode it with `.decode()`."),
        ([["a"]], "texts, line 1 is ['a'], but must be a text: convert it with `str()`."),
        (
            ["a", "b \ud800"],
            "texts, line 2 has half of a surrogate pair at character 3, which is not a character: decode the text as "
            "UTF-8, or remove it.",
        ),
        ("a dog", "`texts` is one text, but must be a list of texts: put it in brackets."),
        (None, "`texts` is None, but must be a text or a list of texts."),
        (7, like("`texts` is 7, but must be a text or a ...")),
        (b"a", like("`texts` is b'a', but must be a text or a ...")),
        ({"a": "b"}, like("`texts` is {'a': 'b'}, but must be a text or a ...")),
    ],
)
def test_what_is_not_a_text_is_named_with_its_line(texts: object, message: str) -> None:
    with refuses(message):
        check_texts(texts)


def test_what_is_not_an_image_is_called_one() -> None:
    with refuses("`images` is 7, but must be an image or a ..."):
        check_several(7, "images", "image")
    with refuses("`images` is one image, but must be a list of images: ..."):
        check_several("a.png", "images", "image")


def test_lines_are_counted_from_the_first_of_a_stream() -> None:
    with refuses("in.txt, line 1,002 is None, ..."):
        check_texts(["a", None], "in.txt", first=1001)


def test_anything_that_holds_texts_is_a_list_of_texts() -> None:
    assert check_texts(("a", "b")) == check_texts(iter("ab")) == check_texts(np.array(["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (check_whole, "3", "`beam` is '3', but must be a whole number."),
        (check_whole, 3.0, "`beam` is 3.0, but must be a whole number."),
        (check_whole, True, "`beam` is True, but must be a whole number."),
        (check_number, "1", "`beam` is '1', but must be a number."),
        (check_number, float("nan"), "`beam` is nan, but must be a number."),
        (check_flag, 1, "`beam` is 1, but must be True or False."),
        (check_path, None, "`beam` is None, but must be a path."),
        (check_path, "", "`beam` is '', but must be a path."),
    ],
)
def test_a_value_of_another_type_is_refused(
    check: Callable[[str, object], object], value: object, message: str
) -> None:
    with refuses(message):
        check("beam", value)


def test_a_number_that_is_too_small_is_refused() -> None:
    with refuses("`top` is 0, but must be 1 or more."):
        check_whole("top", 0, least=1)


def test_a_path_of_bytes_is_refused() -> None:
    class Named:
        def __fspath__(self) -> bytes:
            return b"a"

        def __repr__(self) -> str:
            return "Named()"

    with refuses("`path` is Named(), but must be a path of text, not of bytes."):
        check_path("path", Named())


def test_numbers_of_numpy_and_paths_are_taken() -> None:
    assert check_whole("beam", np.int64(3), least=1) == 3
    assert check_number("length_penalty", np.float32(0.5)) == check_number("length_penalty", 0.5) == 0.5
    assert check_path("path", Path("a")) == check_path("path", "a") == Path("a")


def test_an_open_text_file_is_its_lines_without_their_ends(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one \r\n\ntwo\nthree")
    with (tmp_path / "a.txt").open(newline="") as file:
        assert check_texts(file) == ["one ", "", "two", "three"]
    with (tmp_path / "a.txt").open() as file:
        assert [*chunks(file, 3)] == [["one ", "", "two"], ["three"]]
