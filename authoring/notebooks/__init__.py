"""From a lesson's folder to its two notebooks, and the proof that their outputs are current."""
