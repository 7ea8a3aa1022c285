"""What lessons read of recorded runs: experiments as data, records, statistics, probes, trained weights."""
