"""The tutorial: run cell by cell in this process, and shown as a page. No Jupyter is needed for either."""

import ast
import base64
import contextlib
import io
import json
from typing import Any


def cells(notebook: str) -> list[tuple[str, str]]:
    r"""Return the kind and the source of every cell of a notebook (nbformat 4).

    Examples
    --------
    >>> cells(
    ...     '{"cells": [{"cell_type": "code", "source": ["x = 1\\n", "x"], "outputs": []}]}'
    ... )
    [('code', 'x = 1\nx')]
    """
    return [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(notebook)["cells"]]


def run(source: str, names: dict[str, Any], where: str = "cell") -> tuple[str, Any]:
    r"""Run one cell; return what it printed and the value of its last expression, or None.

    Examples
    --------
    >>> names = {}
    >>> run("x = 2\nprint('so')\nx + 1", names), names["x"]
    (('so\n', 3), 2)
    """
    tree = ast.parse(source, where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(tree, where, "exec"), names)
        value = eval(compile(ast.Expression(last.value), where, "eval"), names) if last is not None else None
    return said.getvalue(), value


def shown(said: str, value: Any) -> str:
    r"""Return what a cell said and gave as Markdown: a value shows itself as in a notebook.

    Examples
    --------
    >>> shown("so\n", None)
    '```text\nso\n```'
    """
    parts = [f"```text\n{said.rstrip()}\n```"] if said.strip() else []
    if hasattr(value, "_repr_html_"):
        parts.append(f'```{{raw}} html\n<div class="output">{value._repr_html_()}</div>\n```')
    elif hasattr(value, "_repr_png_"):
        picture = base64.b64encode(value._repr_png_()).decode()
        parts.append(f'```{{raw}} html\n<img alt="{value!r}" src="data:image/png;base64,{picture}">\n```')
    elif value is not None:
        parts.append(f"```text\n{value!r}\n```")
    return "\n\n".join(parts)


def as_markdown(notebook: str, *, run_cells: bool) -> str:
    """Return the page, with what the cells give where they are run.

    Examples
    --------
    >>> text = '{"cells": [{"cell_type": "markdown", "source": "# T"}, {"cell_type": "code", "source": "1 + 1"}]}'
    >>> print(as_markdown(text, run_cells=True))
    # T
    <BLANKLINE>
    ```python
    1 + 1
    ```
    <BLANKLINE>
    ```text
    2
    ```
    """
    parts, names = [], {"__name__": "__main__"}
    for kind, source in cells(notebook):
        parts.append(source if kind == "markdown" else f"```python\n{source}\n```")
        if kind == "code" and run_cells:
            parts.append(shown(*run(source, names)))
    return "\n\n".join(part for part in parts if part)
