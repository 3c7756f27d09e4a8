"""What a search is worth, as numbers with intervals: ranking, bootstrap, paired tests, cosines, times."""
