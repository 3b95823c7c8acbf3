"""Where in a log the events of a type, checkpoint or step are; disposable."""
