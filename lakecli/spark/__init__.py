"""Lakes as Spark DataFrames; the public functions are imported from here."""
