"""Every kernel compiles for GPUs, on a machine without one."""

import re

import pytest

pytest.importorskip("warp", reason="Warp is not installed: pip install 'noisyor[gpu]'")

import warp as wp

from noisyor.engines.warp import kernels
from noisyor.engines.warp.engine import find_device


@pytest.mark.long
@pytest.mark.parametrize("arch", [80, 90])
def test_kernels_compile_to_ptx(arch, tmp_path):
    find_device("cpu")
    compiled = [name for name in vars(kernels).values() if isinstance(name, wp.Kernel)]
    [path] = wp.compile_aot_module(kernels.__name__, arch=arch, module_dir=tmp_path, use_ptx=True)
    code = path.read_text()
    assert f".target sm_{arch}" in code
    for kernel in compiled:
        assert re.search(rf"\.entry {kernel.key}_\w*cuda_kernel_forward\(", code)
    # Atomic additions would make bits depend on who comes first.
    assert not re.search(r"\b(atom|red)\.", code)
