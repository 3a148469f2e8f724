"""``python -m lakecli``: the command line without the console script."""

from lakecli.cli.app import main

if __name__ == "__main__":
    main()
