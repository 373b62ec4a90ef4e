"""The documentation site: `./dev.sh docs` (Sphinx, MyST, Furo)."""

import sys
from pathlib import Path

import l4slab

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))
sys.path.append(str(Path(__file__).parent))

import citations
from l4slab.cli import parameters

# Pages that follow from the code alone are not kept.
for _name, _page in (("parameters", parameters), ("citations", citations)):
    Path(__file__).with_name(f"{_name}.md").write_text(_page.markdown(), "utf-8")

project = "l4slab"
author = "the l4slab authors"
version = release = l4slab.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "laboratory"]
exclude_patterns = ["_extensions"]
html_theme = "furo"
html_title = f"l4slab {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# The pages are read from a folder as well as from a server, and need no other host.
html_theme_options = {"footer_icons": []}
html_copy_source = False
html_show_copyright = False
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# Notebooks are kept without output and run here. A draft leaves that to the tests.
nb_execution_mode = "off" if tags.has("draft") else "force"  # type: ignore[name-defined]  # noqa: F821 (Sphinx's)
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_mime_priority_overrides = [("html", "image/svg+xml", 0)]
myst_links_external_new_tab = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
