"""Joint max-product over features and states, and flips of Boolean covers, compiled."""
