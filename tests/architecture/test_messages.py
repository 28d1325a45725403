"""The text of a message is asserted in one place, so that to reword a message is one edit in the tests."""

from pathlib import Path

from scripts.messages import repeated

ROOT = Path(__file__).parents[2]


def test_no_message_is_asserted_by_its_text_in_two_places() -> None:
    """Tests that meet a message of another test abbreviate it, as `tests/shared/refusals.py` says."""
    assert ["\n".join(f"{text.where}: {text.text}" for text in group) for group in repeated(ROOT)] == []


def test_a_text_that_is_asserted_twice_is_found(tmp_path: Path) -> None:
    message = "has no words, but must have at least one: add some."
    for path, text in {
        "src/heedful/a.py": f'def check(name: str) -> None:\n    raise UserError(f"{{name}} {message}")\n',
        "tests/test_a.py": f'LINE = "a {message}"\nSHORT = "a has no words, ..."\n',
        "tests/test_b.py": f'def test() -> None:\n    assert refused() == "b {message}"\n',
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (group,) = repeated(tmp_path)
    assert [text.where for text in group] == ["tests/test_a.py:1", "tests/test_b.py:2"]
