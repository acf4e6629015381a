"""A few lines of Python in a process of their own, where nothing was imported yet."""

import os
import subprocess
import sys


def fresh_process(code, *arguments, **environment):
    """What the lines print, without the settings of XLA that the tests themselves run with."""
    ours = ("XLA_FLAGS", "TACTHMC_XLA_FLAGS", "TACTHMC_CORES")
    plain = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**plain, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
