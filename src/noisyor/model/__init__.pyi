from .forward import visible_probability as visible_probability
from .names import topic_words as topic_words
