"""Keep what was measured: columns, reduction over ranks, derived values, journal and parquet store."""
