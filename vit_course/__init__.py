"""A Vision Transformer from scratch: the finished code behind the lessons.

Every lesson imports the parts it does not build itself from this package. The parts are small and separate:
`patches`, `embeddings`, `attention`, `encoder` and `vit` are the model, in the order of the lessons.

    from vit_course import create_vit, load_dataset

Four names stand here for who only uses the model; each is imported when it is first asked for.
"""

from importlib import import_module

__version__ = "2027.1"
__all__ = ["VisionTransformer", "create_vit", "evaluate", "load_dataset"]
_HOMES = {"VisionTransformer": "vit", "create_vit": "vit", "evaluate": "train", "load_dataset": "data"}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
