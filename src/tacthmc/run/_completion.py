"""When an array is there: to the moment, and without asking for it again and again."""

import contextlib
import threading
import time

import jax


class Ready:
    """Watches an array from a thread of its own, which notes when it is computed.

    However late the host looks, it is told when that was, and one that waits is woken at once. An
    error of the computation is not told here: it meets whoever reads the array.

    >>> import jax.numpy as jnp
    >>> before = time.perf_counter()
    >>> before < Ready(jnp.arange(3) + 1).wait() <= time.perf_counter()
    True
    """

    def __init__(self, array: jax.Array):
        self._at: float | None = None
        self._done = threading.Event()
        # A daemon: whoever leaves by a second Ctrl-C does not wait for what is being computed.
        threading.Thread(target=self._watch, args=(array,), daemon=True).start()

    def _watch(self, array: jax.Array) -> None:
        with contextlib.suppress(Exception):
            array.block_until_ready()
        self._at = time.perf_counter()
        self._done.set()

    def wait(self) -> float:
        """Wait for the array; when it was there, by ``time.perf_counter``."""
        # By tenths of a second, since a system may hear Ctrl-C only between two waits.
        while not self._done.wait(0.1):
            pass
        assert self._at is not None
        return self._at
