"""What is shown: selection, tables, plots. No torch."""
