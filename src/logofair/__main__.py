"""``python -m logofair`` is the ``logofair`` command."""

from logofair.cli import main

if __name__ == "__main__":
    main()
