"""Pages for people to look at."""
