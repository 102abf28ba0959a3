# make help lists the targets. Each target installs its dependencies if permitted, or lists them.

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
FILE ?=

.PHONY: help build demo lab test test-long quick bench speed clean

help: ## this list (default)
	@echo "Cellway: ATM for Linux in user space. Targets:"
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

build: ## both programs, optimised: target/release/cellway and cellway-lab
	@scripts/rust-ready build-only
	cargo build --release --locked --package cellway --package compat --package lab

demo: ## a PDU crosses the system: two hosts, a switch (FILE=... is the file to carry); builds target/demo/cellway
	@scripts/rust-ready build-only
	cargo build --profile demo --locked --package cellway --package compat
	$(TARGET_DIR)/demo/cellway demo $(FILE)

lab: build ## the papers' experiments: published, modelled, measured; a report in out/lab, under a minute
	$(TARGET_DIR)/release/cellway-lab report --quick

test: ## everything: style, lints, documentation, licences, unit, property, corpus and interop tests
	@scripts/test

test-long: ## random tests with many more cases than `make test` runs: an hour or more
	@scripts/test long

quick: ## while working: style, lints, unit and property tests
	@scripts/test fmt clippy test

bench: build ## throughput from application to application, and of the SAR kernels, with this machine's memcpy beside it
	$(TARGET_DIR)/release/cellway-lab bench path
	$(TARGET_DIR)/release/cellway-lab bench sar

speed: build ## an unmodified program on Cellway's sockets and on Linux's own, and the library's cost for other calls
	cargo test --release --locked --package interop --test speed -- --nocapture
	$(TARGET_DIR)/release/cellway-lab bench preload

clean: ## build output and results; the cached guest stays (~/.cache/cellway)
	cargo clean
	rm -rf out
