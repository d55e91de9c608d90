"""The Spark runtime. Tasks import modules of this package that do not import pyspark."""
