"""How to infer the hidden causes of observations."""
