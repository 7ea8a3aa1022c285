"""Spare pytest and its workers what nobody asks for when notebooks are read; the Makefile loads it first.

`nbformat` verifies notebooks with `jsonschema`, which compiles the grammars of all kinds of web addresses as it is
imported: seconds in every process. No field of a notebook is such an address, and without the package it goes on.
"""

import sys

sys.modules["rfc3987_syntax"] = None
