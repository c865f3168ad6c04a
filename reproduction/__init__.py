"""Published results beside ours; ``python -m reproduction`` writes ``docs/reproduction.md``."""
