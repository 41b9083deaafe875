from .gibbs_em import learn_by_gibbs
from .options import TrainChanges, TrainOptions
from .phases import Phase, PhasedRun, train_hybrid, train_phases
from .priors import BetaPrior, smoothing_prior
from .pruning import leave_one_out_gain, prune_hidden
from .recipes import FitResult
from .starts import start_by_sampling, start_by_search
from .state import Callback, Evaluation, History, StepInfo, TrainingResult, TrainingState
from .stream import StreamState, learn_chunk, start_stream
from .train import gradient, init, step, update

__all__ = [
    "BetaPrior",
    "Callback",
    "Evaluation",
    "FitResult",
    "History",
    "Phase",
    "PhasedRun",
    "StepInfo",
    "StreamState",
    "TrainChanges",
    "TrainOptions",
    "TrainingResult",
    "TrainingState",
    "gradient",
    "init",
    "learn_by_gibbs",
    "learn_chunk",
    "leave_one_out_gain",
    "prune_hidden",
    "smoothing_prior",
    "start_by_sampling",
    "start_by_search",
    "start_stream",
    "step",
    "train_hybrid",
    "train_phases",
    "update",
]
