#!/usr/bin/env bash
# Names the files that clang-format would change; with --fix it changes them. Exit 1 when there are any.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! command -v clang-format >/dev/null; then
  printf 'error: clang-format is not installed\nhint: apt-get install clang-format (14, as in Debian 12)\n' >&2
  exit 2
fi
mapfile -t files < <(find src tests bench -name '*.h' -o -name '*.cpp' -o -name '*.inc' 2>/dev/null | sort)
if [[ ${1:-} == --fix ]]; then
  clang-format -i "${files[@]}"
  exit 0
fi
changed=()
for file in "${files[@]}"; do
  clang-format "$file" | cmp -s - "$file" || changed+=("$file")
done
((${#changed[@]})) && printf '%s\n' "${changed[@]}"
echo "${#files[@]} files, ${#changed[@]} not as clang-format has them"
((${#changed[@]} == 0))
