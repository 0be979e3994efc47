"""The statements that Monus adds to Spark SQL: their words, their values, and how a script is split."""
