"""The figures of the lessons. Each is a function of data that returns a matplotlib Figure; `show` displays it."""

from vit_classroom.plots.answers import answer_gallery, confusion, confusion_table
from vit_classroom.plots.attention import attention_maps, map_grid, overlay_rows, picture_and_weights
from vit_classroom.plots.basics import (
    clusters,
    curve_panels,
    curves,
    dots,
    heat_maps,
    intervals,
    named_points,
    number_tables,
    seed_curves,
    show,
    slider,
    value_histograms,
)
from vit_classroom.plots.convolutions import hybrid_diagram, window_diagram
from vit_classroom.plots.diagrams import (
    attention_diagram,
    block_diagram,
    heads_diagram,
    token_sequence,
    token_trace,
    vit_overview,
)
from vit_classroom.plots.masking import masking_diagram
from vit_classroom.plots.pictures import image_grid, image_row, patch_grid, sample_photo, to_picture
from vit_classroom.plots.style import PALETTE, course_style

__all__ = [
    "PALETTE",
    "answer_gallery",
    "attention_diagram",
    "attention_maps",
    "block_diagram",
    "clusters",
    "confusion",
    "confusion_table",
    "course_style",
    "curve_panels",
    "curves",
    "dots",
    "heads_diagram",
    "heat_maps",
    "hybrid_diagram",
    "image_grid",
    "image_row",
    "intervals",
    "map_grid",
    "masking_diagram",
    "named_points",
    "number_tables",
    "overlay_rows",
    "patch_grid",
    "picture_and_weights",
    "sample_photo",
    "seed_curves",
    "show",
    "slider",
    "to_picture",
    "token_sequence",
    "token_trace",
    "value_histograms",
    "vit_overview",
    "window_diagram",
]
