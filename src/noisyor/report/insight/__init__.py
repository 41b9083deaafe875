"""What was found, before how well: a map of the causes, a sentence, classes, texts, comparisons."""
