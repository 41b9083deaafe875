"""The engine for accelerators: kernels of NVIDIA Warp, which run on a GPU or on the CPU."""

from noisyor.errors import MissingExtraError

try:
    import warp
except ImportError as error:
    raise MissingExtraError.of("the engine 'warp' needs Warp", "gpu") from error

del warp
