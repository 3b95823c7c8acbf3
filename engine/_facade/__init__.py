"""
jumar: an event-sourced training-state engine with an audit log, for PyTorch.

This facade is torch-free; trainers use `jumar.adapters.torch.TrainingRun`.
"""

from jumar.engine.effects import Outcome
from jumar.engine.errors import (
    AttemptOver,
    LogDamaged,
    LogFailed,
    RankLost,
    RankMismatch,
    RestoreError,
    RunBusy,
    SaveRejected,
    TrainingPoisoned,
)
from jumar.engine.opening import open_run
from jumar.engine.run import Run
from jumar.reducers.errors import JumarError, PolicyError
from jumar.reducers.policy import Policy
from jumar.reducers.rules import (
    KeepBest,
    KeepEvery,
    KeepLast,
    KeepRatio,
    KeepWithin,
    Pin,
    Schedule,
)

__all__ = [
    "AttemptOver",
    "JumarError",
    "KeepBest",
    "KeepEvery",
    "KeepLast",
    "KeepRatio",
    "KeepWithin",
    "LogDamaged",
    "LogFailed",
    "Outcome",
    "Pin",
    "Policy",
    "PolicyError",
    "RankLost",
    "RankMismatch",
    "RestoreError",
    "Run",
    "RunBusy",
    "SaveRejected",
    "Schedule",
    "TrainingPoisoned",
    "open_run",
]
