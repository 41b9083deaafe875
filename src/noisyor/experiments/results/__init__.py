"""The paper's numbers and figures, and ours beside them."""
