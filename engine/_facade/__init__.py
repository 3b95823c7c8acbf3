"""jumar: an event-sourced training-state engine with an audit log, for PyTorch."""
