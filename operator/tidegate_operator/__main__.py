"""``python -m tidegate_operator``."""

from tidegate_operator.commands import main

if __name__ == "__main__":
    main()
