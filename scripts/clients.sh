#!/usr/bin/env bash
# Installs the clients in other languages that `make conformance` runs, on Debian 12 or alike: Debian packages where commands are missing, and Python and
# JavaScript packages of fixed versions under bin/clients (which git ignores and `make clean` removes). Where all is there it does nothing, in well under a second.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

missing=()
have_all kcat || missing+=(kcat)
have_all amqp-publish amqp-get amqp-consume amqp-declare-queue || missing+=(amqp-tools)
have_all python3 || missing+=(python3)
have_all node || missing+=(nodejs)
have_all npm || missing+=(npm)
# Debian's python3 comes without what makes virtual environments.
if have_all python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; then :; else missing+=(python3-venv); fi
if [ ${#missing[@]} -gt 0 ]; then
	printf 'clients: installing %s\n' "${missing[*]}"
	apt_install "${missing[@]}"
fi

list=e2e/clients/python/requirements.txt into=bin/clients/python
if changed $list $into; then
	printf 'clients: installing the packages of %s into %s\n' $list $into
	rm -rf $into
	python3 -m venv $into
	$into/bin/pip install --quiet --disable-pip-version-check --requirement $list
	filled $list $into
fi

list=e2e/clients/node/package-lock.json into=bin/clients/node
if changed $list $into; then
	printf 'clients: installing the packages of %s into %s\n' $list $into
	rm -rf $into
	mkdir -p $into
	cp e2e/clients/node/package.json $list $into
	npm ci --prefix $into --silent --no-audit --no-fund
	filled $list $into
fi

scripts/peers.sh kafka
