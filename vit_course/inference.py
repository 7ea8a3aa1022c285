"""What one does with a trained model's features: neighbours, a linear probe, masks, texts as classes.

Works on features (N, D) and tokens (T, D) of any model, as `backbone` gives them. Lesson 17 builds most of them.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course.extensions.backbone import Backbone


def nearest_neighbours(
    features: Tensor, labels: Tensor, queries: Tensor, k: int = 10, temperature: float = 0.1
) -> tuple[Tensor, Tensor]:
    """Classify by the most similar images, without any training (k-NN, as Caron et al., 2021, evaluate DINO).

    Two images are as similar as the cosine of their features. Each of the k most similar images votes for its own
    label; its vote is softmax(cosine / temperature) over these k, so that a close one counts more.

    Args:
        features: (N, D), of the images whose labels are known.
        labels: (N,) int64, 0 ... K - 1; K is the largest label and one more.
        queries: (Q, D), features of the images that are asked about.
        k: how many neighbours vote, at most N.
        temperature: the smaller, the more the closest one decides.

    Returns:
        neighbours: (Q, k) int64, their rows in `features`, the most similar one first.
        votes: (Q, K), for each query the votes for each class; a row sums to 1.
    """
    cosines = F.normalize(queries, dim=-1) @ F.normalize(features, dim=-1).T  # (Q, N)
    nearest, neighbours = cosines.topk(k, dim=-1)
    shares = (nearest / temperature).softmax(dim=-1)  # (Q, k)
    votes = features.new_zeros(len(queries), int(labels.max()) + 1)
    return neighbours, votes.scatter_add(1, labels[neighbours], shares)


def fit_linear(features: Tensor, labels: Tensor, decay: float = 0.01) -> nn.Linear:
    """Fit a linear layer to labels, from zero: logistic regression, which has one best solution and no learning rate.

    Args:
        features: (N, D), each of the D numbers about as large as any other.
        labels: (N,) int64, 0 ... K - 1.
        decay: how much the square of the weights costs, against overfitting.

    Returns:
        A layer from D to K numbers.
    """
    layer = nn.utils.skip_init(nn.Linear, features.shape[1], int(labels.max()) + 1).to(features)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(layer(features), labels) + decay * layer.weight.square().sum()
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(loss)
    return layer.requires_grad_(False)


def probe(
    encoder: nn.Module,
    images: Tensor,
    labels: Tensor,
    test_images: Tensor,
    fit: Callable[[Tensor, Tensor], nn.Module] = fit_linear,
) -> Tensor:
    """Train a linear probe: features once, then one linear layer on them; return its scores of the test images.

    The encoder computes in evaluation mode and without gradients, reads each image once, and is left in the mode in
    which it was. Each of the D numbers is standardised in both sets by the *training* features alone: minus their mean,
    divided by their standard deviation (the one that divides by N - 1); a deviation below 1e-6 counts as 1e-6.

    Args:
        encoder: maps images (B, ...) to features (B, D); it may get all images at once.
        images: (N, ...), the images to learn from, at least 2.
        labels: (N,) int64, 0 ... K - 1.
        test_images: (M, ...).
        fit: makes a linear layer of standardised features (N, D) and labels (N,).

    Returns:
        (M, K), the scores of the test images.
    """
    training = encoder.training
    encoder.eval()
    with torch.no_grad():
        features, queries = encoder(images), encoder(test_images)
    encoder.train(training)
    mean, std = features.mean(dim=0), features.std(dim=0).clamp(min=1e-6)
    layer = fit((features - mean) / std, labels)
    return layer((queries - mean) / std)


def fit_probe(
    encoder: nn.Module,
    images: Tensor,
    labels: Tensor,
    fit: Callable[[Tensor, Tensor], nn.Linear] = fit_linear,
) -> nn.Sequential:
    """Train a linear probe as `probe` does, and keep it: a classifier that can be used on the next photo.

    Args:
        encoder: maps images (B, ...) to features (B, D).
        images: (N, ...), the images to learn from, at least 2.
        labels: (N,) int64, 0 ... K - 1.
        fit: makes a linear layer of standardised features (N, D) and labels (N,).

    Returns:
        The encoder and a linear layer behind it, in evaluation mode: maps images (B, ...) to scores (B, K).
    """
    with torch.no_grad():
        features = encoder.eval()(images)
    return nn.Sequential(encoder, fit_standardised(features, labels, fit)).eval()


def fit_standardised(
    features: Tensor, labels: Tensor, fit: Callable[[Tensor, Tensor], nn.Linear] = fit_linear
) -> nn.Linear:
    """Fit a linear layer to standardised features (N, D); return one that does the same on features as they are."""
    mean, std = features.mean(dim=0), features.std(dim=0).clamp(min=1e-6)
    layer = fit((features - mean) / std, labels)
    with torch.no_grad():
        layer.weight /= std
        layer.bias -= layer.weight @ mean
    return layer


def patch_labels(masks: Tensor, grid_size: tuple[int, int]) -> Tensor:
    """Find the label of every patch, the class that most of its pixels have.

    Args:
        masks: (B, H, W) int64, the class of each pixel, 0 ... K - 1.
        grid_size: (rows, columns) of the patches, which divide H and W.

    Returns:
        (B, N) int64, patches in reading order.
    """
    shares = F.one_hot(masks).permute(0, 3, 1, 2).float()  # (B, K, H, W)
    return F.adaptive_avg_pool2d(shares, grid_size).argmax(dim=1).flatten(1)


def segment(
    layer: nn.Module, tokens: Tensor, grid_size: tuple[int, int], img_size: tuple[int, int]
) -> Tensor:
    """Score every pixel for every class: a linear layer scores the patch tokens, and their scores are enlarged.

    The patches make a grid of the image, so the scores of the layer are treated as a small image with K channels and
    enlarged to the size of the photo by bilinear interpolation.

    Args:
        layer: maps tokens (..., D) to scores (..., K).
        tokens: (B, T, D): prefix tokens, if there are any, then the patches in reading order.
        grid_size: (rows, columns) of the patches.
        img_size: (height, width) in pixels.

    Returns:
        (B, K, height, width), the scores of the classes.
    """
    rows, columns = grid_size
    scores = layer(tokens[:, -rows * columns :]).mT.unflatten(-1, (rows, columns))
    return F.interpolate(scores, img_size, mode="bilinear")


def overlap(found: Tensor, masks: Tensor, label: int) -> float:
    """Return how well found pixels (B, H, W) of a class cover the true ones: intersection over union, 0..1."""
    both, either = (found == label) & (masks == label), (found == label) | (masks == label)
    return (both.sum() / either.sum().clamp(min=1)).item()


def zero_shot(image_features: Tensor, text_features: Tensor, temperature: float = 0.05) -> Tensor:
    """Classify images by texts (Radford et al., 2021: CLIP), with several texts for each class.

    Every feature, of images and of texts, is brought to length 1. The texts of a class are averaged, and the average
    is brought to length 1 again. The score of an image for a class is their product, the cosine, divided by the
    temperature; a softmax over the classes makes probabilities.

    Args:
        image_features: (B, D).
        text_features: (K, P, D), P texts for each of the K classes.
        temperature: the smaller, the surer; which class wins does not depend on it.

    Returns:
        (B, K), each row sums to 1.
    """
    classes = F.normalize(F.normalize(text_features, dim=-1).mean(dim=1), dim=-1)  # (K, D)
    return (F.normalize(image_features, dim=-1) @ classes.T / temperature).softmax(dim=-1)


class Reader(nn.Module):
    """A backbone as an encoder: images to what it reads itself (CLS) and the mean over its patches, side by side.

    Args:
        backbone: a trained model.
    """

    def __init__(self, backbone: Backbone):
        super().__init__()
        self.backbone, self.model = backbone, backbone.model
        self.train(self.model.training)

    def forward(self, images: Tensor) -> Tensor:
        """Map uint8 images (N, C, H, W) to features (N, 2D)."""
        tokens = self.backbone.tokens(images)
        patches = tokens[:, -self.model.patch_embed.num_patches :]
        return torch.cat([self.backbone.read(tokens), patches.mean(dim=1)], dim=1)


def share_interval(right: int, count: int) -> tuple[float, float]:
    """Return the ends of the 95 % interval of a share, for `right` of `count` (Wilson, 1927); both in 0..1."""
    z, share = 1.96, right / count
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    reach = z / (1 + z**2 / count) * (share * (1 - share) / count + z**2 / (4 * count**2)) ** 0.5
    return max(0.0, middle - reach), min(1.0, middle + reach)
