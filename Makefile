# What can be done here; each target is a thin call of a script. `make` alone prints this list.
# Variables: SCALE=short|full (length of the long proofs), KEEP=1 (leave the cluster running), PG_CONFIG=/path/to/pg_config.

SHELL := bash
SCALE ?= short
export SCALE KEEP PG_CONFIG

STEPS := lint domain-test fuzz-domain pgrx-test regress isolation gateways concurrency model fuzz clients docs-test
# These run against the installed extension on the cluster `test`.
ON_CLUSTER := regress isolation gateways concurrency model fuzz clients docs-test

.DEFAULT_GOAL := help
.PHONY: help setup build install demo test soak bench fmt clean $(STEPS)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo '  SCALE=full: the long proofs at full length   KEEP=1: leave the cluster running   PG_CONFIG=...: another server'

setup: ## install what is missing (Debian packages, cargo-pgrx, drivers); the other targets do it by themselves
	@scripts/setup.sh

build: ## lay the release build out below build/package
	@scripts/setup.sh build
	@scripts/install.sh --package build/package

install: ## build and install the extension into the system's PostgreSQL
	@scripts/setup.sh build
	@scripts/install.sh

demo: ## the guided tour on a throwaway cluster
	@scripts/setup.sh demo
	@scripts/install.sh --quiet
	@scripts/demo.sh

test: setup ## every test, in order
	@scripts/test.sh

soak: ## every test with the long proofs at full length
	@$(MAKE) --no-print-directory test SCALE=full

bench: ## measure it beside hand-written peers (docs/PERFORMANCE.md)
	@scripts/setup.sh build
	@scripts/install.sh --quiet
	@scripts/bench.sh

fmt: ## format the Rust code
	@. scripts/env.sh && use_rust && for crate in . tests/clients/rust tests/model fuzz fuzz/domain benches; do cargo fmt --manifest-path $$crate/Cargo.toml; done

lint: ## formatting, clippy, shellcheck, the rules of the tree
domain-test: ## the rules alone, without PostgreSQL
fuzz-domain: ## coverage-guided fuzzing of definitions, signatures and readers
pgrx-test: ## cargo pgrx test: inside a server (leaves a test build installed)
regress: ## pg_regress: the SQL surface
isolation: ## pg_isolation_regress: chosen interleavings
gateways: ## known answers of thirty gateways, and the vendors' own libraries
concurrency: ## many sessions at once, crashes, retries
model: ## random concurrent histories against a reference model
fuzz: ## random, mutated and grammar-made deliveries through SQL
clients: ## the same calls from Python, Node, Java, Go and Rust
docs-test: ## the SQL in the documentation

lint domain-test fuzz-domain pgrx-test: setup
	@scripts/test.sh $(@:-test=)

$(ON_CLUSTER): setup
	@scripts/test.sh install $(@:-test=)

clean: ## stop the clusters and remove build/ (cargo's target/ stays: cargo clean)
	@for name in $$(scripts/cluster.sh list); do scripts/cluster.sh drop "$$name"; done
	@. scripts/env.sh; for dir in build/*; do [ ! -L "$$dir" ] || rm -rf "$$(readlink "$$dir")"; done; rm -rf build
