"""Tables of text: drawn for the width of a terminal, or whole and quick for whoever reads them from a pipe."""

import io
from collections.abc import Sequence

GAP = "  "
"""Between two columns."""


def draw_table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool], terminal: bool) -> str:
    """Return the lines of a table; `numbers` tells which columns stand at the right.

    On a terminal a cell that is too wide goes on in the next line; elsewhere nothing is ever cut or wrapped.
    """
    return _fitted(headings, rows, numbers) if terminal else _whole(headings, rows, numbers)


def _whole(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> str:
    from rich.cells import cell_len

    lines = [headings, *rows]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(headings))]
    text = io.StringIO()
    for line in lines:
        cells = []
        for cell, width, number in zip(line, widths, numbers, strict=True):
            blanks = " " * (width - cell_len(cell))
            cells.append(blanks + cell if number else cell + blanks)
        text.write(f"{GAP.join(cells).rstrip()}\n")
    return text.getvalue()


def _fitted(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for heading, number in zip(headings, numbers, strict=True):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in rows:
        # Text, not str: what is stored is never read as markup.
        table.add_row(*(Text(cell) for cell in row))
    text = io.StringIO()
    Console(file=text, force_terminal=True).print(table)
    return text.getvalue()
