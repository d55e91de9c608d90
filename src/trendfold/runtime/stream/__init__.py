"""A stream, batch by batch: plain functions over Arrow and a store, without Spark (ADR 25).

pack     a part of a micro-batch  ->  parcels: events by shard and time range    parcels.py
absorb   a shard's parcels  ->  its state; final events are folded at once       shards.py, settling.py
release  a shard, when the watermark advances  ->  the rows of ended windows     shards.py, reporting.py
"""
