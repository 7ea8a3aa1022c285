"""The bug clinic of lesson 14: a healthy model as loose functions, planted bugs, measurements."""
