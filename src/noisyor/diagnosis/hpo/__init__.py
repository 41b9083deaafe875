"""Diseases, the ontology of findings and a patient: a noisy-OR network and what it says."""
