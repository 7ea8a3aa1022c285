"""Figures, sliders and profiles: what a notebook shows, and what happens without one."""

import sys
import types
import unicodedata

import ipywidgets
import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text

from vit_classroom import plots
from vit_classroom.plots import style
from vit_classroom.profiles import Profile, get_profile

PICTURE = torch.rand(3, 16, 16)
LINES = {"a": ([1, 2], [3, 4]), "b": ([1, 2], [5, 6])}
MAP = torch.rand(4, 4)
FIGURES = {
    "answer_gallery": lambda: plots.answer_gallery(
        torch.rand(4, 3, 16, 16), torch.rand(4, 2, 2), torch.eye(4), "abcd", "t", torch.arange(4)
    ),
    "attention_diagram": plots.attention_diagram,
    "attention_maps": lambda: plots.attention_maps(PICTURE, [MAP, MAP], ["1", "2"], "t", (1, 2)),
    "block_diagram": plots.block_diagram,
    "clusters": lambda: plots.clusters(
        [torch.rand(6, 2)], torch.arange(6) % 2, ("a", "b"), ["one"], "t", "axis"
    ),
    "confusion_table": lambda: plots.confusion_table(torch.arange(3), torch.arange(3), "abc", "t"),
    "curve_panels": lambda: plots.curve_panels({"loss in nats": LINES, "share": LINES}, "t", "x", ("share",)),
    "curves": lambda: plots.curves(LINES, "t", "x", "y", log="xy"),
    "dots": lambda: plots.dots({"a": (["x", "y"], [1, 2]), "b": (["x"], [3])}, "t", "x"),
    "heat_maps": lambda: plots.heat_maps([torch.eye(3)], ["one"], "t", "unit"),
    "heads_diagram": plots.heads_diagram,
    "hybrid_diagram": plots.hybrid_diagram,
    "image_row": lambda: plots.image_row([PICTURE, PICTURE[:1]], ["colour", "grey"], "two"),
    "intervals": lambda: plots.intervals({"a": (1, 0.5, 2), "b": (0, -1, 1), "c": (-2, -3, -1)}, "t", "x"),
    "map_grid": lambda: plots.map_grid([torch.rand(2, 3, 2, 3)], ["one"], "t", "unit"),
    "masking_diagram": plots.masking_diagram,
    "named_points": lambda: plots.named_points({"a": (1, 2), "b": (10, 3)}, "t", "x", "y"),
    "number_tables": lambda: plots.number_tables([torch.eye(2)], ["one"], "t", ["r", "s"], ["c", "d"]),
    "overlay_rows": lambda: plots.overlay_rows(PICTURE[None], {"a": MAP[None]}, "t"),
    "patch_grid": lambda: plots.patch_grid(PICTURE, 8, "four"),
    "picture_and_weights": lambda: plots.picture_and_weights(PICTURE, MAP / MAP.sum(), "t", "name", (1, 1)),
    "seed_curves": lambda: plots.seed_curves(
        {"a": {1: [1, 2], 2: [2, 3]}}, "t", "x", "y", True, ("floor", 0)
    ),
    "token_sequence": lambda: plots.token_sequence(PICTURE, 8, "t"),
    "token_trace": lambda: plots.token_trace(PICTURE, [("one", MAP)], "t"),
    "value_histograms": lambda: plots.value_histograms({"a": PICTURE, "b": PICTURE}, "t", "x"),
    "vit_overview": plots.vit_overview,
    "window_diagram": lambda: plots.window_diagram([(3, 1), (2, 2), (3, 1)]),
}


@pytest.fixture
def notebook(monkeypatch):
    """Pretend that a notebook is there, and collect what it would display."""
    shown = []
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    display = types.SimpleNamespace(display=lambda *objects, **options: shown.append((objects, options)))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def test_every_function_that_draws_is_tried_here():
    notes = {name: getattr(getattr(plots, name), "__annotations__", {}) for name in plots.__all__}
    drawing = {name for name, note in notes.items() if "Figure" in str(note.get("return"))}
    assert drawing == FIGURES.keys()


@pytest.mark.parametrize(
    ("number", "height", "rows"), [(1, 2.2, 1), (4, 2.2, 1), (6, 2.2, 2), (10, 1.25, 2), (7, 2.6, 3)]
)
def test_pictures_stand_in_rows_where_one_would_be_wider_than_the_page(number, height, rows):
    figure = plots.image_row([PICTURE] * number, [str(i) for i in range(number)], "title", height)
    assert figure.get_figwidth() <= 10
    assert len({axis.get_subplotspec().rowspan.start for axis in figure.axes}) == rows
    assert sum(axis.has_data() for axis in figure.axes) == number


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_a_title_and_the_look_of_the_course_and_leaves_the_settings_as_they_were(name):
    before = dict(matplotlib.rcParams)
    figure = FIGURES[name]()
    assert dict(matplotlib.rcParams) == before
    assert isinstance(figure, Figure)
    titles = [axis.get_title() for axis in figure.axes] + [figure.get_suptitle()]
    assert any(titles)
    assert isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine)
    colour_bars = [axis for axis in figure.axes if axis.get_label() == "<colorbar>"]
    assert not any(axis.spines["top"].get_visible() for axis in set(figure.axes) - set(colour_bars))
    plt.close(figure)


def test_the_look_of_the_course_ends_with_an_error_too():
    before = dict(matplotlib.rcParams)
    with pytest.raises(ZeroDivisionError), plots.course_style():
        assert matplotlib.rcParams["image.cmap"] == "cividis"
        1 / 0  # noqa: B018
    assert dict(matplotlib.rcParams) == before


def test_shown_figure_carries_its_alt_text_and_is_closed(notebook):
    figure = plots.image_row([PICTURE], ["one"], "title")
    plots.show(figure, 'a "picture"')
    (((shown,), options),) = notebook
    assert options == {"raw": True} and shown["text/plain"].startswith("<Figure size ")
    assert '"><img alt="a &quot;picture&quot;" style="' in shown["text/html"]
    assert not plt.fignum_exists(figure.number)


def test_alt_text_is_printed_where_there_is_no_notebook(capsys):
    plots.show(plots.image_row([PICTURE], ["one"], "title"), "a picture")
    assert capsys.readouterr().out == "[figure] a picture\n"


def test_slider_draws_once_with_the_first_values_outside_a_notebook():
    drawn = []
    plots.slider(lambda **values: drawn.append(values), side=[4, 8], head=[0, 1])
    assert drawn == [{"side": 4, "head": 0}]


def test_slider_moves_the_named_controls_alone_and_shows_their_names_in_full(notebook, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_WIDGETS", "1")
    shown, drawn = [], []

    def interact(draw, **controls):
        shown.append(ipywidgets.interactive(draw, **controls))

    monkeypatch.setattr(ipywidgets, "interact", interact)
    plots.slider(lambda patch_side, depth=12: drawn.append((patch_side, depth)), patch_side=[4, 8])
    (control,) = shown[0].kwargs_widgets
    assert (control.description, control.style.description_width) == ("patch side", "initial")
    assert control.options == (4, 8)
    shown[0].f(patch_side=8)
    assert drawn[-1] == (8, 12)


def test_few_values_on_a_logarithmic_axis_are_its_ticks():
    figure = plots.curves({"a": ([1, 2, 32], [1, 2, 3])}, "t", "x", "y", log="x")
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["1", "2", "32"]


def test_a_gallery_marks_right_and_wrong_answers_and_names_the_true_class_of_a_wrong_one():
    pictures, maps, chances = torch.rand(2, 1, 8, 8), torch.rand(2, 2, 2), torch.tensor([[0.9, 0.1]] * 2)
    figure = plots.answer_gallery(pictures, maps, chances, ("cat", "dog"), "t", torch.tensor([0, 1]))
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    plt.close(figure)
    assert titles == ["✓ cat, 90 %", "", "✗ cat, 90 %: it is dog", ""]


def test_confusion_counts_answers_by_true_class():
    truth, answers = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0])
    assert plots.confusion(answers, truth, 2).tolist() == [[1, 1], [1, 0]]


def test_grey_and_colour_uint8_and_float_pictures_become_what_imshow_takes():
    assert plots.to_picture(PICTURE).shape == (16, 16, 3)
    assert plots.to_picture(PICTURE[:1]).shape == (16, 16)
    assert plots.to_picture((255 * PICTURE).to(torch.uint8)).max() <= 1


@pytest.mark.parametrize("name", ["portrait", "cat"])
def test_a_sample_photo_needs_no_network_and_has_the_size_asked_for(name):
    photo = plots.sample_photo((20, 30), name)
    assert photo.shape == (3, 20, 30) and len(photo.unique()) > 100


def test_profile_comes_from_the_environment_and_picks_its_own_value(monkeypatch):
    monkeypatch.setenv("VIT_COURSE_PROFILE", "smoke")
    assert get_profile() == Profile("smoke")
    assert get_profile().pick(smoke=1, cpu=2, gpu=3) == 1


def test_type_of_a_wide_figure_grows_so_that_it_is_as_large_as_that_of_a_small_one_when_both_fit_the_page():
    sizes = []
    for width in (style.PAGE, 2 * style.PAGE):
        figure, axes = plt.subplots(figsize=(width, 3))
        axes.set_title("a title", fontsize=7)
        axes.plot([0, 1])
        style.enlarge_type(figure)
        figure.canvas.draw()
        sizes.append([axes.title.get_fontsize(), axes.get_xticklabels()[0].get_fontsize()])
        plt.close(figure)
    (title, tick), wide = sizes
    assert title == style.SMALLEST and tick >= style.SMALLEST
    assert wide == [2 * title, 2 * tick]


KOREAN = ["고양이", unicodedata.normalize("NFD", "강아지"), "Ünï"]
"""Names of classes; the second one as a Mac names a folder, in parts of letters."""


def drawn_with_korean_names():
    """Return a figure whose title, ticks and labels are Korean."""
    figure, axis = plt.subplots()
    axis.bar(KOREAN, [1, 2, 3], label="동물")
    axis.set(title="막대", xlabel="x")
    axis.legend()
    return figure


def shown_texts(figure):
    figure.canvas.draw()
    return {text.get_text(): text.get_fontfamily() for text in figure.findobj(Text) if text.get_text()}


@pytest.mark.filterwarnings("error")  # matplotlib warns of a letter that its font does not have
def test_letters_that_no_font_here_has_are_spelled_out(monkeypatch):
    monkeypatch.setattr(style, "font_with", lambda letters: "")
    figure = drawn_with_korean_names()
    style.spell_out(figure)
    shown = shown_texts(figure)
    assert {"goyangi", "gangaji", "Ünï", "dongmul", "magdae"} <= shown.keys()
    assert set(map(tuple, shown.values())) == {("sans-serif",)}


def test_letters_that_a_font_here_has_are_drawn_by_it(monkeypatch):
    asked = []
    monkeypatch.setattr(style, "font_with", lambda letters: asked.append(letters) or "DejaVu Serif")
    figure = drawn_with_korean_names()
    style.spell_out(figure)
    assert asked == [frozenset("고양이강아지동물막대")]
    families = {tuple(family) for family in figure_families(figure, ["고양이", "강아지", "동물", "막대"])}
    assert families == {("sans-serif", "DejaVu Serif")}
    assert figure_families(figure, ["x"]) == [["sans-serif"]]


def figure_families(figure, texts):
    """Return the families of some texts of a figure, without drawing it."""
    labels = [*figure.findobj(Text), *figure.axes[0].get_xticklabels()]
    return [label.get_fontfamily() for label in labels if label.get_text() in texts]


def test_a_font_is_taken_by_the_letters_it_has_and_never_one_of_boxes_or_emoji():
    assert style.font_with(frozenset("abÜ")) and style.font_with(frozenset("\U0010fffd")) == ""


def test_a_figure_of_letters_that_are_there_stays_as_it_is():
    for draw in (FIGURES["clusters"], FIGURES["confusion_table"], FIGURES["block_diagram"]):
        torch.manual_seed(0)
        before = draw()
        torch.manual_seed(0)
        style.spell_out(after := draw())
        pixels = [FigureCanvasAgg(one).print_to_buffer()[0] for one in (before, after)]
        assert pixels[0] == pixels[1]
