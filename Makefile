# Everything one does with the project. `make` alone lists the targets.

VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME  ?= 5s
ARGS      ?=

# -trimpath and the absence of cgo make the binary the same wherever it is built, and let it run without any library.
# The version is given here, so the go tool need not ask git for it (which fails in a checkout that another user owns).
BUILDFLAGS := -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)'

.PHONY: help build run test fuzz lint bench conformance clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: ## build the static binary bin/polylog
	CGO_ENABLED=0 go build $(BUILDFLAGS) -o bin/polylog .

run: build ## build and run bin/polylog with ARGS (default: help), e.g. make run ARGS='check -h'
	@bin/polylog $(if $(ARGS),$(ARGS),help)

# The race detector changes what allocates, so the tests that count allocations run once more without it.
test: ## run all tests with the race detector, the allocation tests without, and each fuzz target for 2 s
	CGO_ENABLED=1 go test -race -timeout 15m ./...
	go test -run Alloc ./logstore/...
	FUZZTIME=2s scripts/fuzz.sh

fuzz: ## run each fuzz target for FUZZTIME (default: 5s)
	FUZZTIME=$(FUZZTIME) scripts/fuzz.sh

lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then printf 'not formatted, run gofmt -w on:\n%s\n' "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...

bench: build ## measure the log on this machine: bin/polylog bench log ARGS
	bin/polylog bench log $(ARGS)

conformance: ## run real clients of each protocol against the broker
	@echo 'No protocol front-end exists yet, so there is nothing for clients to connect to and nothing was run.'

clean: ## remove what was built
	rm -rf bin
	rm -f coverage.out *.test *.prof
