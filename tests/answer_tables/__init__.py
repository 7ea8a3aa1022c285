"""Wrong and right answers for every exercise, one file per lesson, read by test_checks.py.

WRONG maps an exercise to pairs (words that its verdict must contain, wrong answer); RIGHT to right answers.
"""
