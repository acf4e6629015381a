"""Data sets: official formats from a server of our own, files that are wrong, no network."""

import gzip
import hashlib
import http.server
import io
import os
import pickle
import struct
import tarfile
import threading
import zipfile
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from tacthmc.cli._app import app
from tacthmc.paper import data
from tacthmc.paper.data import catalog
from tacthmc.paper.data.catalog import ENTRIES, Archive
from tacthmc.paper.data.official import KEYS
from tacthmc.paper.data.pickles import read_arrays

RNG = np.random.default_rng(0)


def images(count, *shape):
    return RNG.integers(0, 256, (count, *shape), dtype=np.uint8)


def idx(array):
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return gzip.compress(header + array.tobytes(), mtime=0)


def labels(classes, each):
    return np.tile(np.arange(classes, dtype=np.uint8), each)


SETS = {
    "fashion_mnist": (images(20, 28, 28), labels(10, 2), images(10, 28, 28), labels(10, 1)),
    "cifar10": (images(50, 32, 32, 3), labels(10, 5), images(10, 32, 32, 3), labels(10, 1)),
    "emnist_balanced": (images(94, 28, 28), labels(47, 2), images(47, 28, 28), labels(47, 1)),
}


def fashion_files(x, y, x_test, y_test):
    return {
        "train-images-idx3-ubyte.gz": idx(x),
        "train-labels-idx1-ubyte.gz": idx(y),
        "t10k-images-idx3-ubyte.gz": idx(x_test),
        "t10k-labels-idx1-ubyte.gz": idx(y_test),
    }


def emnist_files(x, y, x_test, y_test):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for part, (inputs, targets) in {"train": (x, y), "test": (x_test, y_test)}.items():
            stem = f"gzip/emnist-balanced-{part}"
            # Official images lie on their side.
            archive.writestr(f"{stem}-images-idx3-ubyte.gz", idx(inputs.swapaxes(1, 2)))
            archive.writestr(f"{stem}-labels-idx1-ubyte.gz", idx(targets))
    return {"gzip.zip": packed.getvalue()}


def tar_of(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def cifar_files(x, y, x_test, y_test):
    def batch(inputs, targets):
        rows = inputs.transpose(0, 3, 1, 2).reshape(len(inputs), -1)
        content = {b"data": rows, b"labels": targets.tolist(), b"batch_label": b"some"}
        return pickle.dumps(content, protocol=2)

    files = {f"data_batch_{i + 1}": batch(x[10 * i : 10 * i + 10], y[10 * i : 10 * i + 10])
             for i in range(5)}  # fmt: skip
    return {"cifar-10-python.tar.gz": tar_of({**files, "test_batch": batch(x_test, y_test)})}


FILES = {
    "fashion_mnist": fashion_files,
    "cifar10": cifar_files,
    "emnist_balanced": emnist_files,
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Small archives in the official formats, on this machine's own address."""
    root = tmp_path_factory.mktemp("server")
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=str(root))
    ) as opened:
        threading.Thread(target=opened.serve_forever, daemon=True).start()
        yield root, f"http://127.0.0.1:{opened.server_address[1]}"
        opened.shutdown()


@pytest.fixture
def small(server, monkeypatch):
    """The catalog with the server's small sets for the official ones."""
    root, address = server
    for name, make in FILES.items():
        arrays, archives = SETS[name], []
        for file, content in make(*arrays).items():
            (root / name).mkdir(exist_ok=True)
            (root / name / file).write_bytes(content)
            md5 = hashlib.md5(content).hexdigest()
            archives.append(Archive(file, f"{address}/{name}/{file}", md5))
        entry = replace(
            ENTRIES[name],
            archives=tuple(archives),
            num_train=len(arrays[0]),
            num_test=len(arrays[2]),
        )
        monkeypatch.setitem(catalog.ENTRIES, name, entry)
    return root


def assert_same(found, name):
    for array, expected in zip((*found.train, *found.test), SETS[name], strict=True):
        assert array.dtype == np.uint8
        assert np.array_equal(array, expected)


@pytest.mark.parametrize("name", list(SETS))
def test_downloaded_read_and_read_again(name, small, tmp_path, monkeypatch):
    pytest.importorskip("pooch")
    monkeypatch.setenv("TACTHMC_DATA", str(tmp_path))
    found = data.load(name)
    assert_same(found, name)
    assert found.num_classes == len(set(SETS[name][1]))
    assert "checksums right" in found.source
    # Now from the folder, whatever the server says.
    assert_same(data.load(name, download=False), name)


@pytest.mark.parametrize("name", list(SETS))
def test_archives_and_arrays_in_a_folder(name, small, tmp_path):
    (tmp_path / name).mkdir()
    for archive in catalog.ENTRIES[name].archives:
        (tmp_path / name / archive.file).write_bytes((small / name / archive.file).read_bytes())
    assert_same(data.load(name, folder=tmp_path), name)
    other = tmp_path / "other"
    other.mkdir()
    np.savez(other / f"{name}.npz", **dict(zip(KEYS, SETS[name], strict=True)))
    found = data.load(name, folder=other)
    assert_same(found, name)
    assert found.source.endswith(f"{name}.npz")


def test_without_a_network_it_says_what_to_put_where(small, tmp_path, monkeypatch):
    pytest.importorskip("pooch")
    entry = catalog.ENTRIES["cifar10"]
    # Port 9 discards; nothing listens there.
    nowhere = replace(entry.archives[0], address="http://127.0.0.1:9/cifar-10-python.tar.gz")
    monkeypatch.setitem(catalog.ENTRIES, "cifar10", replace(entry, archives=(nowhere,)))
    with pytest.raises(data.DataError, match="could not be downloaded") as error:
        data.load("cifar10", folder=tmp_path)
    assert str(tmp_path / "cifar10" / "cifar-10-python.tar.gz") in str(error.value)
    assert str(tmp_path / "cifar10.npz") in str(error.value)
    assert not list(tmp_path.rglob("*.gz"))


def test_without_pooch_it_says_so(small, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(ImportError, match=r"tacthmc\[data\].*cifar10.npz"):
        data.load("cifar10", folder=tmp_path)


def test_a_download_with_the_wrong_checksum_is_not_kept(small, tmp_path, monkeypatch):
    pytest.importorskip("pooch")
    entry = catalog.ENTRIES["cifar10"]
    other = replace(entry.archives[0], md5="0" * 32)
    monkeypatch.setitem(catalog.ENTRIES, "cifar10", replace(entry, archives=(other,)))
    with pytest.raises(data.DataError, match="hash"):
        data.load("cifar10", folder=tmp_path)
    assert not list(tmp_path.rglob("*.tar.gz"))


def test_emnist47_has_no_download_and_is_not_emnist_balanced(tmp_path):
    with pytest.raises(data.DataError, match=r"emnist47 is not in .*emnist47.npz"):
        data.load("emnist47", folder=tmp_path)
    x, y, x_test, y_test = SETS["emnist_balanced"]
    np.savez(tmp_path / "emnist_balanced.npz", x_train=x, y_train=y, x_test=x_test, y_test=y_test)
    with pytest.raises(data.DataError, match=r"x_train of emnist_balanced must be .*\(112800, 28"):
        data.load("emnist_balanced", folder=tmp_path)


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_that_would_run_something_is_refused(protocol, small, tmp_path):
    mark = tmp_path / "ran"
    packed = tar_of({"data_batch_1": pickle.dumps({b"data": Malicious(mark)}, protocol)})
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "cifar-10-python.tar.gz").write_bytes(packed)
    entry = catalog.ENTRIES["cifar10"]
    archive = replace(entry.archives[0], md5=hashlib.md5(packed).hexdigest())
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(catalog.ENTRIES, "cifar10", replace(entry, archives=(archive,)))
        with pytest.raises(data.DataError, match=r"it uses (posix|nt)\.mkdir"):
            data.load("cifar10", folder=tmp_path)
    assert not mark.exists()


@pytest.mark.parametrize("protocol", range(5))
def test_pickles_of_arrays_are_read(protocol):
    content = {"a": np.arange(6, dtype=np.uint8).reshape(2, 3), "b": [1, 2.5, None, b"x\xff"]}
    found = read_arrays(pickle.dumps(content, protocol), "it")
    values = list(found.values())
    assert np.array_equal(values[0], content["a"])
    assert values[1] == content["b"]
    for function in (eval, getattr, __import__("functools").partial, np.load):
        with pytest.raises(data.DataError, match="it uses"):
            read_arrays(pickle.dumps(function, protocol), "it")
    with pytest.raises(data.DataError, match="not a whole pickle"):
        read_arrays(pickle.dumps(content, protocol)[:-5], "it")


def fashion_folder(tmp_path, monkeypatch, **changed):
    files = fashion_files(*SETS["fashion_mnist"])
    files |= {f"{name.replace('_', '-')}-ubyte.gz": content for name, content in changed.items()}
    (tmp_path / "fashion_mnist").mkdir()
    archives = []
    for file, content in files.items():
        (tmp_path / "fashion_mnist" / file).write_bytes(content)
        archives.append(Archive(file, "", hashlib.md5(content).hexdigest()))
    entry = replace(ENTRIES["fashion_mnist"], archives=tuple(archives), num_train=20, num_test=10)
    monkeypatch.setitem(catalog.ENTRIES, "fashion_mnist", entry)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no gzip", "not a gzipped file"),
        (gzip.compress(b"\1\2\3\4", mtime=0), "expected it to begin with 0, 0, 8"),
        (idx(labels(10, 2))[:-9], "only a part"),
        (
            gzip.compress(struct.pack(">HBBI", 0, 8, 1, 20) + b"\0", mtime=0),
            r"\(20,\), but it holds 1 bytes",
        ),
        (idx(labels(5, 4)), "10 classes alike in size"),
        (idx(labels(20, 1)), "10 classes"),
        (idx(labels(10, 3)), r"y_train of fashion_mnist must be uint8 of shape \(20,\)"),
    ],
    ids=["no-gzip", "magic", "cut", "short", "classes", "one-class", "too-many"],
)
def test_files_that_are_wrong(content, message, tmp_path, monkeypatch):
    fashion_folder(tmp_path, monkeypatch, train_labels_idx1=content)
    with pytest.raises(data.DataError, match=message):
        data.load("fashion_mnist", folder=tmp_path)


def test_damaged_archives_and_arrays(small, tmp_path):
    (tmp_path / "cifar10").mkdir()
    path = tmp_path / "cifar10" / "cifar-10-python.tar.gz"
    path.write_bytes(b"something else")
    with pytest.raises(data.DataError, match="has the checksum"):
        data.load("cifar10", folder=tmp_path)
    (tmp_path / "cifar10.npz").write_bytes(b"something else")
    with pytest.raises(data.DataError, match=r"not an \.npz file"):
        data.load("cifar10", folder=tmp_path)
    np.savez(tmp_path / "cifar10.npz", x_train=np.zeros(3))
    with pytest.raises(data.DataError, match="has no y_train, x_test, y_test"):
        data.load("cifar10", folder=tmp_path)


def call(*arguments, code=0):
    result = CliRunner().invoke(app, ["data", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def test_the_command_line(small, tmp_path):
    text = call("list", "--folder", tmp_path)
    assert "emnist47" in text
    assert text.count(" no ") == len(ENTRIES)
    assert "no data set" in call("verify", "--folder", tmp_path)
    assert "emnist47.npz" in call("fetch", "emnist47", "--folder", tmp_path, code=1)
    pytest.importorskip("pooch")
    assert "cifar-10-python.tar.gz" in call("fetch", "cifar10", "--folder", tmp_path)
    assert "cifar10: right" in call("verify", "--folder", tmp_path)
    (tmp_path / "fashion_mnist.npz").write_bytes(b"")
    assert "not an .npz" in call("verify", "--folder", tmp_path, code=1)


def test_the_names_on_the_command_line_are_the_catalogue():
    from tacthmc.paper.data.command import SetName

    assert [name.value for name in SetName] == list(ENTRIES)


def some_set():
    x, y, x_test, y_test = SETS["cifar10"]
    return data.ImageSet("some", x, y, x_test, y_test, tuple("abcdefghij"), "here")


def test_normalised_by_training_channels():
    found = data.normalized(some_set())
    channels = found.train_images.reshape(-1, 3)
    assert np.allclose(channels.mean(axis=0), 0, atol=1e-5)
    assert np.allclose(channels.std(axis=0), 1, atol=1e-5)
    mean, sd = (f(some_set().train_images, axis=(0, 1, 2)) for f in (np.mean, np.std))
    expected = (some_set().test_images - mean) / sd
    assert np.allclose(found.test_images, expected, atol=1e-5)
    authors = data.normalized(some_set(), "authors")
    assert np.allclose(authors.test_images, (some_set().test_images / 255 - 0.1307) / 0.3081)
    with pytest.raises(TypeError, match="uint8"):
        data.normalized(found)


def test_validation_is_a_part_of_the_training_data_alike_in_classes():
    whole = some_set()
    held = data.validation_split(whole, 20, seed=1)
    assert np.bincount(held.test_labels).tolist() == [2] * 10
    assert np.bincount(held.train_labels).tolist() == [3] * 10
    both = np.concatenate([held.train_images, held.test_images])
    rows = {image.tobytes() for image in whole.train_images}
    assert {image.tobytes() for image in both} == rows
    assert len(both) == len(rows)
    again = data.validation_split(whole, 0.4, seed=1)
    assert np.array_equal(held.test_images, again.test_images)
    other = data.validation_split(whole, 20, seed=2)
    assert not np.array_equal(held.test_images, other.test_images)
    with pytest.raises(ValueError, match="size is 50"):
        data.validation_split(whole, 50)


def test_shapes_that_fit_a_model_and_that_do_not():
    from tacthmc.paper.networks import cnn, lstm

    assert data.shaped(some_set(), cnn()).test_images.shape == (10, 32, 32, 3)
    with pytest.raises(ValueError, match=r"images of shape \(32, 32, 3\), and the lstm takes"):
        data.shaped(some_set(), lstm())


@pytest.mark.parametrize("kind", ["gaussian_noise", "blur", "contrast", "pixelation"])
@pytest.mark.parametrize("shape", [(28, 28), (32, 32, 3)])
def test_corruptions_grow_with_severity(kind, shape):
    clean = images(2, *shape)
    away = []
    for severity in range(1, 6):
        worse = data.corrupted(clean, kind, severity)
        assert worse.shape == clean.shape
        assert np.array_equal(worse, data.corrupted(clean, kind, severity))
        away.append(np.mean((worse.astype(float) - clean) ** 2))
    assert away[0] > 0
    assert all(np.diff(away) > 0)
    if kind in ("blur", "pixelation"):
        flat = np.full((1, *shape), 77, np.uint8)
        assert np.array_equal(data.corrupted(flat, kind, 5), flat)
    with pytest.raises(ValueError, match="severity must be 1 to 5"):
        data.corrupted(clean, kind, 6)
