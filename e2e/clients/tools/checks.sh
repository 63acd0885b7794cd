# What the shell programs have in common (bash): how a check is named, run and reported.
#
# A check is a function `check_...`; run_checks runs those that its caller defined, each in a subshell in which a command that fails ends the check. Each
# prints one line, `ok NAME` or `FAIL NAME: why`, which the runner (e2e/clients) reads; NAME is what `about` was told. The addresses come in the environment:
# AMQP_ADDRESS and KAFKA_ADDRESS (host:port), NAME_PREFIX (begins every name this run makes, so that runs do not meet).
set -uo pipefail

declare -A names=()
order=()

# about FUNCTION NAME: FUNCTION is a check with this name.
about() {
	names[$1]=$2
	order+=("$1")
}

# fresh KIND: prints a name that nobody else uses.
fresh() { printf '%s.%s.%s.%s' "${NAME_PREFIX:-check}" "$1" "$BASHPID" "$RANDOM$RANDOM"; }

# equal GOT WANT WHAT
equal() {
	[ "$1" == "$2" ] || fail "$3 is '${1:0:300}', want '${2:0:300}'"
}

fail() {
	printf '%s\n' "$*" | tr '\n' ' ' >&3
	exit 1
}

# until_true WHAT COMMAND...: runs the command again and again until it succeeds.
until_true() {
	local what=$1 deadline=$((SECONDS + 30))
	shift
	until "$@"; do
		[ $SECONDS -lt $deadline ] || fail "waited 30 s for $what"
		sleep 0.02
	done
}

# run_checks [WORD...]: runs all, or those whose names contain a word.
run_checks() {
	local failed=0 f name why scratch word wanted
	scratch=$(mktemp -d)
	for f in "${order[@]}"; do
		name=${names[$f]} wanted=$([ $# -eq 0 ] && echo 1)
		for word in "$@"; do [[ $name == *$word* ]] && wanted=1; done
		[ -n "$wanted" ] || continue
		: >"$scratch/why"
		mkdir "$scratch/$f"
		# What the check's commands print to stderr is shown when it fails without a word.
		if (cd "$scratch/$f" && trap 'fail "line $LINENO: $BASH_COMMAND: $(tail -n 3 "$scratch/err")"' ERR && set -E && "$f") >/dev/null 2>"$scratch/err" 3>"$scratch/why"; then
			printf 'ok %s\n' "$name"
		else
			failed=1 why=$(cat "$scratch/why")
			printf 'FAIL %s: %s\n' "$name" "${why:-$(tail -n 3 "$scratch/err" | tr '\n' ' ')}"
		fi
	done
	rm -rf "$scratch"
	exit $failed
}
