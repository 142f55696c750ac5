#!/usr/bin/env bash
# Checks layout of C++ files, names in Python files, the order of the rooms, first lines and the length
# of functions. Changes nothing.
#
#   tools/lint.sh
#
# A tool that is not installed is skipped with a line that says so; tools/bootstrap.sh --lint
# installs them. `make format` repairs the layout.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-/usr/bin/python3}
failed=0

# Files known to git and new ones it does not ignore; one that was just deleted is left out.
ours() {
  git ls-files -z --cached --others --exclude-standard -- "$@" |
    while IFS= read -r -d '' file; do [[ -e $file ]] && printf '%s\0' "$file"; done
}

if command -v clang-format >/dev/null; then
  # One line per place, without the source text.
  found=$(ours '*.h' '*.cc' '*.cu' | xargs -0 -r clang-format --dry-run 2>&1 | grep 'clang-formatted')
  [[ -z $found ]] || { echo "$found"; failed=1; }
  echo "clang-format: $(ours '*.h' '*.cc' '*.cu' | tr -dc '\0' | wc -c) files"
else
  echo "clang-format: skipped, not installed"
fi

# An __init__.py imports names for others to use, and `import *` is how a package gathers its parts.
if "$python" -c 'import pyflakes' 2>/dev/null; then
  found=$(ours '*.py' | xargs -0 -r "$python" -m pyflakes |
    grep -Ev "__init__\.py:.* imported but unused|import \*' used; unable to detect")
  [[ -z $found ]] || { echo "$found"; failed=1; }
  echo "pyflakes: $(ours '*.py' | tr -dc '\0' | wc -c) files"
else
  echo "pyflakes: skipped, not installed"
fi

"$python" tools/check_includes.py || failed=1
"$python" tools/check_sources.py || failed=1
exit $failed
