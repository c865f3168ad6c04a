"""``python -m thresher`` is the ``thresher`` command."""

from thresher.cli import main

if __name__ == "__main__":
    main()
