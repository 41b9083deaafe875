from .counterfactual import what_if as what_if
from .interview import Interview as Interview
from .interview import next_question as next_question
from .odd import odd_rows as odd_rows
from .ranking import named_evidence as named_evidence
from .ranking import rank_causes as rank_causes
