"""PyTorch: `TrainingRun` for plain modules and DistributedDataParallel."""

from jumar.adapters.torch.guard import Guard
from jumar.adapters.torch.training_run import TrainingRun

__all__ = ["Guard", "TrainingRun"]
