"""Beyond the paper's plain model: hybrid, transfer, masked prediction, other positions (lessons 10 to 13)."""
