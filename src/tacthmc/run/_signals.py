"""Ctrl-C once: stop after the chunk. Twice: now. SIGTERM: stop after the chunk, then end."""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """Watches for signals while a run goes on; only where Python lets it (the main thread)."""

    def __init__(self, saved: bool):
        """``saved`` says whether the run is on disk, which changes what a person is told."""
        self.asked = False
        self._saved = saved
        self._terminated = False
        self._old: dict[int, Any] = {}

    def __enter__(self) -> "Interrupt":
        """Take the signals over."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                # What was to be ignored (a job in the background) still is.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._old[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM:
            self._terminated = True
        elif self.asked:
            raise KeyboardInterrupt
        else:
            lost = "steps since the last checkpoint" if self._saved else "everything"
            message = f"\nstopping after this chunk; Ctrl-C again stops now and loses {lost}\n"
            # Straight to the terminal: printing is not safe where a signal may break in.
            os.write(2, message.encode())
        self.asked = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give them back; a process that was asked to end now does."""
        for number, handler in self._old.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if self._terminated:
            os.kill(os.getpid(), signal.SIGTERM)
