"""The slow, obvious join the real engine is checked against.

Plain Python, one tuple at a time, every combination tried: written to be read beside the paper and
``docs/semantics.md``, never to be fast. It imports nothing of ``recalljoin``, so a mistake
there cannot hide here.

``model``      tuples, queries, results: the values everything else speaks in
``memory``     what the join operator holds: windows, and all it ever received
``per_tuple``  K-slack, Synchronizer (Algorithm 1), MSWJ operator (Algorithm 2)
``tick``       the same join when tuples come in ticks
``kinds``      in ticks: results at once, and outer, semi and anti joins
``truth``      the true results, by trying every combination
``recall``     adaptation points and recall measurements
``same_k``     the common K that Theorem 1 puts in the place of one K per stream
``conditions`` kinds of join condition, as SQL text and as plain Python
``notation``   short ways to write tuples down in tests
"""
