"""One file per claim; each runs Thresher and its peers in one process on the same data."""
