"""The engine for accelerators: kernels of NVIDIA Warp, which run on a GPU or on the CPU."""

from noisyor.errors import MissingExtraError

try:
    import warp
except ImportError as error:
    raise MissingExtraError(
        "the engine 'warp' needs Warp, which is not installed: pip install 'noisyor[gpu]'"
    ) from error

del warp
