"""How the numbers were made: the experiments, their records, and what is measured on trained models."""
