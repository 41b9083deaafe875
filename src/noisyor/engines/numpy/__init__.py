"""The reference engine: plain NumPy, slow and readable."""
