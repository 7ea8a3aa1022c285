"""A newer release of the course in a student's copy: `python -m vit_classroom update`, with git and without.

`release` gets the files of the release, `merge` merges two notebooks cell by cell, and `command` brings the copy up to
date. What a student wrote is never lost: it stays in place, and what is replaced is moved into a folder of its own.
Nothing here loads more than Python's own library, because the packages are replaced while it runs.
"""
