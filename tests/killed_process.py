"""A stored run in a process that kills itself: ``python -m tests.killed_process FOLDER [KILL]``.

KILL says where: ``flush:2`` in the second writing of rows, with the rows on their way;
``publish:2`` after the rows, before readers see them; ``checkpoint:2`` with the second checkpoint
on its way; ``steps:N`` after step N. Without one the run goes to its end.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import tacthmc
from tacthmc.run import _driver, _writer
from tacthmc.store import _checkpoint, _folder
from tests import stored_run


def start_and_wait(path, kill="", cache=None, seconds=None):
    """Run the process to its end, or kill it after ``seconds``; returns its code and errors."""
    env = dict(os.environ)
    if cache is not None:
        env["JAX_COMPILATION_CACHE_DIR"] = str(cache)
        env["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.killed_process", str(path), kill],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
        env=env,
    )
    try:
        _, errors = process.communicate(timeout=120 if seconds is None else seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert seconds is not None, errors
    return process.returncode, errors


def run_until(kill, path, cache=None):
    """Run the process to the place where it kills itself, or to its end; returns its messages."""
    code, errors = start_and_wait(path, kill, cache)
    assert code == (-signal.SIGKILL if kill else 0), errors
    return errors


def computed_again(errors):
    """The step a resumed run went on from, and the steps it says it computes again."""
    found = re.search(r"goes on from step (\d+) of \d+; (\d+) steps are computed again", errors)
    assert found, errors
    return int(found[1]), int(found[2])


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def _armed(kill):
    """Kill this process at the place named."""
    where, _, number = kill.partition(":")
    arm = {"flush": _in_flush, "publish": _before_publish, "checkpoint": _after_save}
    if where == "steps":
        _at_step(int(number))
    else:
        arm[where](_Countdown(int(number)))


class _Countdown:
    """Says at which call the process dies."""

    def __init__(self, number):
        self.left = number

    def over(self):
        self.left -= 1
        return self.left == 0


def _in_flush(countdown):
    module = _writer.tensorstore()

    class Transaction:
        """Kills with the transaction's writes on their way."""

        def __new__(cls):
            inner = module.Transaction()
            if countdown.over():
                # The commit is about to begin in the main thread.
                threading.Timer(0.004, _die).start()
            return inner

    class Module:
        def __getattr__(self, name):
            return Transaction if name == "Transaction" else getattr(module, name)

    _writer.tensorstore = Module


def _before_publish(countdown):
    publish = _folder.Folder.publish

    def dying(self, *args, **kwargs):
        if countdown.over():
            _die()
        return publish(self, *args, **kwargs)

    _folder.Folder.publish = dying


def _after_save(countdown):
    save = _checkpoint.Checkpoints.save

    def dying(self, *args, **kwargs):
        save(self, *args, **kwargs)
        if countdown.over():
            _die()

    _checkpoint.Checkpoints.save = dying


def _at_step(step):
    take_in = _driver.Driver._take_in

    def dying(self, *args):
        snapshot = take_in(self, *args)
        if snapshot.step >= step:
            _die()
        return snapshot

    _driver.Driver._take_in = dying


def main():
    # Chunks so short that there are many of them.
    _driver.CHUNK_SECONDS = 0.02
    path = Path(sys.argv[1])
    if len(sys.argv) > 2 and sys.argv[2]:
        _armed(sys.argv[2])
    sealed = (path / "config.json").exists()
    print(tacthmc.resume(path, trust=True) if sealed else stored_run.begin(path))


if __name__ == "__main__":
    main()
