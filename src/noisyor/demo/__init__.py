"""The demo: shapes found in generated images."""
