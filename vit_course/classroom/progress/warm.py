"""Imported once, by the process of which those that check are copies: it loads every check, so that they need not."""

from vit_course.classroom.progress.judge import get_ready

get_ready()
