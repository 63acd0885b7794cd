#!/usr/bin/env bash
# Runs every fuzz target of the module, one after another, for FUZZTIME each: a duration (5s) or a number of inputs (20000x).
# Packages may be named; the default is all. A failing input is kept by the go tool under testdata/fuzz/ of its package, where
# every later `go test` runs it again: commit it together with the repair.
set -euo pipefail
cd "$(dirname "$0")/.."

fuzztime=${FUZZTIME:-5s}
[ $# -gt 0 ] || set -- ./...

# Go 1.26 sometimes takes the end of the fuzz time itself for a failure (go.dev/issue/75804): its main loop sees the deadline a moment before
# its workers' context does. All that is printed then is this, and no input was found to fail.
only_the_deadline() { # output, target
	local rest
	rest=$(grep -v '^fuzz: ' <<<"$1")
	[[ $rest =~ ^"--- FAIL: $2 ("[0-9.]+"s)"$'\n'"    context deadline exceeded"$'\nFAIL\nexit status 1\nFAIL\t'[^$'\n']*$ ]]
}

# `go test -list` prints a package's targets and then a line "ok  <package>  <time>".
listed=$(go test -list '^Fuzz' "$@") || {
	printf '%s\nfuzz: the packages do not build, nothing was run\n' "$listed" >&2
	exit 1
}
targets=$(awk '/^Fuzz/ { names[++n] = $1 } /^ok/ { for (i = 1; i <= n; i++) print $2, names[i]; n = 0 }' <<<"$listed")
if [ -z "$targets" ]; then
	echo "fuzz: no targets in $*"
	exit 0
fi

total=$(wc -l <<<"$targets")
echo "fuzz: $total to run, $fuzztime each"
i=0
while read -r package name; do
	i=$((i + 1))
	printf 'fuzz: %d/%d %s %s\n' "$i" "$total" "$package" "$name"
	began=$SECONDS
	if ! output=$(go test -run '^$' -fuzz "^$name\$" -fuzztime "$fuzztime" "$package" 2>&1 </dev/null) &&
		! only_the_deadline "$output" "$name"; then
		printf '%s\nfuzz: %s failed; repeat with: go test -run %s %s\n' "$output" "$name" "$name" "$package" >&2
		exit 1
	fi
	# The last progress line says how much was tried.
	printf '      %s (%d s)\n' "$(grep '^fuzz: elapsed' <<<"$output" | tail -n 1 | sed 's/^fuzz: //')" "$((SECONDS - began))"
done <<<"$targets"
echo "fuzz: all $total passed"
