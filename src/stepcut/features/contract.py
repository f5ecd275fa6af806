"""The former name of `stepcut.features.features`, which the paper's modules still import."""

from stepcut.features.features import Failure as Failure
from stepcut.features.features import Features as Features
from stepcut.features.features import check_rows as check_rows
