"""How `make docs` builds the reference from the docstrings: no network, and no warnings."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import thresher

project = "Thresher"
author = "the authors of Thresher"
version = release = thresher.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser", "_reference", "_tables"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
default_role = "code"
smartquotes = False  # quotation marks are those of Python, to be copied
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the sections "Parameters" give the types, in words
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_param = False  # types are words, and words are no links
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_rtype = False
add_module_names = False
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"Thresher {version}"
html_math_renderer = "mathml"  # made by _reference: browsers draw it, no script is fetched
html_copy_source = False
html_show_copyright = False
