"""Opens .zip files, whose damage may be anywhere."""

import errno
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from heedful.base.files import refuse_special_file


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a .zip file; what is read from it inside the block raises `BadZipFile` where it is damaged."""
    refuse_special_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise zipfile.BadZipFile("it names a place before its start") from error
