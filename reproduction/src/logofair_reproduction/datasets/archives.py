"""Tables inside official ZIP files, of which no more is unpacked than such files hold."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from logofair.errors import InputError
from logofair.files.tables import TableFile, check_unpacked
from logofair.files.writing import reason_of

_MOST_MEMBERS = 500_000


@dataclass(frozen=True)
class ZipMember(TableFile):
    """A table in a ZIP file, by its name there."""

    member: str

    def __str__(self) -> str:
        return f"{self.path} ({self.member})"

    @property
    def name(self) -> str:
        """The table's own name, without folders."""
        return Path(self.member).name

    @property
    def is_packed(self) -> bool:
        """Whether its bytes are not those of the table itself."""
        return True

    @property
    def size(self) -> int:
        """Its bytes, unpacked."""
        with open_zip(self.path) as archive:
            return archive.getinfo(self.member).file_size

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open it for reading bytes."""
        with open_zip(self.path) as archive, archive.open(self.member) as packed:
            yield packed


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a ZIP file that unpacks to no more than official files do; what is wrong with it becomes one sentence."""
    with _zip_errors(path), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > _MOST_MEMBERS:
            raise InputError(f"{path}: holds {len(members):,} files, more than {_MOST_MEMBERS:,}; unpack it first.")
        check_unpacked(path, sum(member.file_size for member in members))  # zipfile unpacks no more of a member
        yield archive


@contextmanager
def _zip_errors(path: Path) -> Iterator[None]:
    """Turn what may be wrong with a ZIP file into one sentence."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):  # some official files are packed so
        raise InputError(
            f"{path}: is damaged, or packed by a method that cannot be read here; download it again, or unpack it."
        ) from None
    except RuntimeError as error:
        if "password" not in str(error):
            raise
        raise InputError(f"{path}: is encrypted; unpack it and pass the CSV file.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({reason_of(error)}); check the file.") from None
