"""Slides, run sheets and teaching notes."""
