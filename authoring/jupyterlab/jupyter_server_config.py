"""JupyterLab writes its version of Python into each notebook that it opens; a lesson keeps the one that it came with.

Else an opened lesson would be saved with another version, and stand in the way of `git pull`.
"""

VERSION = "3.12.3"
"""The one that `authoring/notebooks/notebooks.py` writes."""


def keep_version(model: dict, **_) -> None:
    """Put the version back into a lesson that is about to be saved."""
    metadata = model["content"]["metadata"] if model["type"] == "notebook" else {}
    if "vit_course" in metadata and "language_info" in metadata:
        metadata["language_info"]["version"] = VERSION


get_config().ContentsManager.pre_save_hook = keep_version  # noqa: F821
