"""What lesson 00 shows: trained models that answer, and drawings whose shape is in the middle."""

import torch

from vit_classroom import plots
from vit_classroom.exhibits.at_work import ask, shapes_in_the_middle


def test_the_model_of_photos_calls_the_cat_a_cat_and_says_where_it_looked():
    answers = ask("cifar-vit", plots.sample_photo((32, 32), "cat")[None])
    assert answers.classes[answers.best] == "cat"
    assert answers.probabilities.shape == (1, 10) and torch.isclose(
        answers.probabilities.sum(), torch.ones(())
    )
    assert answers.looks.shape == (1, 8, 8) and 0 < answers.looks.sum() < 1  # CLS keeps a part for itself


def test_shapes_are_drawn_in_the_middle_and_are_lighter_than_their_ground():
    drawn = shapes_in_the_middle(train=20, test=10)
    images, border = drawn.train_images.float(), torch.ones(32, 32, dtype=torch.bool)
    border[7:25, 7:25] = False
    assert drawn.train_labels.tolist() == [*range(10)] * 2 and drawn.classes[0] == "arrow"
    assert images[..., border].std(dim=-1).max() < 10  # nothing but noise around the shape
    assert (images[..., ~border].amax(dim=-1) > images[..., border].mean(dim=-1) + 50).all()


def test_other_seeds_give_other_drawings_and_the_same_call_the_same_ones():
    drawn = shapes_in_the_middle(train=10, test=10)
    assert torch.equal(drawn.train_images, shapes_in_the_middle(train=10, test=10).train_images)
    assert not torch.equal(drawn.train_images, drawn.test_images)
