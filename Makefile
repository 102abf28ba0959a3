# make help says what there is. Each target installs what it lacks, or says what to install.

PROFILE_DIR := $(or $(CARGO_TARGET_DIR),target)/release
FILE ?=

.PHONY: help build demo lab test test-long quick bench speed clean

help: ## what there is (default)
	@echo "Cellway: ATM for Linux in user space. Targets:"
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

build: ## the program, optimised: target/release/cellway
	@scripts/rust-ready build-only
	cargo build --release --locked --package cellway --package compat

demo: build ## a PDU crosses the system: two hosts, a switch, under a minute (FILE=... is the file to carry)
	$(PROFILE_DIR)/cellway demo $(FILE)

lab: build ## the papers' experiments: published, modelled, measured; a report in out/lab, under a minute
	$(PROFILE_DIR)/cellway lab report --quick

test: ## everything: style, lints, documentation, licences, unit, property, corpus and interop tests
	@scripts/test

test-long: ## random tests with many more cases than `make test` runs: an hour or more
	@scripts/test long

quick: ## what one wants while working: style, lints, unit and property tests
	@scripts/test fmt clippy test

bench: build ## throughput from application to application, and of the SAR kernels, with this machine's memcpy beside it
	$(PROFILE_DIR)/cellway bench path
	$(PROFILE_DIR)/cellway bench sar

speed: build ## an unmodified program on Cellway's sockets beside a Linux kernel's own, and what the library costs other calls
	cargo test --release --locked --package interop --test speed -- --nocapture
	$(PROFILE_DIR)/cellway bench preload

clean: ## build output and results; the cached guest stays (~/.cache/cellway)
	cargo clean
	rm -rf out
