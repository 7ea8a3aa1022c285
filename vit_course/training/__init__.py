"""What a reader of the lessons need not open: how a run is computed, kept and shown."""
