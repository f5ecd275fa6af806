"""Orders: in which order each video does the steps, which orders are common, and what must precede what."""

from __future__ import annotations

from stepcut.order.graph import Duration, ProcedureGraph, Support
from stepcut.order.labels import graph_of_labels, timed_sequence
from stepcut.order.learn import learn_graph
from stepcut.order.orders import Orders, rank_orders, sequence, video_order

__all__ = [
    "Duration",
    "Orders",
    "ProcedureGraph",
    "Support",
    "graph_of_labels",
    "learn_graph",
    "rank_orders",
    "sequence",
    "timed_sequence",
    "video_order",
]
