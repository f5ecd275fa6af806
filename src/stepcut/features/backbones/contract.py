"""The former name of `features.backbones.backbone`, which the paper's modules still import."""

from stepcut.features.backbones.backbone import Graph as Graph
