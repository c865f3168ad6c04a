"""Charts as plain data, and who draws them."""
