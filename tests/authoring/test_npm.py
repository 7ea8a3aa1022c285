"""Files that npm brings for slides and the web book."""

import pytest

from authoring.notebooks.course import LessonError
from authoring.site import npm


@pytest.mark.parametrize("package", npm.PACKAGES)
def test_an_archive_that_is_not_the_tested_one_is_refused(package, tmp_path):
    (tmp_path / f"{package}.tgz").write_bytes(b"something else")
    with pytest.raises(LessonError, match=rf"{package}\.tgz is not the package that was tested"):
        npm.lay_beside(tmp_path, tmp_path, package)


def test_without_npm_a_reader_is_told_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(npm.shutil, "which", lambda name: None)
    with pytest.raises(
        LessonError, match="npm is missing: install Node.js, or put the archive mathjax-3.2.2.tgz"
    ):
        npm.lay_beside(tmp_path, tmp_path, "mathjax-3.2.2")
