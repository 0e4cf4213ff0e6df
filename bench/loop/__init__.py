"""The accumulation loop: the subject of the benchmark, importable on its own. Needs torch and nothing else of ours.

Read in this order: plan, window, update, loop; then precision (AMP), sync and agreement (ranks), schedule.
"""

from bench.loop.agreement import Agreement, GlooAgreement, SingleRankAgreement, plan_window
from bench.loop.loop import AccumulationLoop
from bench.loop.observer import NoObserver, Observer, Observers, UpdateResult
from bench.loop.plan import WindowCounts, WindowPlan
from bench.loop.precision import Precision
from bench.loop.schedule import make_schedule
from bench.loop.sync import DdpGradientSync, GradientSync

__all__ = [
    "AccumulationLoop",
    "Agreement",
    "DdpGradientSync",
    "GlooAgreement",
    "GradientSync",
    "NoObserver",
    "Observer",
    "Observers",
    "Precision",
    "SingleRankAgreement",
    "UpdateResult",
    "WindowCounts",
    "WindowPlan",
    "make_schedule",
    "plan_window",
]
