"""What is kept on disk: model files, checkpoints and the formats of other tools."""
