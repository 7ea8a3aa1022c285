"""The bug clinic of lesson 14.

A `patient` is a model made of nine functions: `healthy` has them as they should be, `bugs` with fifteen bugs in them
and three conventions of other people.
`measurements` finds what is wrong without reading code; `chart` keeps what a student has fixed.
"""
