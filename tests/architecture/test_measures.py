"""The scripts that measure the tree: lines of code, and messages that tests assert."""

from pathlib import Path

from scripts.code_lines import code_lines, count
from scripts.messages import Asserted, lost, messages

SOURCE = '''"""Docstring
of two lines."""

from errors import UserError  # comment

# comment


def check(sizes: list[int], name: str) -> None:
    """Docstring."""
    if sizes:
        raise UserError(
            f"{name} has {len(sizes)} sizes, "
            "but must have none: leave them out."
        )
    raise _refusal("a name must begin with a letter")


def _refusal(why: str) -> UserError:
    return UserError(f"{why}: choose another name.")
'''
TEST = """
def test_sizes_are_refused() -> None:
    with pytest.raises(UserError, match=r"^x has 2 sizes, but must have none: leave .* out\\.$"):
        check([1, 2], "x")
"""


def test_blank_lines_comments_and_docstrings_are_not_code(tmp_path: Path) -> None:
    assert code_lines(SOURCE) == 10
    (tmp_path / "src/heedful/data").mkdir(parents=True)
    (tmp_path / "src/heedful/data/a.py").write_text(SOURCE)
    (tmp_path / "src/heedful/data/b.py").write_text("one = 1\n'of an attribute'\n")
    assert count([tmp_path / "src"]) == {"src/heedful/data": 11}


def test_messages_are_found_with_the_tests_that_assert_them(tmp_path: Path) -> None:
    for path, text in {"src/heedful/a.py": SOURCE, "tests/test_a.py": TEST}.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    raised, asserted = messages(tmp_path), Asserted(tmp_path)
    assert [message.text for message in raised] == [
        "{} has {} sizes, but must have none: leave them out.",
        "a name must begin with a letter",
        "{}: choose another name.",
    ]
    places = asserted.places(raised)
    assert [[place.where for place in places[message]] for message in raised] == [["tests/test_a.py:3"], [], []]
    (found,) = asserted.texts
    assert found.text == "x has 2 sizes, but must have none: leave {} out."
    assert lost(asserted, asserted, raised) == []
    (tmp_path / "tests/test_a.py").write_text("")
    assert lost(asserted, Asserted(tmp_path), raised) == [found]
