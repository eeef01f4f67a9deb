"""The documentation site: the Markdown pages of this repository, by Sphinx. `make site` builds it in build/site."""

import os
import re

with open(os.path.join(os.path.dirname(__file__), "..", "CMakeLists.txt"), encoding="utf-8") as _f:
    release = version = re.search(r"^project\(mlff VERSION (\S+)", _f.read(), re.MULTILINE).group(1)

project = "mlff"
author = "the mlff authors"
copyright = "the mlff authors, MIT licence"
extensions = ["myst_parser", "sphinx_external_toc", "sphinx_copybutton"]
root_doc = "README"
include_patterns = ["*.md", "docs/**", "models/*.md", "examples/**.md", "benchmarks/results/*.md", "tests/*.md"]
exclude_patterns = ["build*", ".venv", "**/.*"]
external_toc_path = "docs/toc.yml"
myst_heading_anchors = 4
highlight_language = "none"  # most blocks are commands and input scripts
html_theme = "furo"
html_title = f"mlff {release}"
html_show_sourcelink = False
html_static_path = []


def redirect(app, exception):
    """index.html leads to the first page, which README.md is."""
    if not exception and app.builder.name == "html":
        with open(os.path.join(app.outdir, "index.html"), "w", encoding="utf-8") as f:
            f.write('<!doctype html><title>mlff</title><meta http-equiv="refresh" content="0; url=README.html">\n')


def setup(app):
    app.connect("build-finished", redirect)
