"""What JupyterLab does with the course's notebooks, beside its settings.

It writes its version of Python into each notebook that it opens. A lesson keeps the one that it came with: else an
opened lesson would be saved with another version, and stand in the way of `git pull`. And it reads `custom.css`, from
the folder `custom` beside this file, or else the user's own.
"""

from pathlib import Path

from jupyter_core.paths import jupyter_config_dir

VERSION = "3.12.3"
"""The one that `authoring/notebooks/notebooks.py` writes."""


def keep_version(model: dict, **_) -> None:
    """Put the version back into a lesson that is about to be saved."""
    metadata = model["content"]["metadata"] if model["type"] == "notebook" else {}
    if "vit_course" in metadata and "language_info" in metadata:
        metadata["language_info"]["version"] = VERSION


c = get_config()  # noqa: F821
c.ContentsManager.pre_save_hook = keep_version
c.LabApp.custom_css = True
c.ServerApp.static_custom_path = [
    str(Path(parent, "custom")) for parent in (Path(__file__).parent, jupyter_config_dir())
]
