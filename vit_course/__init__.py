"""A Vision Transformer from nothing: the finished code behind the lessons.

Every lesson imports the parts it does not build itself from this package. The parts are small and separate:
`patches`, `embeddings`, `attention`, `encoder` and `vit` are the model, in the order of the lessons.
"""

__version__ = "0.1.0"
