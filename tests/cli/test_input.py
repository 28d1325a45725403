"""Lines as they arrive, and the texts and pairs on them."""

import os
import threading

import pytest

from heedful.cli.input import ArrivingLines, pairs_of
from heedful.data.corpora.texts import Text, text_of_line
from heedful.errors import UserError


def test_lines_arrive_whole_and_as_they_come() -> None:
    reader, writer = os.pipe()
    arriving = ArrivingLines(reader)
    lines = iter(arriving)
    os.write(writer, b"one\ntw")
    assert next(lines) == b"one\n"
    assert not arriving.ready()
    os.write(writer, b"o\r\nthree\n\nlast")
    assert arriving.ready()
    assert [next(lines), next(lines), next(lines)] == [b"two\r\n", b"three\n", b"\n"]
    assert not arriving.ready()
    os.close(writer)
    assert arriving.ready()
    assert list(lines) == [b"last"]
    assert not arriving.ready()
    os.close(reader)


def test_a_fast_writer_is_taken_in_large_pieces() -> None:
    reader, writer = os.pipe()
    sent = b"".join(b"line %d\n" % number for number in range(50_000))

    def send() -> None:
        os.write(writer, sent)
        os.close(writer)

    thread = threading.Thread(target=send)
    thread.start()
    arriving = ArrivingLines(reader)
    received, waits = [], 0
    for line in arriving:
        received.append(line)
        waits += not arriving.ready()
    thread.join()
    os.close(reader)
    assert b"".join(received) == sent
    assert waits < 100


# --- texts and pairs --------------------------------------------------------------------------------------------------


def test_a_line_is_a_text_or_a_pair_of_texts() -> None:
    assert text_of_line("one\ttwo", paired=False, where="x") == Text("one\ttwo")
    assert text_of_line("one\ttwo", paired=True, where="x") == Text("one", "two")
    assert text_of_line(" ", paired=True, where="x") == Text(" ")


@pytest.mark.parametrize(("line", "columns"), [("one", "1 column"), ("one\ttwo\tthree", "3 columns")])
def test_a_line_that_is_not_a_pair_is_refused(line: str, columns: str) -> None:
    with pytest.raises(UserError) as caught:
        text_of_line(line, paired=True, where="in.txt, line 3")
    assert str(caught.value) == (
        f"in.txt, line 3 has {columns}, but this model reads pairs: two texts separated by a tab."
    )


def test_pairs_come_before_the_line_that_is_not_one() -> None:
    pairs = pairs_of(["a\tb", "\t", "c"], "in.txt")
    assert [next(pairs), next(pairs)] == [("a", "b"), ("", "")]
    with pytest.raises(UserError) as caught:
        next(pairs)
    assert str(caught.value) == (
        "in.txt, line 3 has 1 column, but must have two: a source and its translation, separated by a tab."
    )
