"""Files of older versions, and how they were made: see ``make_golden.py``."""
