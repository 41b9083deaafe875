"""Models on disk and in the formats of other tools."""
