"""From the algebra to DataFrames."""
