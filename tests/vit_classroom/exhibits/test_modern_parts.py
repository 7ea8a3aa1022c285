"""The figures of lesson 15 draw what they say."""

import pytest
import torch

from vit_classroom.exhibits import modern_parts
from vit_course.extensions.modern import attention_pool, merge_tokens
from vit_course.vit import VisionTransformer

SMALL = {"img_size": 16, "patch_size": 4, "embed_dim": 24, "depth": 3, "num_heads": 2}


def test_the_products_below_the_circles_are_those_of_the_offset():
    figure = modern_parts.turned_pairs([(0, 2, 1.0), (5, 7, 1.0)])
    assert [axis.get_xlabel() for axis in figure.axes] == ["product: -0.42"] * 2


def test_every_map_of_scores_has_its_query_framed():
    scores = torch.rand(4, 4, 4, 4)
    first, *_ = modern_parts.offset_maps(scores, [(1, 2), (3, 0)]).axes
    (frame,) = first.lines
    assert (frame.get_xdata().min(), frame.get_ydata().min()) == (1.5, 0.5)


def test_groups_begin_with_one_patch_each_and_lose_r_in_each_block():
    model = VisionTransformer(**SMALL).eval()
    groups = modern_parts.merged_groups(model, torch.randn(3, 16, 16), 3, merge_tokens)
    assert [len(found.unique()) for found in groups] == [16, 13, 10, 7]
    assert all(found.shape == (4, 4) for found in groups)


def test_patches_that_are_merged_stay_together():
    model = VisionTransformer(**SMALL).eval()
    _, earlier, later, _ = modern_parts.merged_groups(model, torch.randn(3, 16, 16), 3, merge_tokens)
    assert all(len(later[earlier == group].unique()) == 1 for group in earlier.unique())


def test_a_group_is_painted_in_its_mean_colour_and_parted_from_others_by_a_line():
    image = torch.zeros(3, 4, 4, dtype=torch.uint8)
    image[:, :, :2] = 100
    image[:, :2, :2] = 200
    groups = torch.tensor([[0, 1], [0, 1]])
    assert modern_parts.mean_colours(image, groups)[0].mul(255).round().unique().tolist() == [0, 150]
    figure = modern_parts.merged_patches([image], [[groups]], ["2 tokens"])
    assert [len(axis.lines) for axis in figure.axes] == [0, 2]


def test_a_reader_begins_as_the_mean_and_learns_where_to_look():
    torch.manual_seed(0)
    tokens = torch.randn(40, 9, 8)
    labels = torch.arange(40) % 2
    tokens[:, 4] = 3 * (2.0 * labels[:, None] - 1)  # patch 3 says the class
    reader = modern_parts.LearnedReader(8, 2, 2, attention_pool)
    assert torch.allclose(reader(tokens)[1], torch.tensor(1 / 8))
    reader.learn(tokens, labels, 100)
    scores, weights = reader(tokens)
    assert (scores.argmax(dim=1) == labels).all() and weights.mean(dim=0).argmax() == 3


def test_the_patch_that_is_read_most_keeps_its_light():
    images = torch.full((1, 3, 4, 4), 255, dtype=torch.uint8)
    (lit,) = modern_parts.lit_by_weights(images, torch.tensor([[[0.0, 1.0], [0.0, 0.0]]]))
    assert lit[:, :2, 2:].min() == 1 and lit[:, 2:].max() == pytest.approx(0.12)
