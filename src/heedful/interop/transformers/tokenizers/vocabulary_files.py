"""Files of vocabularies: tokenizers of the library, and the checks that the pieces of any format have to pass."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer as Library

from heedful.base.errors import UserError
from heedful.base.files import read_json
from heedful.data.tokenize.checked_json import LONGEST_PIECE, check_tokenizer_json
from heedful.interop.transformers.model_folder import ModelFolder

UNNAMED: Final = "[row-"  # prefix of the names of rows without a piece
_FILLING: Final = 512  # fewer rows than this may lack a piece: some fill a matrix up (Qwen2 by 290)


def load_library(data: bytes, path: Path) -> Library:
    """Read a tokenizer of the library, or refuse the file."""
    try:
        check_tokenizer_json(data)
        return Library.from_str(data.decode())
    except Exception as error:  # the library raises bare Exception
        raise UserError(f"{path} is not a tokenizer ({' '.join(str(error).split())}): copy it again.") from error


def read_piece_ids(path: Path, most: int) -> dict[str, int]:
    """Read a vocab.json, whose pieces have at most this number of characters."""
    ids = read_json(path)
    if not isinstance(ids, dict) or not all(type(number) is int for number in ids.values()):
        raise UserError(f"{path} must map pieces to numbers, but contains something else: copy it again.")
    refuse_long_pieces(path, ids, most)
    return ids


def refuse_long_pieces(path: Path, pieces: Iterable[str], most: int = LONGEST_PIECE) -> None:
    """Refuse a file with a piece of more characters than this."""
    longest = max(map(len, pieces), default=0)
    if longest > most:
        raise UserError(
            f"{path} has a piece of {longest:,} characters, but the longest may have {most:,}: copy it again."
        )


def refuse_other_size(where: Path, pieces: int, folder: ModelFolder) -> None:
    """Refuse a vocabulary that has not as many pieces as the matrices have rows, or a few less."""
    size = folder.config.number("vocab_size")
    if not size - _FILLING < pieces <= size:
        raise UserError(
            f"{where} has {pieces:,} pieces, but `vocab_size` of {folder.config.where} is {size:,}: copy both again."
        )
