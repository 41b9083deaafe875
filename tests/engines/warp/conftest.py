"""Tests of the engine for accelerators need Warp; none of them needs a GPU."""

import pytest

pytest.importorskip("warp", reason="Warp is not installed: pip install 'noisyor[gpu]'")
