"""Streams to join: the paper's generators, a soccer reader and simulator, recorded streams.

Every function here returns a `Dataset`: named streams in arrival order, with the query that joins
them. Streams are cut into blocks that can be made independently of one another.
"""

from recalljoin.datasets.base import BlockDataset, Dataset
from recalljoin.datasets.binance import read_binance
from recalljoin.datasets.debs import read_match
from recalljoin.datasets.public import PUBLIC, PublicRecording
from recalljoin.datasets.recordings import ReadReport, Recording
from recalljoin.datasets.soccer import Q_X2, SimulatedMatch
from recalljoin.datasets.synthetic import (
    Q_X3,
    Q_X4,
    StreamSpec,
    Synthetic,
    make_syn_x3,
    make_syn_x4,
)
from recalljoin.datasets.umts import read_umts

__all__ = [
    "PUBLIC",
    "Q_X2",
    "Q_X3",
    "Q_X4",
    "BlockDataset",
    "Dataset",
    "PublicRecording",
    "ReadReport",
    "Recording",
    "SimulatedMatch",
    "StreamSpec",
    "Synthetic",
    "make_syn_x3",
    "make_syn_x4",
    "read_binance",
    "read_match",
    "read_umts",
]
