"""Write what is made from the code itself: settings, commands, examples, and drawings of the graphs."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    import click
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[2]
GRAPHS = ("recall", "deliberation", "ingestion")

# Of the drawings, in pixels.
HEIGHT, GAP, LEFT, WIDTH = 40, 34, 150, 190
STYLE = (
    "path{fill:none;stroke:#6b7a8c;stroke-width:1.6}rect{fill:#eef3f8;stroke:#2c5f93;stroke-width:1.4}"
    "text{font:15px system-ui,sans-serif;text-anchor:middle;fill:#1d2733}marker path{fill:#6b7a8c;stroke:none}"
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the guides that the navigation does not name, and the decisions, of which there is one more now and then."""
    named = str(config["nav"])
    guides = next(entry["Guides"] for entry in config["nav"] if "Guides" in entry)
    guides += [path.name for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in named]
    decisions = [{_title(path): f"adr/{path.name}"} for path in sorted((ROOT / "docs" / "adr").glob("*.md"))]
    config["nav"] = [*config["nav"], {"Decisions": decisions}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and drawings."""
    from mkdocs.structure.files import File

    made = {
        "reference/settings.md": settings_page(),
        "reference/commands.md": commands_page(),
        "examples.md": examples_page(),
        **{f"images/{name}.svg": drawing(*graph_of(name)) for name in GRAPHS},
    }
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Lead links out of the documentation's folder to the page that shows what is there."""
    return re.sub(r"\]\(\.\./examples/?\)", "](examples.md)", markdown)


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").strip()


# Settings


def settings_page() -> str:
    """Return every setting with its type, default and meaning, and what each preset sets."""
    from dualmem.config import Options, Settings
    from dualmem.presets import LOCAL, PRESETS

    parts = [
        "# Settings\n",
        "Each can be given in code (`DualMem(top_k=20)`), in the environment (`DUALMEM_TOP_K=20`) or in a file `.env`; "
        "those under *of a run* also as the context of a graph's run. What is given by hand counts before the preset, "
        "and the preset before the default. `dualmem config` shows what is in force and where it comes from.\n",
        "## Of a run\n",
        _table(Options.model_fields),
        "\n## Of a deployment\n",
        _table({name: field for name, field in Settings.model_fields.items() if name not in Options.model_fields}),
        "\n## Presets\n",
        "| Preset | Sets |\n| --- | --- |",
        *(f"| `{name}` | {_values(values) or 'nothing'} |" for name, values in PRESETS.items()),
        "\n## Under the embedded model\n",
        "Beneath preset and defaults where `chat_model` is `local`: a small model needs small bites.\n",
        _values(LOCAL) + ".",
    ]
    return "\n".join(parts) + "\n"


def _table(fields: Any) -> str:
    rows = ["| Setting | Type | Default | Meaning |", "| --- | --- | --- | --- |"]
    for name, field in fields.items():
        default = field.get_default(call_default_factory=True)
        meaning = _cell(field.description or "")
        rows.append(f"| `{name}` | {_kind(field.annotation)} | {_code(default)} | {meaning} |")
    return "\n".join(rows)


def _kind(annotation: Any) -> str:
    if str(annotation).startswith("typing.Literal"):
        return " or ".join(f"`{value}`" for value in get_args(annotation))
    text = annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)
    if "Literal" in text:
        return "names"
    return " or ".join(f"`{part.rpartition('.')[2]}`" for part in text.split(" | "))


def _code(value: Any) -> str:
    return "" if value is None else f"`{_cell(str(value))}`"


def _values(values: Any) -> str:
    return ", ".join(f"`{name}={_cell(str(value))}`" for name, value in values.items())


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# Commands


def commands_page() -> str:
    """Return every command with its arguments and options, as its own help says them."""
    import typer.main

    from dualmem.cli.app import app

    parts = [
        "# Commands\n",
        "What `dualmem COMMAND --help` says, for every command. [At a terminal](../command-line.md) explains them.\n",
    ]
    _describe(typer.main.get_command(app), "dualmem", parts)
    return "\n".join(parts) + "\n"


def _describe(command: click.Command, name: str, parts: list[str]) -> None:
    inner: dict[str, click.Command] = getattr(command, "commands", {})
    if not inner:
        parts += [f"## {name}\n", (command.help or "").replace("\n\nExample: ", "\n\nExample: ").strip() + "\n"]
        rows = [_parameter(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
        if rows:
            parts += ["| Takes | Meaning | Default |", "| --- | --- | --- |", *rows, ""]
    for key, other in sorted(inner.items()):
        _describe(other, f"{name} {key}", parts)


def _parameter(parameter: click.Parameter) -> str:
    option = parameter.param_type_name == "option"
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts]) if option else ""
    names = names or f"`{(parameter.name or '').upper()}`"
    default = parameter.default
    shown = "needed" if parameter.required else "" if default in {None, False} or callable(default) else _code(default)
    return f"| {names} | {_cell(getattr(parameter, 'help', '') or '')} | {shown} |"


# Examples


def examples_page() -> str:
    """Return every example program with its text; all of them run in the tests."""
    parts = ["# Examples\n", "Whole programs, of the folder `examples`. The tests run every one of them.\n"]
    for path in sorted((ROOT / "examples").glob("*.py")):
        source = path.read_text(encoding="utf-8")
        parts += [f"## {path.stem.replace('_', ' ').capitalize()}\n", _intro(source), f"```python\n{source}```\n"]
    return "\n".join(parts) + "\n"


def _intro(source: str) -> str:
    return (ast.get_docstring(ast.parse(source)) or "") + "\n"


# Drawings


def graph_of(name: str) -> tuple[list[str], list[tuple[str, str, bool]]]:
    """Return the nodes and edges of a graph as it really compiles; an edge that is not always taken is True."""
    drawn = import_module(f"dualmem.graphs.{name}").graph.get_graph()
    edges = [(edge.source, edge.target, bool(edge.conditional)) for edge in drawn.edges]
    return list(drawn.nodes), edges


def drawing(nodes: list[str], edges: list[tuple[str, str, bool]]) -> str:
    """Draw a graph from top to bottom: nodes under each other, edges that pass some by as arcs beside them."""
    # The end comes last, wherever the graph lists it.
    order = {node: place for place, node in enumerate(sorted(nodes, key=lambda node: node == "__end__"))}
    parts = [_edge(order[source], order[target], conditional=conditional) for source, target, conditional in edges]
    for node, place in order.items():
        label = node.strip("_")
        radius = HEIGHT // 2 if label in {"start", "end"} else 6
        parts.append(f'<rect x="{LEFT}" y="{_top(place)}" width="{WIDTH}" height="{HEIGHT}" rx="{radius}"/>')
        parts.append(f'<text x="{LEFT + WIDTH // 2}" y="{_top(place) + 26}">{label}</text>')
    whole = _top(len(order))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 490 {whole}" width="490" height="{whole}" role="img">'
        f'<style>{STYLE}</style><defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>'
        f"{''.join(parts)}</svg>\n"
    )


def _top(place: int) -> int:
    return 20 + place * (HEIGHT + GAP)


def _edge(source: int, target: int, *, conditional: bool) -> str:
    dash = ' stroke-dasharray="5 4"' if conditional else ""
    middle = HEIGHT // 2
    if target == source + 1:
        path = f"M{LEFT + WIDTH // 2} {_top(source) + HEIGHT} V{_top(target) - 2}"
    else:
        # Forward on the right, back on the left; the further it goes, the wider.
        side, sign = (LEFT + WIDTH, 1) if target > source else (LEFT, -1)
        bend = side + sign * 22 * min(5, abs(target - source))
        start, end = _top(source) + middle, _top(target) + middle
        path = f"M{side} {start} C{bend} {start} {bend} {end} {side + 2 * sign} {end}"
    return f'<path d="{path}" marker-end="url(#a)"{dash}/>'
