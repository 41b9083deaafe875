from .forward import Sample as Sample
from .forward import visible_probability as visible_probability
from .names import hidden_names as hidden_names
from .names import topic_words as topic_words
