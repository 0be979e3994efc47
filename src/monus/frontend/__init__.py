"""From Spark's analysed plan to the algebra, and the handles of Spark's expressions."""
