"""The folder of compiled libraries: only its user may write it, and what is loaded is what was put there."""

import ctypes
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from regard.native import library as module
from regard.native.library import Library, cache_folder, library
from regard.native.private_folder import UnsafeError, keep, kept, load, private_folder

ANOTHER = 4321
"""Some other user."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


@pytest.fixture(autouse=True)
def _forget():
    module._load.cache_clear()
    yield
    module._load.cache_clear()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A library that is made in a moment, and answers 7."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "seven.cpp").write_text('extern "C" int seven() { return 7; }')
    subprocess.run([compiler, "-shared", "-fPIC", folder / "seven.cpp", "-o", folder / "seven.so"], check=True)
    return folder / "seven.so"


@pytest.fixture
def cached(compiled, tmp_path):
    """The same in a private folder."""
    made = tmp_path / "made.so"
    shutil.copy(compiled, made)
    return keep(private_folder(tmp_path / "cache"), "seven", made)


def modes(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077])
def test_folders_are_made_for_one_user_whatever_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        made = private_folder(tmp_path / "one" / "two")
    finally:
        os.umask(before)
    assert [modes(path) for path in (made, made.parent)] == [0o700, 0o700]


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write_is_refused(tmp_path, mode):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    with pytest.raises(UnsafeError, match="can be written by other users"):
        private_folder(tmp_path / "cache")


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_so_is_one_within_a_folder_that_others_may_write(tmp_path, mode):
    """They could put another folder in its place."""
    (tmp_path / "open" / "cache").mkdir(parents=True)
    (tmp_path / "open").chmod(mode)
    with pytest.raises(UnsafeError, match=re.escape(f"{tmp_path}/open can be written by other users")):
        private_folder(tmp_path / "open" / "cache")


def test_one_within_a_folder_with_the_sticky_bit_is_fine(tmp_path):
    """As in /tmp, where nobody can replace what is another's."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    assert modes(private_folder(tmp_path / "tmp" / "cache")) == 0o700


@needs_root
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_a_folder_of_another_user_is_refused(tmp_path, mode):
    """Such as one that was there before us in /tmp."""
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    os.chown(folder, ANOTHER, ANOTHER)
    with pytest.raises(UnsafeError, match=f"^{re.escape(str(folder))} belongs to another user$"):
        private_folder(folder)


@needs_root
def test_so_is_one_within_another_users(tmp_path):
    """They may write their own folder, whatever its mode says."""
    folder = tmp_path / "theirs" / "cache"
    folder.mkdir(parents=True)
    os.chown(folder.parent, ANOTHER, ANOTHER)
    with pytest.raises(UnsafeError, match="theirs belongs to another user"):
        private_folder(folder)


@pytest.mark.parametrize("name", ["cache", "above"])
def test_links_lead_to_where_it_is_checked(tmp_path, name):
    (tmp_path / "open" / "cache").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / name).symlink_to(tmp_path / "open" if name == "above" else tmp_path / "open" / "cache")
    with pytest.raises(UnsafeError, match="open can be written by other users"):
        private_folder(tmp_path / name / "cache" if name == "above" else tmp_path / name)


def test_a_file_in_its_place(tmp_path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(NotADirectoryError):
        private_folder(tmp_path / "cache")


def test_what_is_kept_is_loaded(cached):
    assert load(cached).seven() == 7
    assert modes(cached) == 0o600
    assert kept(cached.parent, "seven") == [cached]
    assert not kept(cached.parent, "six")


@pytest.mark.parametrize("at", [0, 5000, -1])
def test_a_changed_byte_is_found_before_it_is_loaded(cached, monkeypatch, at):
    content = bytearray(cached.read_bytes())
    content[at] ^= 1
    cached.write_bytes(content)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("loaded"))
    with pytest.raises(UnsafeError, match="is damaged"):
        load(cached)


def test_what_was_cut_off_or_added_to_is_damaged(cached):
    content = cached.read_bytes()
    for other in (content[:-1], content + b"\0", b""):
        cached.write_bytes(other)
        with pytest.raises(UnsafeError, match="is damaged"):
            load(cached)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o777])
def test_a_library_that_others_may_write_is_refused(cached, mode):
    cached.chmod(mode)
    with pytest.raises(UnsafeError, match="can be written by other users"):
        load(cached)


@needs_root
def test_a_library_of_another_user_is_refused(cached):
    os.chown(cached, ANOTHER, ANOTHER)
    with pytest.raises(UnsafeError, match="can be written by other users"):
        load(cached)


def test_a_link_is_not_followed(cached, tmp_path):
    cached.rename(tmp_path / "elsewhere.so")
    cached.symlink_to(tmp_path / "elsewhere.so")
    with pytest.raises(OSError, match="symbolic links"):
        load(cached)


def test_a_pipe_is_not_waited_for(cached):
    cached.unlink()
    os.mkfifo(cached, 0o600)
    with pytest.raises(UnsafeError, match="is not a file"):
        load(cached)


def test_what_is_loaded_is_what_was_checked(cached, compiled, monkeypatch):
    """Replacing the file between the two changes nothing."""
    real = ctypes.CDLL

    def replace_first(name):
        other = cached.with_name("other")
        other.write_bytes(b"another")
        other.replace(cached)
        return real(name)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("no descriptors by name")
    monkeypatch.setattr(ctypes, "CDLL", replace_first)
    assert load(cached).seven() == 7


@pytest.fixture
def fast_compiler(compiled, tmp_path, monkeypatch):
    """A compiler that copies a library, and counts; Python takes it for the decoder."""
    script, count = tmp_path / "c++", tmp_path / "count"
    script.write_text(
        f'#!/bin/sh\necho "$TMPDIR" >> {count}\nwhile [ "$1" != -o ]; do shift; done\ncp {compiled} "$2"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(module, "_declare", lambda calls: calls)
    return lambda: count.read_text().splitlines() if count.exists() else []


def test_it_is_compiled_once_and_again_when_it_is_damaged(fast_compiler, tmp_path):
    assert library().calls.seven() == 7
    module._load.cache_clear()
    assert library().calls.seven() == 7
    assert len(fast_compiler()) == 1
    (path,) = (tmp_path / "home" / "regard").iterdir()
    path.write_bytes(b"damaged")
    module._load.cache_clear()
    assert library().calls.seven() == 7
    assert len(fast_compiler()) == 2
    assert [*(tmp_path / "home" / "regard").iterdir()] == [path]


def test_the_compilers_own_files_are_private_too(fast_compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/tmp")
    assert library().calls is not None
    (place,) = fast_compiler()
    assert Path(place).parent == tmp_path / "home" / "regard"


def test_a_planted_library_is_not_loaded(fast_compiler, tmp_path, monkeypatch):
    """Others have made the folder, with what they want to be loaded under the right name."""
    assert library().calls is not None
    shutil.move(tmp_path / "home", tmp_path / "theirs")
    (tmp_path / "theirs" / "regard").chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "theirs"))
    why = f"{tmp_path}/theirs/regard can be written by other users (chmod go-w would end that)"
    assert library() == Library(None, f"{why}: set XDG_CACHE_HOME to a folder that is yours alone")


@pytest.mark.parametrize("given", ["cache", "", "./cache", "../cache"])
def test_a_folder_that_depends_on_where_we_are_is_ignored(monkeypatch, given):
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder() == "/home/somebody/.cache/regard"


def test_a_user_without_a_home(monkeypatch, fast_compiler):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    why = "this user has no home to keep it in: set XDG_CACHE_HOME to a folder that is yours alone"
    assert library() == Library(None, why)
