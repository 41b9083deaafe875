"""Mean-field inference, compiled."""
