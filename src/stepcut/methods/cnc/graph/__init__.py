"""The graph of one video: its Potts energy, the exact minimum on a chain, alpha-expansion on any graph.

The energy of labels x, with a cost per frame and step and a weight per link:

    E(x) = sum_t unary[t, x_t] + sum_(t,s) weight_ts [x_t != x_s]
"""

from stepcut.methods.cnc.graph.chain import chain
from stepcut.methods.cnc.graph.energy import energy
from stepcut.methods.cnc.graph.expand import expand
from stepcut.methods.cnc.graph.links import window_links

__all__ = ["chain", "energy", "expand", "window_links"]
