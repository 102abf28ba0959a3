# make help lists the targets. Each target installs its dependencies if permitted, or lists them.

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
FILE ?=

.PHONY: help build demo lab quick test test-peers test-deep bench speed dist docs clean

help: ## this list (default)
	@echo "Cellway: ATM for Linux in user space. Targets:"
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

build: ## both programs, optimised: target/release/cellway and cellway-lab
	@scripts/rust-ready build-only
	cargo build --release --locked --package cellway --package cellway-compat --package cellway-lab

demo: ## a PDU crosses the system: two hosts, a switch (FILE=... is the file to carry); builds target/demo/cellway
	@scripts/rust-ready build-only
	cargo build --profile demo --locked --package cellway --package cellway-compat
	$(TARGET_DIR)/demo/cellway demo $(FILE)

lab: build ## the papers' experiments: published, modelled, measured; a report in out/lab, under a minute
	$(TARGET_DIR)/release/cellway-lab report --quick

quick: ## while working: style, lints, documentation, unit tests
	@scripts/test quick

test: ## unit, property and integration tests; real kernels and stock tools in six tests
	@scripts/test

test-peers: ## every test with a real kernel, a stock daemon or a tool
	@scripts/test peers

test-deep: ## loom, sanitizers, Miri, long random tests, mutants, repetitions under load: hours
	@scripts/test deep

bench: build ## throughput from application to application, and of the SAR kernels, with this machine's memcpy beside it
	$(TARGET_DIR)/release/cellway-lab bench path
	$(TARGET_DIR)/release/cellway-lab bench sar

speed: build ## an unmodified program on Cellway's sockets and on Linux's own, and the library's cost for other calls
	cargo test --release --locked --package interop --test speed -- --nocapture
	$(TARGET_DIR)/release/cellway-lab bench preload

dist: ## Debian packages, tarball, OCI image, SPDX bill of materials in out/dist (PROFILE=release ARCHES="amd64 arm64")
	@packaging/dist

docs: ## the documentation as a site with search, in out/book
	@scripts/book

clean: ## build output and results; the cached guest stays (~/.cache/cellway)
	cargo clean
	rm -rf out
