"""The program of a tokenizing process, `python -m heedful.data.worker`: chunks of pairs in, token ids out.

It ends when its standard input does, so also when the process that started it was killed.
"""

import os
import sys
from contextlib import suppress
from typing import BinaryIO

from heedful.data.wire import encoded_frame, encoder_of, pairs_of, read_frame, write_frame


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Learn how to encode, then answer chunk after chunk."""
    first = read_frame(requests)
    if first is None:
        return
    encoder = encoder_of(first)
    while chunk := read_frame(requests):
        write_frame(answers, encoded_frame(encoder(pairs_of(chunk))))


def main() -> None:
    """Serve standard input and output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    with suppress(BrokenPipeError, EOFError):  # nobody is there any more
        serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
