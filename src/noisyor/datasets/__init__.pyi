from .synthetic import BmfData as BmfData
from .synthetic import DeconvolutionData as DeconvolutionData
from .synthetic import generate_bmf as generate_bmf
from .synthetic import generate_deconvolution as generate_deconvolution
from .synthetic import true_features as true_features
