"""Generate data whose true causes are known.

    import noisyor as nor

    matrix = nor.datasets.generate_bmf(n=100, r=20)
    images = nor.datasets.generate_deconvolution(n_images=100)

The public names are listed in ``__init__.pyi`` and imported on first use. The data sets of the
paper are loaded by ``reproduction.datasets``, from a clone of the repository.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
