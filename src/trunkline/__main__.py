"""`python -m trunkline`, and the `trunkline` command."""

import sys


def main() -> None:
    """Run the command line."""
    from trunkline.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
