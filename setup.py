"""What pyproject.toml cannot say: a wheel holds recorded runs, weights and photos, which are in `data/` once."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["vit_course*", "vit_classroom*"]), "vit_course.shipped"],
    package_dir={"vit_course.shipped": "data"},
    package_data={
        "vit_classroom.exhibits.play": ["*.mjs", "samples.json"],
        "vit_course.shipped": ["checkpoints/*.safetensors", "runs/**/*.json", "photos/*.jpg"],
    },
)
