from .synthetic import generate_bmf as generate_bmf
from .synthetic import generate_deconvolution as generate_deconvolution
