"""The hot loops of inference, one folder per engine."""
