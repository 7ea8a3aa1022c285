"""The attention of lesson 04 as a table that can be edited: change a number of a query or a key, and all steps follow.

`one_query` and `all_queries` compute what is shown, as texts; `edit_attention` puts controls around them in a notebook.
"""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from torch import Tensor

from vit_classroom.notebook import in_notebook
from vit_course.attention import scaled_dot_product_attention
from vit_course.training.kernel import somebody_looks

if TYPE_CHECKING:
    from ipywidgets import VBox

STEPS = ("1. scores", "2. scale", "3. softmax", "4. sum")
LARGEST = 9
"""Numbers of queries and keys lie between minus and plus this."""

FIELD = 52
"""Width of a field in pixels: on a screen 1024 pixels wide a line holds the four numbers of q and the four of k."""

SUM = "sum"
"""The row of sums, which has no bars."""

Rows = list[list[str]]


def vector(numbers: Tensor, digits: str = "g") -> str:
    """Write a vector as (1, 0, 2)."""
    return "({})".format(", ".join(f"{x:{digits}}" for x in numbers.tolist()))


def one_query(query: Tensor, keys: Tensor, values: Tensor, names: Sequence[str], step: int) -> Rows:
    """Write out what one query (d,) does: a head row, a row for each key, a row of sums; steps after `step` stay empty.

    Args:
        query: (d,).
        keys: (T, d).
        values: (T, e).
        names: of the T tokens.
        step: how many of the four steps are shown, 1 to 4.
    """
    query, keys, values = query.double(), keys.double(), values.double()
    scores, root = keys @ query, len(query) ** 0.5
    powers = (scores / root).exp()
    received, weights = scaled_dot_product_attention(query[None], keys, values)
    rows = [["key of", "1. score q·k", f"2. divided by {root:.3g}", "3. softmax", "4. weight · value"]]
    for j, name in enumerate(names):
        products = " + ".join(f"{a:g}·{b:g}" for a, b in zip(query.tolist(), keys[j].tolist(), strict=True))
        weight = f"{weights[0, j]:.2f}"
        steps = (
            f"{products} = {scores[j]:g}",
            f"{scores[j] / root:.3g}",
            f"{powers[j]:.3g} / {powers.sum():.3g} = {weight}",
            f"{weight} · {vector(values[j])}",
        )
        rows.append([name, *shown(steps, step)])
    sums = ("", "", f"{weights.sum():.2f}", vector(received[0], ".1f"))
    return [*rows, [SUM, *shown(sums, step)]]


def shown(cells: Sequence[str], step: int) -> list[str]:
    """Leave the cells of later steps empty."""
    return [cell if number < step else "" for number, cell in enumerate(cells)]


def all_queries(queries: Tensor, keys: Tensor, values: Tensor, names: Sequence[str]) -> Rows:
    """Write the weights (T, T) of all queries, and what each receives."""
    received, weights = scaled_dot_product_attention(queries.double(), keys.double(), values.double())
    rows = [["who listens to whom", *names, "receives"]]
    for name, row, result in zip(names, weights, received, strict=True):
        rows.append([name, *(f"{weight:.2f}" for weight in row), vector(result, ".1f")])
    return rows


def as_text(rows: Rows) -> str:
    """Align the cells of a table in plain text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def as_html(rows: Rows, bars: range, marked: int = 0) -> str:
    """Write a table in HTML; weights in the columns `bars` have a bar behind them, the marked row a line before it.

    A table that is wider than the page scrolls, in a box that is as wide as the page whatever it holds.
    """
    head, *body = rows
    lines = ["".join(cell_html("th", cell) for cell in head)]
    for number, row in enumerate(body, 1):
        line = "border-left: 3px solid #D55E00; " if number == marked else ""
        cells = [
            cell_html("td", cell, bar(cell) if i in bars and row[0] != SUM else "")
            for i, cell in enumerate(row)
        ]
        lines.append(cell_html("td", row[0], line) + "".join(cells[1:]))
    return '<div style="overflow-x: auto; width: 0; min-width: 100%"><table>{}</table></div>'.format(
        "".join(f"<tr>{line}</tr>" for line in lines)
    )


def bar(cell: str) -> str:
    """Return the style of a bar as long as the weight in which the cell ends."""
    weight = cell.rpartition(" ")[2]
    part = f"{float(weight or 0):.0%}"
    return f"background: linear-gradient(90deg, rgba(0, 114, 178, .35) {part}, transparent {part}); "


def cell_html(tag: str, cell: str, look: str = "") -> str:
    """Write one cell; only the words of a heading may go on in a second line."""
    wrap = "normal" if tag == "th" else "nowrap"
    return (
        f'<{tag} style="{look}padding: 2px 5px; text-align: left; white-space: {wrap}">{escape(cell)}</{tag}>'
    )


def edit_attention(queries: Tensor, keys: Tensor, values: Tensor, names: Sequence[str]) -> None:
    """Let the reader change queries and keys, choose a query, and go through its four steps.

    Outside a notebook, or with VIT_COURSE_WIDGETS=0, it shows the first query with all four steps.

    Args:
        queries: (T, d), small numbers; so few tokens and numbers that a table holds them.
        keys: (T, d).
        values: (T, e).
        names: of the T tokens.
    """
    if not in_notebook() or not somebody_looks():
        tables = one_query(queries[0], keys, values, names, 4), all_queries(queries, keys, values, names)
        html = both_tables(queries, keys, values, names, 0, 4)
        show_tables("\n\n".join(map(as_text, tables)), html)
    else:
        from IPython.display import display

        display(table_panel(queries, keys, values, names))


def show_tables(text: str, html: str) -> None:
    """Show tables in HTML in a notebook, as text elsewhere."""
    if not in_notebook():
        print(text)
        return
    from IPython.display import display

    display({"text/plain": text, "text/html": html}, raw=True)


def both_tables(
    queries: Tensor, keys: Tensor, values: Tensor, names: Sequence[str], chosen: int, step: int
) -> str:
    """Write the steps of the chosen query and the weights of all in HTML."""
    steps = as_html(one_query(queries[chosen], keys, values, names, step), range(3, 4))
    heading = f"<p>query of <b>{escape(names[chosen])}</b>: q = {vector(queries[chosen])}</p>"
    table = all_queries(queries, keys, values, names)
    return heading + steps + as_html(table, range(1, len(names) + 1), chosen + 1)


def table_panel(queries: Tensor, keys: Tensor, values: Tensor, names: Sequence[str]) -> "VBox":
    """Build the controls: a field for each number of q and k, the query, the step, a way back, and the tables below."""
    import ipywidgets as widgets

    fields = [number_fields(numbers) for numbers in (queries, keys)]
    query = widgets.ToggleButtons(options=[(name, i) for i, name in enumerate(names)], description="query")
    step = widgets.ToggleButtons(options=[(name, i) for i, name in enumerate(STEPS, 1)], description="step")
    back = widgets.Button(
        description="numbers of the lesson", layout=widgets.Layout(width="auto", align_self="flex-start")
    )
    tables = widgets.HTML()
    for buttons in (query, step):
        buttons.style.button_width = "auto"

    def draw(_: dict | None = None) -> None:
        q, k = (queries.new_tensor([[field.value for field in row] for row in rows]) for rows in fields)
        tables.value = both_tables(q, k, values, names, query.value, step.value)

    back.on_click(lambda _: set_numbers(fields, (queries, keys)))
    for control in [query, step, *(field for rows in fields for row in rows for field in row)]:
        control.observe(draw, names="value")
    draw()
    return widgets.VBox([field_grid(fields, names), query, step, back, tables])


def number_fields(numbers: Tensor) -> list[list]:
    """Make a field for each number of a matrix."""
    from ipywidgets import BoundedFloatText, Layout

    layout, limits = Layout(width=f"{FIELD}px", flex="0 0 auto"), {"min": -LARGEST, "max": LARGEST, "step": 1}
    return [[BoundedFloatText(x, **limits, layout=layout) for x in row] for row in numbers.tolist()]


def set_numbers(fields: Sequence[list[list]], matrices: Sequence[Tensor]) -> None:
    """Put the numbers of matrices into their fields."""
    for rows, matrix in zip(fields, matrices, strict=True):
        for row, numbers in zip(rows, matrix.tolist(), strict=True):
            for field, number in zip(row, numbers, strict=True):
                field.value = number


def field_grid(fields: Sequence[list[list]], names: Sequence[str]) -> "VBox":
    """Put the fields of q and k side by side, a line for each token, below a line of headings."""
    from ipywidgets import HBox, Label, Layout, VBox

    def label(text: str, width: int) -> Label:
        return Label(text, layout=Layout(width=f"{width}px", flex="0 0 auto"))

    wide = (FIELD + 4) * len(fields[0][0]) - 4  # each field has a margin of 2 pixels at both sides
    lines = zip(names, *fields, strict=True)
    grid = [HBox([label(name, 80), *q, label("", 16), *k]) for name, q, k in lines]
    return VBox([HBox([label("", 80), label("query q", wide), label("", 16), label("key k", wide)]), *grid])
