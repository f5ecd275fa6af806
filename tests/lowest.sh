#!/usr/bin/env bash
# The lowest versions that pyproject.toml allows of the plain dependencies and of openpyxl, in a clean environment: the tests of
# what leans on those packages most.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=$(command -v python3.11 || command -v python3)
"$python" - "$root/pyproject.toml" > "$work/lowest.txt" <<'PY'
import re, sys, tomllib
project = tomllib.load(open(sys.argv[1], "rb"))["project"]
for line in [*project["dependencies"], *project["optional-dependencies"]["xlsx"]]:
    found = re.match(r"([\w-]+)>=([\d.]+)[^;]*(;.*)?$", line)
    assert found, f"{line}: no lower bound"
    print(f"{found[1]}=={found[2]}{found[3] or ''}")
PY
"$python" -m venv "$work/env"
pip=("$work/env/bin/python" -m pip install --quiet --disable-pip-version-check)
"${pip[@]}" --prefer-binary -r "$work/lowest.txt" pytest hypothesis httpx
"${pip[@]}" --no-deps "$root"
cd "$root"
"$work/env/bin/python" -c "import importlib.util as u; assert u.find_spec('torch') is None, 'torch came along'"
OMP_NUM_THREADS=1 "$work/env/bin/python" -m pytest -q -p no:cacheprovider -o filterwarnings=ignore \
  -k "not interrupted_training" tests/test_light.py tests/test_timeline.py \
  tests/features/test_features_sample.py tests/features/test_features_features.py tests/files/test_addresses.py \
  tests/formats/test_formats_round_trip.py tests/methods/stepcut tests/procedure/test_learning.py \
  tests/show/test_show_server.py tests/show/test_show_plots.py
echo "lowest: $(tr '\n' ' ' < "$work/lowest.txt")passed"
