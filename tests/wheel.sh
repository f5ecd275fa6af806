#!/usr/bin/env bash
# The wheel in clean environments, outside the checkout, on the oldest and the newest Python found: it installs without
# torch, says its version, and does the demo.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pip=(-m pip install --quiet --disable-pip-version-check)
found=()
for name in python3.11 "$HOME"/.pyenv/versions/3.1[23].*/bin/python3 python3.12 python3.13; do
  "$name" -c 'import venv' 2>/dev/null && found+=("$name")
done
[ "${#found[@]}" -gt 0 ] || found=(python3)
"${found[0]}" -m venv "$work/build"
"$work/build/bin/python" "${pip[@]}" build
"$work/build/bin/python" -m build --wheel --outdir "$work/dist" "$root" >/dev/null
cd "$work"
for name in $(printf '%s\n' "${found[0]}" "${found[-1]}" | uniq); do
  env="$work/env-$("$name" -c 'import sys; print(sys.version_info.minor)')"
  "$name" -m venv "$env"
  "$env/bin/python" "${pip[@]}" "$work"/dist/stepcut-*.whl
  "$env/bin/python" -c "import importlib.util as u; assert u.find_spec('torch') is None, 'torch came along'"
  "$env/bin/stepcut" --version
  "$env/bin/stepcut" demo -o "$env/demo" --quiet
  echo "wheel: $("$env/bin/python" --version) passed"
done
