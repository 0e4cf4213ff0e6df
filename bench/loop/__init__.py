"""The accumulation loop: the subject of the benchmark, importable on its own. Needs torch and nothing else of ours.

In a rank's process, and in a user's own script. Read `window.py` first, then update, loop, plan; buffered, streamed
and grouping (where windows come from), precision and host_scale (AMP), sync, replica, fitness and agreement (ranks),
losses, schedule, checkpoint; equivalence and divergence check what must hold.
"""

from bench.loop.agreement import Agreed, Agreement, GlooAgreement, SingleRankAgreement
from bench.loop.buffered import BufferedWindow, Window
from bench.loop.checkpoint import CheckpointHook, restore_state, save_state
from bench.loop.divergence import diverged_parameters, parameters_checksum
from bench.loop.equivalence import batch_coupled_layers, forward_is_random, random_layers
from bench.loop.fitness import NoGradient
from bench.loop.grouping import windows
from bench.loop.loop import AccumulationLoop
from bench.loop.losses import SummedCrossEntropy, count_valid, logits_in, sum_target_weights
from bench.loop.observer import NoObserver, Observer, Observers, UpdateResult
from bench.loop.plan import WindowCounts, WindowPlan
from bench.loop.precision import Precision
from bench.loop.schedule import make_schedule
from bench.loop.streamed import ReadAhead, StreamedWindow
from bench.loop.sync import DdpGradientSync, GradientSync

__all__ = [
    "AccumulationLoop",
    "Agreed",
    "Agreement",
    "BufferedWindow",
    "CheckpointHook",
    "DdpGradientSync",
    "GlooAgreement",
    "GradientSync",
    "NoGradient",
    "NoObserver",
    "Observer",
    "Observers",
    "Precision",
    "ReadAhead",
    "SingleRankAgreement",
    "StreamedWindow",
    "SummedCrossEntropy",
    "UpdateResult",
    "Window",
    "WindowCounts",
    "WindowPlan",
    "batch_coupled_layers",
    "count_valid",
    "diverged_parameters",
    "forward_is_random",
    "logits_in",
    "make_schedule",
    "parameters_checksum",
    "random_layers",
    "restore_state",
    "save_state",
    "sum_target_weights",
    "windows",
]
