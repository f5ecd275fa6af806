"""The built-in networks on each of their runtimes, of which one checks the other."""

from stepcut.features.backbones import BACKBONES
from stepcut.features.backbones.runtime import Place
from stepcut.features.spec import as_spec


def load_on(runtime, name="efficientnet-lite0", **settings):
    return BACKBONES[name](as_spec(name, **settings), Place("cpu", runtime))
