"""Ranked causes in words, who explains what, what if, diseases."""
