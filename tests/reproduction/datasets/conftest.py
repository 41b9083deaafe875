"""No test of the data sets touches the network, nor the cache or the data folder of the user."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reproduction.datasets import download as fetching


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch) -> Path:
    """An empty cache, and no data folder."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.delenv("NOISYOR_DATA", raising=False)
    monkeypatch.setattr(fetching, "cache_folder", lambda: folder)
    download = fetching._download

    def guarded(file, url, progress):
        if not url.startswith("http://127.0.0.1:"):
            pytest.fail(f"the test would have downloaded {url}")
        return download(file, url, progress)

    monkeypatch.setattr(fetching, "_download", guarded)
    return folder


@pytest.fixture
def real_data(data_dir, monkeypatch) -> Path:
    """The real files, as a user has them."""
    monkeypatch.setenv("NOISYOR_DATA", str(data_dir))
    return data_dir


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_) -> None:
        pass

    def copyfile(self, source, outputfile) -> None:
        """Files whose name says so break off in the middle."""
        content = source.read()
        outputfile.write(content[: len(content) // 2] if "broken" in self.path else content)


@pytest.fixture
def server(tmp_path) -> Iterator[tuple[Path, str]]:
    """A folder and the address at which a server on this machine shows it."""
    folder = tmp_path / "server"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=folder)) as http:
        thread = threading.Thread(target=partial(http.serve_forever, poll_interval=0.02))
        thread.start()
        yield folder, f"http://127.0.0.1:{http.server_port}/"
        http.shutdown()
        thread.join()
