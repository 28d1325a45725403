"""`python -m heedful`, and the installed script: the command line."""

import signal


def main() -> None:
    """Run the command line; a Ctrl-C while it is imported ends the process like any other that has not begun."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from heedful.cli.main import main as run_command

    run_command()


if __name__ == "__main__":
    main()
