"""Run the command line by ``python -m tidegate``."""

from tidegate.cli.main import main

if __name__ == "__main__":
    main()
