"""A Vision Transformer to play with: draw, click a patch, hide, shuffle, switch off, and the answer follows.

One module with two homes. In the web book `page.mjs` loads `view.mjs` and `engine.mjs`, which computes in the browser
with the course's weights. In a notebook `play` shows the same view, and Python answers with a live model
(`widget`, `look`). Lesson 06 shows the student's own model in it, lesson 09 explores with it.
"""

from vit_classroom.exhibits.play.show import play

__all__ = ["play"]
