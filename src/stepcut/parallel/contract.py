"""The former name of `stepcut.parallel.engine`, which the paper's modules still import."""

from stepcut.parallel.engine import Engine as Engine
from stepcut.parallel.engine import count_cores as count_cores
