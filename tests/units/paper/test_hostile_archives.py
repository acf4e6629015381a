"""Archives that want memory, places or hosts that are not theirs: refused, nothing is written."""

import gzip
import http.server
import io
import pickle
import struct
import tarfile
import threading
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from tacthmc.dynamics import load_bias
from tacthmc.dynamics._npz import NpzError, npz_headers, read_npz
from tacthmc.paper import data
from tacthmc.paper.data import catalog, download, idx, official
from tacthmc.paper.data.catalog import ENTRIES, Archive
from tacthmc.paper.data.pickles import read_arrays

MEGABYTE = 1 << 20


def packed(header, content=b"", method=zipfile.ZIP_DEFLATED, name="x.npy"):
    """A zip with one array, whose header may say anything."""
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, header)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr(name, made.getvalue() + content)
    return file.getvalue()


def header(*shape, descr="|u1"):
    return {"descr": descr, "fortran_order": False, "shape": shape}


def peak_of(action):
    """The most memory that an action takes, by Python's own count, with its error."""
    tracemalloc.start()
    try:
        with pytest.raises((data.DataError, NpzError)) as error:
            action()
        return tracemalloc.get_traced_memory()[1], str(error.value)
    finally:
        tracemalloc.stop()


def test_a_bomb_is_refused_before_it_goes_off(tmp_path):
    """A file of 64 KiB with 64 MiB of zeros, in the place of a data set."""
    path = tmp_path / "fashion_mnist.npz"
    zeros = np.zeros((64 * MEGABYTE) // 784, np.dtype("(28, 28)u1"))
    small = np.zeros(3, np.uint8)
    np.savez_compressed(path, x_train=zeros, y_train=small, x_test=small, y_test=small)
    assert path.stat().st_size < MEGABYTE / 8
    del zeros
    peak, error = peak_of(lambda: data.load("fashion_mnist", folder=tmp_path))
    assert "x_train of fashion_mnist must be uint8 of shape (60000, 28, 28)" in error
    assert peak < MEGABYTE
    peak, error = peak_of(lambda: load_bias_as_npz(path))
    assert "expected at most" in error
    assert peak < MEGABYTE


def load_bias_as_npz(path):
    return read_npz(path, MEGABYTE)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (packed(header(1 << 40)), "holds 1,099,511,627,776 bytes"),
        (packed(header(4), b"abc"), "has other ones"),
        (packed(header(2), b"abc"), "has other ones"),
        (packed(header(1, descr="|O"), b"x"), "array of objects"),
        (packed(header(3), b"abc", zipfile.ZIP_LZMA), "packed in a way"),
        (packed(header(3), b"abc", zipfile.ZIP_BZIP2), "packed in a way"),
        (packed(header(3), b"abc")[:-9], "not an .npz file"),
        (b"\x80\x04N.", "not an .npz file"),
        (pickle.dumps(print), "not an .npz file"),
    ],
)
def test_files_of_arrays_that_are_none(content, why, tmp_path):
    path = tmp_path / "bias.npz"
    path.write_bytes(content)
    with pytest.raises(NpzError, match=why):
        read_npz(path, MEGABYTE)
    with pytest.raises(ValueError, match=str(path)):
        load_bias(path)


def test_arrays_come_back_as_numpy_wrote_them(tmp_path):
    path = tmp_path / "a.npz"
    arrays = {
        "rows": np.arange(6.0).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "text": np.array("abc"),
        "none": np.zeros((0, 3), bool),
    }
    np.savez_compressed(path, **arrays)
    found = read_npz(path, MEGABYTE)
    assert found.keys() == arrays.keys() == npz_headers(path).keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)


def test_an_idx_file_that_unpacks_to_too_much(monkeypatch):
    monkeypatch.setattr(idx, "MAX_UNPACKED_BYTES", MEGABYTE)
    bomb = gzip.compress(struct.pack(">HBBI", 0, 8, 1, 1 << 25) + bytes(1 << 25), mtime=0)
    assert len(bomb) < MEGABYTE / 8
    peak, error = peak_of(lambda: idx.read_idx(bomb, "images"))
    assert "unpacks to more than 1,048,576 bytes" in error
    assert peak < 4 * MEGABYTE


def tar_with(member, content=b""):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def link(kind, target):
    member = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize(
    "member",
    [
        tarfile.TarInfo("../../escaped"),
        tarfile.TarInfo("/escaped"),
        link(tarfile.SYMTYPE, "/etc/passwd"),
        link(tarfile.LNKTYPE, "../../etc/passwd"),
        link(tarfile.FIFOTYPE, ""),
    ],
    ids=["up", "absolute", "symlink", "link", "fifo"],
)
def test_a_tar_reaches_nothing_outside_of_itself(member, tmp_path):
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "cifar-10-python.tar.gz").write_bytes(tar_with(member))
    with pytest.raises(data.DataError, match=r"archive for Python|is not a file"):
        official.cifar10(tmp_path / "cifar10")
    assert [path.name for path in tmp_path.iterdir()] == ["cifar10"]


def test_archives_with_members_that_are_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(official, "MAX_UNPACKED_BYTES", MEGABYTE)
    path = tmp_path / "cifar-10-python.tar.gz"
    path.write_bytes(tar_with(tarfile.TarInfo("other"), bytes(2 * MEGABYTE)))
    with pytest.raises(data.DataError, match="would take 2,097,152 bytes"):
        official.cifar10(tmp_path)
    with zipfile.ZipFile(tmp_path / "gzip.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        name = "gzip/emnist-balanced-train-images-idx3-ubyte.gz"
        archive.writestr(name, bytes(2 * MEGABYTE))
    with pytest.raises(data.DataError, match="would take 2,097,152 bytes"):
        official.emnist_balanced(tmp_path)


@pytest.mark.parametrize("shape", [(1 << 40,), (1 << 20, 1 << 20)])
def test_a_pickle_that_asks_for_memory(shape):
    class Asks:
        def __reduce__(self):
            return np.ndarray, (shape,)

    class Reconstructs:
        def __reduce__(self):
            return np._core.multiarray._reconstruct, (np.ndarray, shape, b"b")

    for asks in (Asks(), Reconstructs()):
        with pytest.raises(data.DataError, match="not a whole pickle of arrays"):
            read_arrays(pickle.dumps(asks), "it")


class Redirects(http.server.BaseHTTPRequestHandler):
    """Sends to what the path says, or a file that says that it is huge."""

    def do_GET(self):
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
        elif self.path == "/huge":
            self.send_response(200)
            self.send_header("Content-Length", str(1 << 40))
        else:
            self.send_response(200)
            self.send_header("Content-Length", "4")
        self.end_headers()
        if self.path == "/file":
            self.wfile.write(b"file")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Redirects) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def fetched(address, folder, monkeypatch):
    """What is fetched as CIFAR-10 from an address, where `file` is right."""
    pytest.importorskip("pooch")
    archive = Archive("x.tar.gz", address, "8c7dd922ad47494fc02c388e12c00eac")
    entry = replace(ENTRIES["cifar10"], archives=(archive,))
    monkeypatch.setitem(catalog.ENTRIES, "cifar10", entry)
    return download.fetch("cifar10", entry, folder)[0].read_bytes()


@pytest.mark.parametrize(
    "target",
    ["http://localhost:{port}/file", "http://127.0.0.1:1/file", "file:///etc/passwd", "//a.test/x"],
)
def test_a_redirect_to_another_place_is_refused(target, address, tmp_path, monkeypatch):
    port = address.rpartition(":")[2]
    with pytest.raises(data.DataError, match=r"redirects to .* another place"):
        fetched(f"{address}/to/{target.format(port=port)}", tmp_path, monkeypatch)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_redirect_on_the_same_host_is_followed(address, tmp_path, monkeypatch):
    assert fetched(f"{address}/to//file", tmp_path, monkeypatch) == b"file"


def test_a_download_that_would_fill_the_disk(address, tmp_path, monkeypatch):
    with pytest.raises(data.DataError, match="announces 1,099,511,627,776 bytes"):
        fetched(f"{address}/huge", tmp_path, monkeypatch)
    monkeypatch.setattr(download, "MAX_DOWNLOAD_BYTES", 1)
    with pytest.raises(data.DataError, match=r"sends more than|announces 4 bytes"):
        fetched(f"{address}/file", tmp_path, monkeypatch)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_places():
    for before, after in (
        ("https://a.org/x", "http://a.org/x"),
        ("https://a.org/x", "https://b.a.org/x"),
        ("https://a.org/x", "https://a.org:8443/x"),
        ("http://a.org/x", "ftp://a.org/x"),
        ("http://a.org/x", "https://a.org@b.org/x"),
    ):
        assert not download.is_same_place(before, after)
    assert download.is_same_place("http://a.org/x", "https://a.org/y?z")
