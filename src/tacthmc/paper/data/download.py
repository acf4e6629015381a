"""Downloads of official archives with pooch, with checksums, progress and atomic writes.

A server may send a redirect to any address, and any number of bytes. Only redirects to the same
host are followed, and not from https to http.
"""

import logging
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from tacthmc.paper.data.catalog import Entry
from tacthmc.paper.data.errors import DataError
from tacthmc.paper.data.folder import archive_path, check_archive, where_to_put

MAX_DOWNLOAD_BYTES = 1 << 30
"""More than the largest official archive has."""


class _Progress:
    """A progress bar with the interface that pooch expects, which ends a download without end."""

    def __init__(self, title: str):
        from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

        columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._shown = Progress(*columns)
        self._task = self._shown.add_task(title, total=None)
        self.total = self._seen = 0

    def reset(self) -> None:
        """Begin a file of ``total`` bytes."""
        self._shown.start()
        self._shown.reset(self._task, total=self.total or None)

    def update(self, count: int) -> None:
        """Add ``count`` bytes."""
        self._seen += count
        # At the end pooch resets the bar and adds all bytes once more.
        if self._seen > 2 * MAX_DOWNLOAD_BYTES:
            raise DataError(f"the server sends more than {MAX_DOWNLOAD_BYTES:,} bytes")
        self._shown.update(self._task, advance=count)

    def close(self) -> None:
        """Stop the bar."""
        self._shown.stop()


def fetch(name: str, entry: Entry, folder: Path) -> list[Path]:
    """The official archives of a data set. Existing ones are checked and not downloaded again."""
    if not entry.archives:
        raise DataError(f"{entry.title} has no download: {where_to_put(name, entry, folder)}")
    paths = []
    for archive in entry.archives:
        path = archive_path(name, archive, folder)
        if not path.exists():
            _retrieve(archive.address, archive.md5, path, name, entry, folder)
        check_archive(path, archive)
        paths.append(path)
    return paths


def _check_response(response: Any, *_: Any, **__: Any) -> None:
    """Refuse a redirect to another host, and a file that is too large. Redirects come here too."""
    announced = response.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > MAX_DOWNLOAD_BYTES:
        raise DataError(f"the server announces {int(announced):,} bytes")
    if "location" in response.headers and 300 <= response.status_code < 400:
        target = urljoin(response.url, response.headers["location"])
        if not is_same_place(response.url, target):
            raise DataError(f"the server redirects to {target}, which is another place")


def is_same_place(address: str, target: str) -> bool:
    """Whether a redirect stays on its host, and on https if it came from there.

    >>> is_same_place("http://a.org/x", "https://a.org/y")
    True
    >>> is_same_place("https://a.org/x", "http://a.org/y")
    False
    >>> is_same_place("http://a.org/x", "file:///etc/passwd")
    False
    """
    before, after = urlsplit(address), urlsplit(target)
    secure = {"http": ("http", "https"), "https": ("https",)}
    if after.scheme not in secure.get(before.scheme, ()) or after.hostname != before.hostname:
        return False
    return after.port == before.port or (before.port, after.port) in ((None, 443), (80, None))


def _retrieve(address: str, md5: str, path: Path, name: str, entry: Entry, folder: Path) -> None:
    remedy = where_to_put(name, entry, folder)
    try:
        import pooch  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(
            f"{entry.title} is not in {folder}, and downloads need pooch: pip install"
            f" 'tacthmc[data]'. Or {remedy}"
        ) from error
    logger: Any = pooch.get_logger()
    before = logger.level
    # Its messages repeat the progress bar.
    logger.setLevel(logging.WARNING)
    # The types of pooch do not include custom progress bars.
    bar: Any = _Progress(path.name)
    downloader: Any = pooch.HTTPDownloader(
        progressbar=bar, timeout=30, hooks={"response": _check_response}
    )
    try:
        pooch.retrieve(
            address,
            known_hash=f"md5:{md5}",
            fname=path.name,
            path=path.parent,
            downloader=downloader,
        )
    except (OSError, ValueError) as error:
        # A wrong checksum is a ValueError, and errors of the network are OSErrors.
        raise DataError(
            f"{entry.title} is not in {folder} and could not be downloaded from {address}"
            f" ({error}): {remedy}"
        ) from error
    finally:
        logger.setLevel(before)
