"""A file that is written anew is the old one or the new one, whatever happens and whenever."""

import errno
import os

import pytest

from regard.atomic_files import folder_anew, write_atomically

OPERATIONS = ("open", "write", "flush", "fsync", "replace", "open folder", "fsync folder")


class Killed(BaseException):
    """Stands for kill -9: nothing may catch it."""


class Stopper:
    """Counts file operations, and fails at the nth of them."""

    def __init__(self, monkeypatch, at, error):
        self.at, self.error, self.seen = at, error, 0
        for place, name in ((os, "fsync"), (os, "replace"), (os, "open")):
            monkeypatch.setattr(place, name, self.wrap(getattr(place, name)))
        monkeypatch.setattr("builtins.open", self.wrap_open(open))

    def count(self):
        self.seen += 1
        if self.seen == self.at:
            raise self.error

    def wrap(self, operation):
        def run(*args, **kwargs):
            self.count()
            return operation(*args, **kwargs)

        return run

    def wrap_open(self, real):
        def run(path, *args, **kwargs):
            self.count()
            file = real(path, *args, **kwargs)
            return Written(file, self)

        return run


class Written:
    """A file whose writing may stop half-way."""

    def __init__(self, file, stopper):
        self.file, self.stopper = file, stopper

    def __enter__(self):
        self.file.__enter__()
        return self

    def __exit__(self, *details):
        return self.file.__exit__(*details)

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, content):
        self.file.write(content[: len(content) // 2])
        self.file.flush()
        self.stopper.count()
        self.file.write(content[len(content) // 2 :])

    def flush(self):
        self.stopper.count()
        self.file.flush()


def test_it_writes_and_leaves_nothing_beside(tmp_path):
    path = tmp_path / "file"
    for content in (b"first", b"", b"third"):
        write_atomically(path, content)
        assert path.read_bytes() == content
        assert os.listdir(tmp_path) == ["file"]


def test_these_are_all_operations(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        stopper = Stopper(patched, at=0, error=Killed())
        write_atomically(tmp_path / "file", b"new content")
    assert stopper.seen == len(OPERATIONS)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("at", range(1, len(OPERATIONS) + 1), ids=lambda at: OPERATIONS[at - 1])
@pytest.mark.parametrize("error", [Killed(), OSError(errno.ENOSPC, "No space left on device")], ids=["kill", "error"])
def test_a_failure_at_any_operation_leaves_old_or_new(tmp_path, monkeypatch, at, error, there):
    path = tmp_path / "file"
    if there:
        path.write_bytes(b"old content")
    with monkeypatch.context() as patched:
        Stopper(patched, at, error)
        with pytest.raises(type(error)):
            write_atomically(path, b"new content")
    replaced = at > OPERATIONS.index("replace") + 1
    found = path.read_bytes() if path.exists() else None
    assert found == (b"new content" if replaced else b"old content" if there else None)
    if isinstance(error, OSError):
        assert os.listdir(tmp_path) == (["file"] if found is not None else [])
    # Whatever a kill left, the next write succeeds and clears it away.
    write_atomically(path, b"newer content")
    assert path.read_bytes() == b"newer content"
    assert os.listdir(tmp_path) == ["file"]


def test_the_content_is_synced_before_the_name_is_given(tmp_path, monkeypatch):
    happened = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, real=real, name=name: (happened.append(name), real(*args))[1])
    write_atomically(tmp_path / "file", b"content")
    assert happened == ["fsync", "replace", "fsync"]


def test_a_folder_that_is_not_there_is_an_error_and_is_not_made(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "nowhere" / "file", b"content")
    assert os.listdir(tmp_path) == []


def test_a_folder_in_the_way_is_left_as_it_is(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "file", b"content")
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").is_dir()


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    link, folder = tmp_path / "link", tmp_path / "folder"
    link.symlink_to("there/file")
    write_atomically(link, b"content")
    assert link.is_symlink()
    assert (tmp_path / "there" / "file").read_bytes() == b"content"
    folder.symlink_to("there")
    for content in (b"one", b"two"):
        with folder_anew(folder) as building:
            (building / "file").write_bytes(content)
        assert folder.is_symlink()
        assert (tmp_path / "there" / "file").read_bytes() == content
    assert sorted(os.listdir(tmp_path)) == ["folder", "link", "there"]


def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(tmp_path / "pipe", b"content")
    assert os.read(reader, 99) == b"content"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
