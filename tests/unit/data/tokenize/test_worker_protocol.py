from io import BytesIO

import numpy as np
import pytest
from tests.shared.refusals import refuses

from heedful.config.tokenizer import Words
from heedful.data.tokenize.encoding import Encoder, Filters
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.worker_main import serve
from heedful.data.tokenize.worker_protocol import (
    Frame,
    encoded_frame,
    encoded_of,
    encoder_frame,
    encoder_of,
    pairs_frame,
    pairs_of,
    read_frame,
    write_frame,
)

PAIRS = [("a dog", "ein Hund"), ("a\nb\0漢 😀", "ü"), ("a a a a", "b")]
TOKENIZER = train_tokenizer(Words(kind="word"), [text for pair in PAIRS for text in pair], ["de"])
ENCODER = Encoder(TOKENIZER, TOKENIZER, Filters(max_length=4, max_ratio=3.5), [TOKENIZER.tag("de")], True)


def sent(frame: Frame) -> Frame:
    """Through a pipe."""
    pipe = BytesIO()
    write_frame(pipe, frame)
    pipe.seek(0)
    received = read_frame(pipe)
    assert received is not None
    assert read_frame(pipe) is None
    return received


def test_any_text_arrives_as_it_was() -> None:
    assert pairs_of(sent(pairs_frame(PAIRS))) == PAIRS
    assert pairs_of(sent(pairs_frame([]))) == []


def test_an_encoder_arrives_with_its_tokenizers_filters_and_tag() -> None:
    arrived = encoder_of(sent(encoder_frame(ENCODER)))
    assert arrived.source is arrived.target
    assert arrived.source.fingerprint == TOKENIZER.fingerprint
    assert (arrived.filters, list(arrived.tag), arrived.both) == (ENCODER.filters, list(ENCODER.tag), True)
    apart = Encoder(TOKENIZER, train_tokenizer(Words(kind="word"), ["x y"]), Filters())
    arrived = encoder_of(sent(encoder_frame(apart)))
    assert [arrived.source.fingerprint, arrived.target.fingerprint] == [
        apart.source.fingerprint,
        apart.target.fingerprint,
    ]


def test_what_was_encoded_arrives() -> None:
    encoded = ENCODER(PAIRS)
    arrived = encoded_of(sent(encoded_frame(encoded)))
    assert dict(arrived.dropped) == dict(encoded.dropped) == {"too long": 1}
    for stream, sentences in encoded.streams.items():
        assert arrived.streams[stream].values.dtype == sentences.values.dtype == np.uint16
        assert arrived.streams[stream].values.tolist() == sentences.values.tolist()
        assert arrived.streams[stream].offsets.tolist() == sentences.offsets.tolist()


def test_a_worker_answers_every_chunk_in_turn() -> None:
    requests, answers = BytesIO(), BytesIO()
    for frame in (encoder_frame(ENCODER), pairs_frame(PAIRS[:1]), pairs_frame(PAIRS[1:])):
        write_frame(requests, frame)
    requests.seek(0)
    serve(requests, answers)
    answers.seek(0)
    for chunk in (PAIRS[:1], PAIRS[1:]):
        answer = read_frame(answers)
        assert answer is not None
        expected = ENCODER(chunk).streams["source"].values.tolist()
        assert encoded_of(answer).streams["source"].values.tolist() == expected
    assert read_frame(answers) is None


def test_a_worker_that_is_told_nothing_ends() -> None:
    serve(BytesIO(), BytesIO())


class Pipe(BytesIO):
    """Refuses to be read beyond its end: there a pipe would wait."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        assert len(data) == size, "waits for ever"
        return data


@pytest.mark.parametrize("noise", [b"hello", b"\x02\0\0\0{}", b"\xff\xff\xff\x7f"])
def test_what_is_no_message_is_an_error_and_no_wait(noise: bytes) -> None:
    with refuses("a message between tokenizing processes begins with b'...', not b'HFL...", RuntimeError):
        read_frame(Pipe(noise))


@pytest.mark.parametrize("size", [3, 6, 14, -1])
def test_a_message_that_breaks_off_is_no_message(size: int) -> None:
    pipe = BytesIO()
    write_frame(pipe, pairs_frame(PAIRS))
    with refuses("...a message broke off...", EOFError):
        read_frame(BytesIO(pipe.getvalue()[:size]))
