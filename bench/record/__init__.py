"""What is kept: columns, reduction over ranks, journal, parquet store. No torch."""
