"""Orders: in which order each video does the steps, which orders are common, and what must precede what."""

from __future__ import annotations

from stepcut.order.graph import Duration, ProcedureGraph, Support
from stepcut.order.learn import learn_graph
from stepcut.order.occurrences import Doing, doings, graph_of_labels
from stepcut.order.orders import Orders, rank_orders, sequence, video_order

__all__ = [
    "Doing",
    "Duration",
    "Orders",
    "ProcedureGraph",
    "Support",
    "doings",
    "graph_of_labels",
    "learn_graph",
    "rank_orders",
    "sequence",
    "video_order",
]
