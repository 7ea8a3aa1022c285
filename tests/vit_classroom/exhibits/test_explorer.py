"""The attention explorer: every state it draws says what the weights say, whatever the model's grid and prefix."""

import io

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from vit_classroom import plots
from vit_classroom.exhibits import explorer
from vit_classroom.exhibits.explorer import (
    explore,
    explorer_controls,
    explorer_figure,
    laid_over,
    model_attentions,
    query_weights,
)
from vit_course.extensions.hybrid import HybridViT
from vit_course.vit import VisionTransformer

IMAGES = torch.randint(256, (2, 3, 8, 12), dtype=torch.uint8)


def random_attentions(prefix=1, layers=2, heads=3, patches=6, batch=2):
    generator = torch.Generator().manual_seed(0)
    tokens = prefix + patches
    return [torch.randn(batch, heads, tokens, tokens, generator=generator).softmax(-1) for _ in range(layers)]


def drawn(figure):
    """The title of a figure and the heat map in it, in percent; closes the figure."""
    title, heat = figure.get_suptitle(), torch.tensor(figure.axes[1].images[0].get_array())
    plt.close(figure)
    return title, heat


@pytest.mark.parametrize("head", [0, 2, "mean", "rollout"])
@pytest.mark.parametrize("prefix", [0, 1, 2])
def test_the_weights_of_every_query_sum_to_one(prefix, head):
    attentions = random_attentions(prefix)
    for token in range(prefix + 6):
        assert query_weights(attentions, 1, token, 2, head, prefix).sum().item() == pytest.approx(1, abs=1e-5)


def test_heads_and_layers_are_those_that_were_asked_for():
    attentions = random_attentions()
    torch.testing.assert_close(query_weights(attentions, 1, 4, 1, 2), attentions[0][1, 2, 4])
    torch.testing.assert_close(query_weights(attentions, 0, 0, 2, "mean"), attentions[1][0, :, 0].mean(0))
    half = [0.5 * layer[1].mean(0) + 0.5 * torch.eye(7) for layer in attentions]
    torch.testing.assert_close(query_weights(attentions, 1, 3, 1, "rollout"), half[0][3])
    torch.testing.assert_close(query_weights(attentions, 1, 3, 2, "rollout"), (half[1] @ half[0])[3])


@pytest.mark.parametrize("prefix", [0, 1, 2])
def test_heat_map_has_the_grid_of_the_picture_and_holds_the_weights_of_the_patches(prefix):
    attentions = random_attentions(prefix)
    _, heat = drawn(explorer_figure(IMAGES, attentions, 1, prefix + 4, 2, 0, num_prefix_tokens=prefix))
    expected = 100 * attentions[1][1, 0, prefix + 4, prefix:].reshape(2, 3)
    torch.testing.assert_close(heat.float(), expected)


def test_title_names_the_query_and_the_shares_of_patches_and_cls():
    attentions = random_attentions()
    title, heat = drawn(explorer_figure(IMAGES, attentions, 0, 5, 1, 1))
    share = attentions[0][0, 1, 5, 0].item()
    assert "layer 1, head 1" in title
    assert "patch (row 1, column 1) gives" in title
    assert f"{100 * share:.1f} % to CLS" in title
    assert f"{100 - 100 * share:.1f} % to the patches" in title
    assert heat.sum().item() == pytest.approx(100 * (1 - share), rel=1e-4)


def test_a_model_without_cls_gives_all_to_the_patches_and_one_with_more_names_each():
    without, _ = drawn(explorer_figure(IMAGES, random_attentions(0), 0, 0, 1, "mean", num_prefix_tokens=0))
    assert "100.0 % to the patches" in without
    assert "CLS" not in without
    two, _ = drawn(explorer_figure(IMAGES, random_attentions(2), 0, 1, 2, "rollout", num_prefix_tokens=2))
    assert "prefix token 1 gives" in two
    assert "to CLS, " in two


@pytest.mark.parametrize(
    ("prefix", "token", "corner"), [(1, 0, None), (1, 6, (7.5, 3.5)), (0, 0, (-0.5, -0.5))]
)
def test_the_frame_stands_on_the_patch_that_asks(prefix, token, corner):
    figure = explorer_figure(IMAGES, random_attentions(prefix), 0, token, 1, 0, num_prefix_tokens=prefix)
    assert [frame.get_xy() for frame in figure.axes[0].patches] == ([] if corner is None else [corner])
    plt.close(figure)


def test_drawing_changes_nothing_that_it_is_given():
    images, attentions = IMAGES.clone(), random_attentions()
    before = [attention.clone() for attention in attentions]
    plt.close(explorer_figure(images, attentions, 0, 3, 2, "rollout"))
    assert torch.equal(images, IMAGES)
    assert all(map(torch.equal, attentions, before))


@pytest.mark.parametrize(
    ("state", "grid", "words"),
    [
        ((2, 0, 1, 0), None, "no picture 2: choose one of 0, 1"),
        ((0, 7, 1, 0), None, "no token 7"),
        ((0, 0, 0, 0), None, "no layer 0: choose one of 1, 2"),
        ((0, 0, 1, 3), None, "no head 3: choose one of 0, 1, 2, mean, rollout"),
        ((0, 0, 1, 0), (2, 2), "7 tokens are not 1 prefix \\+ a grid of 2x2"),
    ],
)
def test_a_state_that_does_not_exist_or_a_grid_that_does_not_fit_is_refused_by_name(state, grid, words):
    with pytest.raises(ValueError, match=words):
        explorer_figure(IMAGES, random_attentions(), *state, grid_size=grid)


def small_vit(**options):
    torch.manual_seed(0)
    sizes = {"img_size": (8, 12), "patch_size": 4, "embed_dim": 12, "depth": 2, "num_heads": 3}
    return VisionTransformer(**sizes, **options)


def test_attentions_are_taken_in_evaluation_mode_and_the_mode_is_left_as_it_was():
    model = small_vit(drop_rate=0.5).train()
    first, again = (model_attentions(model, IMAGES, [0.5] * 3, [0.2] * 3) for _ in range(2))
    assert model.training
    assert [attention.shape for attention in first] == [(2, 3, 7, 7)] * 2
    torch.testing.assert_close(first, again)
    assert not first[0].requires_grad


@pytest.mark.parametrize("options", [{}, {"class_token": False, "global_pool": "avg"}])
def test_without_a_notebook_one_state_is_drawn(options, capsys):
    explore(small_vit(**options), IMAGES, ["one", "two"], [0.5] * 3, [0.2] * 3)
    asked = "patch (row 1, column 1)" if options else "CLS"
    assert capsys.readouterr().out.startswith(f"[figure] one, and a heat map of where {asked} looks: layer 2")


def test_a_hybrid_is_explored_on_the_grid_of_its_feature_map(capsys):
    torch.manual_seed(0)
    sizes = {"embed_dim": 12, "depth": 2, "num_heads": 3}
    model = HybridViT((8, 16), width=4, stages=3, **sizes)
    explore(model, torch.rand(1, 3, 8, 16), ["wide"])
    assert "where CLS looks: layer 2" in capsys.readouterr().out


def test_titles_that_do_not_fit_the_pictures_are_refused():
    with pytest.raises(ValueError, match="1 titles for 2 pictures"):
        explore(small_vit(), IMAGES, ["one"], [0.5] * 3, [0.2] * 3)


class Screen:
    """What `explore` puts on the screen, where the fixture `shown` collects it."""

    def __init__(self, displayed, titles=None, images=IMAGES, **options):
        explore(small_vit(**options), images, titles, [0.5] * 3, [0.2] * 3)
        (box,) = displayed
        picture, panel = box.children
        prefix, self.stack = picture.children
        self.image, self.patches = self.stack.children
        *controls, self.words = panel.children
        self.controls = {control.description: control for control in controls}
        self.buttons = [*prefix.children, *self.patches.children]

    def framed(self):
        return [token for token, button in enumerate(self.buttons) if "orange" in button.layout.border_top]

    def pixels(self):
        return plt.imread(io.BytesIO(self.image.value), format="png")[..., :3]


@pytest.mark.parametrize("options", [{}, {"class_token": False, "global_pool": "avg"}])
def test_a_click_in_the_picture_makes_that_patch_the_query_and_frames_it(shown, options):
    screen = Screen(shown, ["one", "two"], **options)
    query = screen.controls["query"]
    for token, (name, _) in enumerate(query.options):
        screen.buttons[token].click()
        assert (query.value, screen.framed()) == (token, [token])
        assert f"{name} gives" in screen.words.value


def test_every_control_changes_the_words_beside_the_picture(shown):
    screen = Screen(shown, ["one", "<two>"])
    for label, value in {"picture": 1, "layer": 1, "head": "rollout", "query": 3}.items():
        screen.controls[label].value = value
    assert "&lt;two&gt;<br>rollout through layers 1 to 1<br>" in screen.words.value
    assert "patch (row 0, column 2) gives" in screen.words.value


def test_the_buttons_lie_over_the_picture_and_cover_it_patch_by_patch(shown):
    screen = Screen(shown)
    height, width, _ = screen.pixels().shape
    side = explorer.SIDE // 3
    assert (height, width) == (2 * side, 3 * side)
    assert {part.layout.grid_area for part in (screen.image, screen.patches)} == {"1 / 1 / 2 / 2"}
    for part in (screen.stack, screen.image, screen.patches):
        assert (part.layout.width, part.layout.height) == (f"{3 * side}px", f"{2 * side}px")
    assert screen.patches.layout.grid_template_columns == f"repeat(3, {side}px)"
    assert {button.layout.width for button in screen.patches.children} == {f"{side}px"}


def test_without_the_map_the_picture_is_shown_in_its_own_colours(shown):
    halves = torch.zeros(1, 3, 8, 12, dtype=torch.uint8)
    halves[0, :, :, 8:] = torch.tensor([255, 128, 1])[:, None, None]
    screen = Screen(shown, images=halves)
    screen.controls["lay the map over the picture"].value = False
    edge = 2 * (explorer.SIDE // 3)
    assert (screen.pixels()[:, :edge] == 0).all()
    assert (screen.pixels()[:, edge:] == np.array([255, 128, 1], dtype=np.float32) / 255).all()


def test_the_patch_with_the_largest_weight_is_the_brightest_in_the_map():
    weights = torch.tensor([[0.1, 0.2, 0.6], [0.0, 0.05, 0.05]])
    drawn = plt.imread(io.BytesIO(laid_over(torch.full((1, 8, 12), 0.5), weights, 10)), format="png")
    brightness = drawn[..., :3].mean(axis=-1)[5::10, 5::10]
    order = torch.from_numpy(brightness).flatten().argsort(descending=True).tolist()
    assert (order[:3], order[-1]) == ([2, 1, 0], 3)


def test_the_explorer_fits_a_narrow_notebook():
    assert explorer.SIDE + explorer.CONTROLS <= 560  # a cell of 577, less the margins of what lies in it


def test_widgets_switched_off_leave_one_drawn_state(shown, monkeypatch):
    states = []
    monkeypatch.setattr(plots, "show", lambda figure, alt: (states.append(alt), plt.close(figure)))
    monkeypatch.setenv("VIT_COURSE_WIDGETS", "0")
    explore(small_vit(), IMAGES, None, [0.5] * 3, [0.2] * 3)
    assert (shown, len(states)) == ([], 1)


def test_every_value_of_the_controls_can_be_drawn():
    attentions = random_attentions(2)
    controls = explorer_controls(["a", "b"], (2, 3), 2, attentions)
    assert {name: [value for _, value in options] for name, (_, _, options) in controls.items()} == {
        "picture": [0, 1],
        "token": list(range(8)),
        "layer": [1, 2],
        "head": ["mean", "rollout", 0, 1, 2],
    }
    assert explorer.token_name(2 + 5, 3, 2) == "patch (row 1, column 2)"


def test_maps_of_one_row_share_a_scale_and_rows_have_their_own():
    rows = {"weak": torch.rand(2, 2, 3) / 10, "strong": torch.rand(2, 2, 3)}
    figure = plots.overlay_rows(IMAGES, rows, "title")
    scales = [[axis.images[1].get_clim() for axis in figure.axes[start : start + 2]] for start in (2, 4)]
    for row, (first, second) in zip(rows.values(), scales, strict=True):
        assert first == second == (0, pytest.approx(100 * row.max().item(), rel=1e-5))
    plt.close(figure)
