"""Figures, sliders and profiles: what a notebook shows, and what happens without one."""

import sys
import types

import ipywidgets
import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.figure import Figure

from vit_course.classroom import plots
from vit_course.machinery.profiles import Profile, get_device, get_profile

PICTURE = torch.rand(3, 16, 16)
FIGURES = {
    "image_row": lambda: plots.image_row([PICTURE, PICTURE[:1]], ["colour", "grey"], "two"),
    "patch_grid": lambda: plots.patch_grid(PICTURE, 8, "four"),
    "curves": lambda: plots.curves({"a": ([1, 2], [3, 4]), "b": ([1, 2], [5, 6])}, "t", "x", "y", log="xy"),
    "heat_maps": lambda: plots.heat_maps([torch.eye(3)], ["one"], "t", "unit"),
    "value_histograms": lambda: plots.value_histograms({"a": PICTURE, "b": PICTURE}, "t", "x"),
    "vit_overview": plots.vit_overview,
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


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_a_figure_with_a_title_of_its_own(name):
    figure = FIGURES[name]()
    assert isinstance(figure, Figure)
    titles = [axis.get_title() for axis in figure.axes] + [figure.get_suptitle()]
    assert any(titles)
    plt.close(figure)


def test_shown_figure_carries_its_alt_text_and_is_closed(notebook):
    figure = plots.image_row([PICTURE], ["one"], "title")
    plots.show(figure, "a picture")
    assert notebook == [((figure,), {"metadata": {"image/png": {"alt": "a picture"}}})]
    assert not plt.fignum_exists(figure.number)


def test_alt_text_is_printed_where_there_is_no_notebook(capsys):
    plots.show(plots.image_row([PICTURE], ["one"], "title"), "a picture")
    assert capsys.readouterr().out == "[figure] a picture\n"


def test_slider_draws_once_with_the_first_values_outside_a_notebook():
    drawn = []
    plots.slider(lambda **values: drawn.append(values), side=[4, 8], head=[0, 1])
    assert drawn == [{"side": 4, "head": 0}]


def test_slider_in_a_notebook_draws_and_offers_every_value(notebook, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_WIDGETS", "1")
    offered = {}
    monkeypatch.setattr(ipywidgets, "interact", lambda draw, **controls: offered.update(controls))
    plots.slider(lambda side: None, side=[4, 8])
    assert offered["side"].options == (4, 8)


def test_slider_is_left_out_where_nobody_will_move_it(notebook, monkeypatch, capsys):
    monkeypatch.setenv("VIT_COURSE_WIDGETS", "0")
    plots.slider(lambda side: pytest.fail("drawn"), side=[4, 8])
    assert "works when you run the notebook" in capsys.readouterr().out


def test_grey_and_colour_uint8_and_float_pictures_become_what_imshow_takes():
    assert plots.to_picture(PICTURE).shape == (16, 16, 3)
    assert plots.to_picture(PICTURE[:1]).shape == (16, 16)
    assert plots.to_picture((255 * PICTURE).to(torch.uint8)).max() <= 1


def test_sample_photo_needs_no_network_and_has_the_size_asked_for():
    assert plots.sample_photo((20, 30)).shape == (3, 20, 30)


def test_profile_comes_from_the_environment_and_picks_its_own_value(monkeypatch):
    monkeypatch.setenv("VIT_COURSE_PROFILE", "smoke")
    assert get_profile() == Profile("smoke")
    assert get_profile().pick(smoke=1, cpu=2, gpu=3) == 1


def test_unknown_profile_is_refused_with_the_known_ones(monkeypatch):
    monkeypatch.setenv("VIT_COURSE_PROFILE", "huge")
    with pytest.raises(ValueError, match="'huge': use smoke, cpu, gpu"):
        get_profile()


def test_device_is_one_that_this_machine_has():
    torch.zeros(1, device=get_device())
