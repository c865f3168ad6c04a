"""A table as one picture: from all rows at once down to single cells, on a page of this machine."""
