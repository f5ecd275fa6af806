#!/usr/bin/env bash
# Known vulnerabilities of the packages that .venv holds, by pip-audit. Where the advisory database cannot be reached, it
# says so and passes: a machine without a network has nothing to compare with.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ask='import json, urllib.request as u; json.load(u.urlopen("https://pypi.org/pypi/pip/25.0/json", timeout=10))["vulnerabilities"]'
if ! .venv/bin/python -c "$ask" 2>"$work/why"; then
  echo "audit did not run: the advisory database at pypi.org cannot be reached ($(tail -n 1 "$work/why"))"
  exit 0
fi
.venv/bin/python -m pip freeze --exclude-editable | grep '==' > "$work/held.txt"
.venv/bin/python -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check pip-audit
"$work/env/bin/pip-audit" --requirement "$work/held.txt" --no-deps --disable-pip --progress-spinner off
