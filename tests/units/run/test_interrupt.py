"""Stopping a run, watching it, and what a terminal shows."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.run import _driver as driver
from tacthmc.run import _monitor as monitor

pytestmark = pytest.mark.usefixtures("quick_compilation")

TARGET = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
SAMPLER = tacthmc.sgnht(0.05)
KEEP = tacthmc.Keep(after=0)
ROOT = Path(__file__).parents[3]


def run(num_steps=10**9, **options):
    key, start = jax.random.key(0), jnp.zeros(3)
    return tacthmc.sample(key, SAMPLER, TARGET, start, num_steps, 2, keep=KEEP, **options)


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr(driver, "CHUNK_SECONDS", 0.05)


@pytest.fixture(autouse=True)
def default_handler():
    """As in a terminal, also where the tests themselves run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("stored", [False, True])
def test_once(stored, tmp_path, capfd):
    """After the chunk; everything is there, and a stored run can go on."""
    path, snapshots = tmp_path / "run" if stored else None, []

    def interrupt(snapshot):
        snapshots.append(snapshot)
        if len(snapshots) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    stopped = run(store=path, callbacks=[interrupt])
    assert "Ctrl-C again" in capfd.readouterr().err
    assert stopped.interrupted
    assert stopped.num_steps >= snapshots[-1].step
    assert stopped.num_draws * 50 == stopped.num_steps
    assert "interrupted" in repr(stopped)
    assert "interrupted" in str(stopped.summary())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    whole = run(stopped.num_steps)
    assert np.array_equal(stopped.draws, whole.draws)
    if stored:
        assert tacthmc.load(path).interrupted
        assert np.array_equal(tacthmc.load(path).draws, whole.draws)


def test_twice(tmp_path):
    """Now; what was committed is there."""
    seen = []

    def interrupt(snapshot):
        seen.append(snapshot.step)
        if len(seen) == 5:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(store=tacthmc.Store(path, checkpoint_steps=100), callbacks=[interrupt])
    kept = tacthmc.load(path)
    assert 0 < kept.num_steps <= seen[-1] + 50
    more = tacthmc.resume(path, callbacks=[lambda s: s.step > seen[-1] + 1000])
    assert np.array_equal(more.draws[:, : kept.num_draws], kept.draws)


SECOND = """
import os, signal, threading, time, jax, jax.numpy as jnp, tacthmc
import tests.units.run.test_interrupt as here

def send():
    # Signals that come while a chunk is being started count as one, hence many.
    while True:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)

def interrupt(snapshot):
    # All come while the next chunk, as long as this one was, is being waited for.
    threading.Thread(target=send, daemon=True).start()

keep, start = tacthmc.Keep(every=20_000_000), jnp.zeros(3)
try:
    tacthmc.sample(
        jax.random.key(0), here.SAMPLER, here.TARGET, start, 10**9, 2, keep=keep,
        callbacks=[interrupt],
    )
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("heard", flush=True)
os._exit(0)  # the chunk under way is not waited for
"""


def test_a_second_one_is_heard_within_a_chunk():
    """The wait for a long chunk can be broken off, where a first one would end it after that."""
    # In a process of its own: a signal that comes late must not end the tests.
    command = [sys.executable, "-c", SECOND]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "heard\n"
    assert "Ctrl-C again stops now" in done.stderr


SHOWN_THEN_TERMINATED = """
import os, signal, sys, jax, jax.numpy as jnp, tacthmc
import tests.units.run.test_interrupt as here

start = jnp.zeros(2)
tacthmc.sample(jax.random.key(0), tacthmc.tact(0.01), here.TARGET, start, 50_000, 10)
print("shown", flush=True)

def end(snapshot):
    os.kill(os.getpid(), signal.SIGTERM)

here.run(store=sys.argv[1], callbacks=[end])
print("not reached")
"""


@pytest.fixture(scope="module")
def terminal(tmp_path_factory):
    """A process in a real pseudo-terminal that a scheduler ends: exit code, output, and the run."""
    path = tmp_path_factory.mktemp("terminal") / "run"
    master, slave = pty.openpty()
    env = {**os.environ, "COLUMNS": "110", "TERM": "xterm"}
    command = [sys.executable, "-c", SHOWN_THEN_TERMINATED, str(path)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave, env=env, cwd=ROOT)
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(master)
    output, _ = child.communicate()
    return child.returncode, output.decode(), shown.decode(), path


def test_the_display_in_a_terminal(terminal):
    """Bar, speed, and a row for each chain."""
    _, _, text, _ = terminal
    for word in ("10 chains", "100%", "steps/s", "left", "draws", "plateau", "ξ", "and 2 more"):
        assert word in text, text


def test_terminated(terminal):
    """SIGTERM, as a scheduler sends it: saved, then ended as asked."""
    code, output, text, path = terminal
    assert (code, output) == (-signal.SIGTERM, "shown\n"), text
    assert tacthmc.load(path).num_draws > 0


def test_a_callback_that_fails_loses_nothing(tmp_path):
    def fail(snapshot):
        raise RuntimeError("my own mistake")

    with pytest.raises(RuntimeError, match="my own mistake"):
        run(store=tmp_path / "run", callbacks=[fail])
    assert tacthmc.load(tmp_path / "run").num_draws > 0


def test_snapshots():
    seen = []
    key, start, look = jax.random.key(0), jnp.zeros(3), [seen.append]
    result = tacthmc.sample(
        key, tacthmc.tact(0.01), TARGET, start, 20_000, 2, keep=KEEP, callbacks=look
    )
    last = seen[-1]
    assert last.step == last.num_steps == 20_000
    assert np.array_equal(last.kept, result.counts)
    assert np.allclose(last.plateau_share, result.plateau_share)
    assert np.array_equal(last.last("xi"), result.trace["xi"][:, -1])
    assert last.last("nothing") is None
    assert last.seconds_left == 0
    assert sum(s.rows["xi"].shape[1] for s in seen) == 400
    assert result.seconds > 0
    assert result.compile_seconds > 0
    assert "compiling" in str(result.summary())


def test_a_line_a_minute_where_there_is_no_terminal(capsys, monkeypatch):
    run(20_000)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(monitor, "LINE_SECONDS", 0.0)
    run(20_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("tacthmc: step 20000 of 20000 (100%), ")
    assert "steps/s" in lines[-1]
    run(20_000, progress=False)
    assert capsys.readouterr().err == ""
