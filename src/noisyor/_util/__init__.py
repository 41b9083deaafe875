"""Helpers without knowledge of the domain: files, progress, validation, sparse rows."""
