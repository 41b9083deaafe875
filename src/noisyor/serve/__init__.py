"""A model to play with in the browser: findings go in, causes and likely findings come out."""
