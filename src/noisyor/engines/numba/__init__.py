"""The CPU engine: hot loops compiled by numba, nothing else."""
