"""A report in a real browser."""

import os
import shutil

import pytest


def chromium():
    """A Chromium of this machine; where tests are to be complete, its absence is a failure."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    message = "no Chromium found: `make browser` installs one"
    return pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)


class Page:
    """A page that remembers what it complained about and what it asked the network for."""

    def __init__(self, browser, path, **context):
        self.complaints, self.requests = [], []
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.page.on("console", lambda m: self.complaints.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-drawn=yes]", timeout=120_000)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def do(self, script, argument=None):
        return self.page.evaluate(script, argument)
