"""Data to learn from: one module per data set or family.

    import noisyor as nor

    posts = nor.datasets.load_tiny20()
    reviews = nor.datasets.load_imdb()
    own = nor.data.vectorize(nor.datasets.load_documents("reports.csv", text_field="body"))

Files are taken from the folder that the environment variable ``NOISYOR_DATA`` names, else from the
cache, else downloaded into it. The public names are listed in ``__init__.pyi`` and imported on
first use.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
