# Everything a developer needs: make help.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
BIN     := bin/parley
LINTER  := bin/golangci-lint
# Clients expect a semantic version: the last tag v1.2.3, or the one to come.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null | sed 's/^v//' | grep . || echo 0.1.0-dev)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# What `make run` hands to `parley serve`. With --demo the built-in scripted
# model answers where no LLM is configured; `make run ARGS=` runs without it.
ARGS ?= --demo

# What `make test` tests, and how long each fuzz target runs in it: a number of
# inputs (3000x) or a time (1m).
PKG      ?= ./...
FUZZTIME ?= 3000x

# How long make soak goes on.
SOAK ?= 10m

export GO PKG FUZZTIME

.PHONY: help
help: ## show the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build ## build and start the server on http://127.0.0.1:3000 (ARGS=... go to parley serve)
	@exec $(BIN) serve $(ARGS)

.PHONY: build
build: needs ## build bin/parley, static
	@scripts/build $(BIN) '$(LDFLAGS)'

.PHONY: test
test: needs $(LINTER) ## format, vet, lint, fuzz for seconds, and run all tests
	@scripts/test

.PHONY: lint
lint: needs $(LINTER) ## run the linters
	@$(LINTER) run ./...

.PHONY: fuzz
fuzz: needs ## run every fuzz target for FUZZTIME (make fuzz FUZZTIME=1m)
	@scripts/fuzz

.PHONY: soak
soak: build ## run with failing models and kills for SOAK (make soak SOAK=60m), and check every log and every cent
	@PARLEY_TEST_BINARY=$(abspath $(BIN)) $(GO) test ./test/soak -run TestSoak -v -count 1 -timeout 0 -args -soak $(SOAK)

.PHONY: bench
bench: build ## measure, print a table and keep it in docs/benchmarks.md
	@$(GO) run ./test/bench -binary $(BIN) -out docs/benchmarks.md

.PHONY: fmt
fmt: needs ## format the code
	@gofmt -w client cmd internal test
	@[ ! -d web/node_modules ] || (cd web && npm run --silent fix)

.PHONY: clean
clean: ## remove what was built
	@rm -rf bin
	@find internal/webui/dist -mindepth 1 ! -name README.md -delete

.PHONY: needs
needs:
	@scripts/needs

# The linter's dependencies are a module of their own, so that they stay out of
# the program's.
$(LINTER): tools/go.mod tools/go.sum | needs
	@echo "building golangci-lint (once; needs the network the first time)"
	@cd tools && CGO_ENABLED=0 $(GO) build -o ../$(LINTER) github.com/golangci/golangci-lint/v2/cmd/golangci-lint
