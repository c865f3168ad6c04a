"""The page about a model: its sections, and what they are made from."""
