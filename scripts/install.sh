# Read by clients.sh and peers.sh (bash): installs Debian packages that are missing, and what a list names into a folder when the list has changed.

# have_all COMMAND...: whether all are there.
have_all() {
	local c
	for c in "$@"; do command -v "$c" >/dev/null || return 1; done
}

# as_root COMMAND...: runs it as root.
as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# apt_install PACKAGE...: installs them without starting any service that they bring.
apt_install() {
	have_all apt-get || {
		printf '%s: there is no apt-get here; install the equivalents of: %s\n' "$0" "$*" >&2
		exit 1
	}
	local policy=/usr/sbin/policy-rc.d made='' code=0
	if [ ! -e "$policy" ]; then # what it says decides whether a service may be started; 101 is no
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
		made=1
	fi
	export DEBIAN_FRONTEND=noninteractive
	local install=(as_root apt-get install -y -q --no-install-recommends "$@")
	# The lists of a new machine are missing or old: get them only when the packages are not found with those at hand.
	"${install[@]}" >/dev/null 2>&1 || { as_root apt-get update -q >/dev/null && "${install[@]}" >/dev/null; } || code=$?
	[ -z "$made" ] || as_root rm -f "$policy"
	return "$code"
}

# changed LIST FOLDER: whether FOLDER was not yet filled from LIST as it is now. filled LIST FOLDER notes that it was.
changed() { ! cmp -s "$1" "$2/.filled-from"; }
filled() { cp "$1" "$2/.filled-from"; }
