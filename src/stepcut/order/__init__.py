"""Order of steps: per video, across videos, and as a graph of preconditions."""

from stepcut.order.graph import Duration, ProcedureGraph, Support
from stepcut.order.learn import (
    Occurrence,
    find_occurrences,
    graph_of_labels,
    learn_graph,
    orders_of_labels,
)
from stepcut.order.orders import Orders, rank_orders, sequence, video_order

__all__ = [
    "Duration", "Occurrence", "Orders", "ProcedureGraph", "Support", "find_occurrences",
    "graph_of_labels", "learn_graph", "orders_of_labels", "rank_orders", "sequence", "video_order",
]  # fmt: skip
