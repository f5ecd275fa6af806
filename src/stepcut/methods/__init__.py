"""Methods: how features become steps. Choose one by name, or hand over your own object with the same seven verbs.

    fit(features) -> self        a list of arrays (T, d) or maps (T, C, h, w), one per video, `rate` rows a second
    embed(features)              (T, D) per video: where the same step of different videos lies close
    memberships(features)        (T, K) per video, rows sum to 1: how much a frame belongs to each step
    predict(features)            (T,) per video: the step of each frame, -1 for background
    strangeness(features)        (T,) per video: 0 on a frame it knows well, growing with the distance from all steps
    online()                     an object whose `push(row) -> (K,)` gives memberships from the past alone
    settings(), state()          JSON-able settings and arrays, from which `restore(settings, state)` builds it again

After `fit`: `labels_` (a list of (T,) step numbers) and `steps_` (K, also when `steps="auto"` chose it).
`__init__` only stores settings. No label is ever read.
"""

from __future__ import annotations
