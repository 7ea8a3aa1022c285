"""Settings of the web book: `authoring/site/book.py` copies this file beside its pages, and runs Sphinx there."""

from docutils import nodes

project = "Build a Vision Transformer"
author = "the vit_course authors"
language = "en"
extensions = ["myst_nb", "sphinx_copybutton", "sphinx.ext.mathjax"]

nb_execution_mode = "off"  # outputs come from the solutions
nb_merge_streams = True
nb_ipywidgets_js = {}  # no page has a control that works, and these scripts would come from another host
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3  # as GitHub does, for links such as #windows

mathjax_path = "tex-svg.js"  # in _static: the book needs no other host
mathjax3_config = {"options": {"enableMenu": False}}  # its menu would load files that are not there

html_theme = "sphinx_book_theme"
html_title = project
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"use_download_button": False}
copybutton_exclude = ".linenos, .gp, .go"


def setup(app):
    """Link every image to its full size, because a page shrinks it to its width."""
    app.connect(
        "doctree-read",
        lambda app, page: [image.setdefault("scale", 100) for image in page.findall(nodes.image)],
    )
