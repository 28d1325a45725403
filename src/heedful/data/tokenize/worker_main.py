"""The program of a tokenizing process: chunks of pairs in, token ids out.

It is started as `python -m heedful.data.tokenize.worker_main ANSWERS PROCESSES`: the descriptor of the pipe for its
answers, and how many processes work side by side. It ends when its standard input does, so also when its parent was
killed.
"""

import os
import sys
from contextlib import suppress
from typing import BinaryIO

from heedful.data.tokenize.encoding import KnownWords
from heedful.data.tokenize.worker_protocol import (
    OUT_OF_MEMORY,
    encoded_frame,
    encoder_of,
    pairs_of,
    read_frame,
    write_frame,
)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Learn how to encode, then answer chunk after chunk."""
    first = read_frame(requests)
    if first is None:
        return
    encoder = encoder_of(first)
    while chunk := read_frame(requests):
        write_frame(answers, encoded_frame(encoder(pairs_of(chunk))))


def main() -> None:
    """Serve standard input and the pipe of the arguments: anything can write to standard output."""
    answers, processes = map(int, sys.argv[1:])
    KnownWords.sharers = processes
    try:
        with suppress(BrokenPipeError, EOFError):  # nobody is there any more
            serve(sys.stdin.buffer, os.fdopen(answers, "wb"))
    except MemoryError:
        sys.exit(OUT_OF_MEMORY)


if __name__ == "__main__":
    main()
