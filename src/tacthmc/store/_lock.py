"""A lock for one writer at a time, which the system releases when the process ends in any way."""

import fcntl
import os
import socket
from pathlib import Path
from typing import IO

from tacthmc.store._errors import StoreError

LOCK = "tacthmc.lock"


class Lock:
    """A lock on a folder, held from construction until :meth:`release`."""

    def __init__(self, folder: Path, process: int = 0):
        """Take the lock; raises a StoreError that names its holder."""
        path = folder / (LOCK if process == 0 else f"{LOCK}.{process}")
        self._file: IO[str] | None = path.open("a+", errors="replace")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise StoreError(
                f"{folder} is in use by {holder}: wait until it ends, stop it, or choose another"
                " folder"
            ) from error
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}")
        self._file.flush()

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            self._file.close()
            self._file = None
