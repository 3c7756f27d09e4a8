"""One self-contained HTML page of a study: a template of this folder, figures in the page's colours."""

from __future__ import annotations

import re
from typing import Any

import jinja2
from markupsafe import Markup

from hushvec_studies.harness.charts import COLOURS, FAINT, GRID, INK, RAMP

# Colours of figures as they are drawn, and the names that the style sheet has for them, for light and for dark.
_THEMED = {
    INK: "ink",
    FAINT: "faint",
    GRID: "grid",
    **{colour: f"c{number}" for number, colour in enumerate(COLOURS)},
    **{colour: f"r{number}" for number, colour in enumerate(RAMP)},
}
_COLOUR = re.compile("|".join(_THEMED))
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)


def rendered(template: str, **values: Any) -> str:
    """The page of a template of this folder, with the values that it names; a name that it lacks is an error."""
    loader = jinja2.PackageLoader(__package__, ".")
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    style = Markup(loader.get_source(environment, "style.css")[0])
    return environment.get_template(template).render(style=style, **values)


def themed(drawn: str) -> Markup:
    """A figure, as `harness.charts.svg_of` drew it, in the colours of the page."""
    return Markup(_COLOUR.sub(lambda match: f"var(--{_THEMED[match.group()]})", _METADATA.sub("", drawn)))
