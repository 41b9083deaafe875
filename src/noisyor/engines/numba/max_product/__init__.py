"""Max-product, compiled: one factor, eight children at a time, whole rows."""
