"""`python -m heedful`: the command line without an installed script."""

from heedful.cli.main import main

if __name__ == "__main__":
    main()
