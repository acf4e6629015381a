"""One writer at a time: a lock that the system releases when its process ends, however."""

import fcntl
import os
import socket
from pathlib import Path
from typing import IO

from tacthmc.store._errors import StoreError

LOCK = "tacthmc.lock"


class Lock:
    """Held from construction until :meth:`release`."""

    def __init__(self, folder: Path, process: int = 0):
        """Take the lock, or say who has it."""
        path = folder / (LOCK if process == 0 else f"{LOCK}.{process}")
        self._file: IO[str] | None = path.open("a+")
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
        """Let another process have it."""
        if self._file is not None:
            self._file.close()
            self._file = None
