# Everything one does with the project. `make` alone lists the targets.

VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME  ?= 5s
ARGS      ?=

# -trimpath and the absence of cgo make the binary the same wherever it is built, and let it run without any library.
# The version is given here, so the go tool need not ask git for it (which fails in a checkout that another user owns).
BUILDFLAGS := -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)'

.PHONY: help build run cluster test fuzz lint bench demo conformance peers clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: ## build the static binary bin/polylog
	CGO_ENABLED=0 go build $(BUILDFLAGS) -o bin/polylog .

run: build ## build and run the broker: bin/polylog serve ARGS, e.g. make run ARGS='--data /var/tmp/polylog'
	@exec bin/polylog serve $(ARGS)

cluster: build ## run three nodes on this machine that are one broker (ports: scripts/cluster.sh)
	@exec scripts/cluster.sh $(ARGS)

# End-to-end tests that begin with a broker run once more with brokers of three nodes; those left out have clusters of their own, or look at single processes.
OWN_NODES := Chaos|Histories|NodeEnds|Minority|EmptyNode|FirstOfThree|Rolling|Belong|Operator|Bench|HasNoRaces|Hostile

# The race detector changes what allocates, so the tests that count allocations run once more without it.
test: ## run all tests with the race detector, the allocation tests without, the end-to-end tests on three nodes, and each fuzz target for 2 s
	CGO_ENABLED=1 go test -race -timeout 15m ./...
	E2E_NODES=3 E2E_KILLS=4 go test -timeout 15m -skip '$(OWN_NODES)' ./e2e
	go test -run Alloc ./...
	FUZZTIME=2s scripts/fuzz.sh

fuzz: ## run each fuzz target for FUZZTIME (default: 5s)
	FUZZTIME=$(FUZZTIME) scripts/fuzz.sh

lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then printf 'not formatted, run gofmt -w on:\n%s\n' "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...

bench: build ## measure the log on this machine: bin/polylog bench log ARGS
	bin/polylog bench log $(ARGS)

demo: ## publish with AMQP, read with Kafka, take with AMQP, and see that every number adds up
	go run ./e2e/demo $(ARGS)

conformance: ## install clients in other languages and run them against the broker
	scripts/clients.sh
	go run ./e2e/clients $(ARGS)

peers: ## install RabbitMQ and Apache Kafka and run the same clients against them
	scripts/peers.sh
	scripts/clients.sh
	go run ./e2e/clients -peers $(ARGS)

clean: ## remove what was built
	rm -rf bin
	rm -f coverage.out *.test *.prof
