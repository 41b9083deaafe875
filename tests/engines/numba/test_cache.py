"""Stale kernels on disk are forgotten; valid ones stay."""

import noisyor.engines.numba.cache as cache


class Kernel:
    """Stands where a compiled function says where it is cached."""

    def __init__(self, path):
        self._cache = self
        self.cache_path = str(path)


def test_entries_of_other_sources_are_dropped(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    cache.forget_stale_kernels(Kernel(folder))
    for name in ("kernel.nbi", "kernel.1.nbc", "other.txt"):
        (folder / name).write_bytes(b"content")
    cache.forget_stale_kernels(Kernel(folder))
    assert (folder / "kernel.nbi").exists()  # same sources: kept
    monkeypatch.setattr(cache, "_digest", lambda folder: "changed")
    cache.forget_stale_kernels(Kernel(folder))
    left = sorted(path.name for path in folder.iterdir())
    assert left == ["noisyor-kernels.stamp", "other.txt"]


def test_any_source_of_the_engine_counts(tmp_path):
    (tmp_path / "a.py").write_text("x = 1")
    (tmp_path / "b.py").write_text("y = 1")
    before = cache._digest(tmp_path)
    assert cache._digest(tmp_path) == before
    (tmp_path / "b.py").write_text("y = 2")
    assert cache._digest(tmp_path) != before


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    cache.forget_stale_kernels(Kernel(file / "below"))
    cache.forget_stale_kernels(object())
    assert file.read_text() == "not a folder"
