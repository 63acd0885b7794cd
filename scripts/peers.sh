#!/usr/bin/env bash
# Installs the brokers that Polylog is compared with: RabbitMQ from Debian's packages, without starting its service, and Apache Kafka under bin/peers. Tests and
# measurements start them by themselves (e2e/harness). Names of brokers (rabbitmq, kafka) may be given; the default is both.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

rabbitmq() {
	have_all rabbitmq-server && return
	echo 'peers: installing rabbitmq-server'
	apt_install rabbitmq-server
	# It would be started at the next boot.
	if [ -d /run/systemd/system ]; then as_root systemctl disable --now --quiet rabbitmq-server; fi
}

kafka() {
	local list=e2e/clients/java/pom.xml into=bin/peers/kafka missing=()
	have_all java || missing+=(default-jre-headless)
	changed $list $into && ! have_all mvn && missing+=(maven)
	if [ ${#missing[@]} -gt 0 ]; then
		printf 'peers: installing %s\n' "${missing[*]}"
		apt_install "${missing[@]}"
	fi
	if changed $list $into; then
		printf 'peers: installing what %s names into %s\n' $list $into
		rm -rf $into
		mkdir -p $into
		local said
		said=$(mvn --quiet --batch-mode --file $list dependency:copy-dependencies -DoutputDirectory="$PWD/$into" -DincludeScope=runtime 2>&1) || {
			printf 'peers: fetching Kafka failed:\n%s\n' "$said" >&2
			exit 1
		}
		filled $list $into
	fi
}

[ $# -gt 0 ] || set -- rabbitmq kafka
for peer in "$@"; do
	case $peer in
	rabbitmq | kafka) "$peer" ;;
	*)
		printf 'peers: unknown broker %q; rabbitmq and kafka are known\n' "$peer" >&2
		exit 2
		;;
	esac
done
