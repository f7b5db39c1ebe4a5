# Everything a developer does with this repository. `make` alone lists it.
#
# Nothing here downloads a program: all of them, the test cluster, kubectl and
# the linter too, are Go modules with checksums, compiled by the Go toolchain.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# What a command line may say differently: make test PACKAGES=./values
PACKAGES  ?= ./...
BENCH     ?= .
BENCHTIME ?= 1s
FUZZTIME  ?= 10s
FUZZ      ?= ^Fuzz
COUNT     ?= 1
# Packages whose tests know the flag -update, by themselves or from testkit.
GOLDEN    ?= $(shell grep -rlE --include='*.go' 'flag\..*"update"|"addon-operator/testkit"' . | xargs -r -n1 dirname | sort -u)
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# The test cluster is a module of its own. Without cgo, always: with it, Go
# would compile Kubernetes a second time. The linker flags tell the version;
# testkit/devclustertest builds with the same ones.
DEVCLUSTER := testkit/devcluster
LINK_KUBE   = -ldflags "$$(cat $(DEVCLUSTER)/ldflags)"

started := $(shell date +%s)

##@ Start here

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " }
	  /^##@ / { printf "\n%s\n", substr($$0, 5) }
	  /^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

.PHONY: run
run: build devcluster ## the operator in a cluster of its own, with example modules; Ctrl-C ends both
	@exec bash examples/run.sh

##@ Build

.PHONY: build
build: ## bin/addon-operator, static
	@CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$(VERSION)" -o bin/ ./cmd/addon-operator

.PHONY: devcluster
devcluster: bin/devcluster bin/kubectl bin/jq ## bin/devcluster, a control plane in one process; with kubectl and jq (4 minutes the first time)

bin/devcluster: $(wildcard $(DEVCLUSTER)/*)
	@$(if $(wildcard $@),,echo "building $@: a whole control plane, this takes minutes the first time")
	CGO_ENABLED=0 go build -C $(DEVCLUSTER) -buildvcs=false $(LINK_KUBE) -o $(CURDIR)/$@ .
	touch $@

# After the cluster, not beside it: most packages are the same.
bin/kubectl: $(wildcard $(DEVCLUSTER)/go.*) | bin/devcluster
	@CGO_ENABLED=0 go build -C $(DEVCLUSTER) -buildvcs=false $(LINK_KUBE) -o $(CURDIR)/$@ k8s.io/kubernetes/cmd/kubectl
	touch $@

bin/jq: .ci/tools.mod .ci/tools.sum
	@CGO_ENABLED=0 go build -modfile=.ci/tools.mod -buildvcs=false -o $@ github.com/itchyny/gojq/cmd/gojq
	touch $@

bin/golangci-lint: .ci/tools.mod .ci/tools.sum
	@CGO_ENABLED=0 go build -modfile=.ci/tools.mod -buildvcs=false -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	touch $@

.PHONY: clean
clean: ## remove what make built
	@rm -rf bin

##@ Check

.PHONY: test
test: format vet test-devcluster test-operator ## all that must pass before a commit: format, vet, tests with the race detector
	@echo "make test: everything passed, in $$(( $$(date +%s) - $(started) )) s"

.PHONY: format
format: ## is the code formatted?
	@files=$$("$$(go env GOROOT)/bin/gofmt" -l .)
	if [ -n "$$files" ]; then
	  echo "not formatted, run gofmt -w on:"
	  echo "$$files"
	  exit 1
	fi
	echo "format: ok"

.PHONY: vet
vet: ## go vet of both modules
	@go vet $(PACKAGES)
	CGO_ENABLED=0 go vet -C $(DEVCLUSTER) .
	echo "vet: ok ($$SECONDS s)"

.PHONY: test-devcluster
test-devcluster: devcluster ## the half of it that tests the test cluster
	@CGO_ENABLED=0 go test -C $(DEVCLUSTER) -vet=off $(LINK_KUBE) .

.PHONY: test-operator
test-operator: devcluster ## the half of it that tests everything else; one package by PACKAGES=./values
	@go test -race -vet=off $(PACKAGES)
	# Under the race detector tests repeat seldom, and those of megabytes are left out: here in full.
	go test -vet=off ./values
	go test -vet=off ./actors -run 'Random|Interleavings'
	go test -vet=off ./helm -run 'Killed|TooLarge' -kills 50

.PHONY: differential
differential: devcluster ## 600 random steps, the stock Helm library beside ours (some minutes)
	@go test -vet=off ./helm -run Differential -steps 600 -timeout 30m

.PHONY: golden
golden: devcluster ## rewrite the expected outputs of tests; look at the difference before you commit it
	@[ -n "$(strip $(GOLDEN))" ] || { echo "golden: no test knows -update"; exit 0; }
	go test $(GOLDEN) -update

.PHONY: lint
lint: bin/golangci-lint ## golangci-lint of both modules (minutes the first time, seconds later)
	@bin/golangci-lint run $(PACKAGES)
	cd $(DEVCLUSTER)
	CGO_ENABLED=0 $(CURDIR)/bin/golangci-lint run .
	echo "lint: ok ($$SECONDS s)"

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME=10s; fewer by PACKAGES=./hooks FUZZ=Config
	@for package in $$(go list $(PACKAGES)); do
	  targets=$$(go test -list '$(FUZZ)' "$$package" | grep '^Fuzz' || true)
	  for target in $$targets; do
	    echo "fuzz: $$package $$target"
	    output=$$(go test -run '^$$' -fuzz "^$$target\$$" -fuzztime '$(FUZZTIME)' "$$package" 2>&1) && continue
	    if grep -qx ' *context deadline exceeded' <<<"$$output" && ! grep -q 'Failing input' <<<"$$output"; then
	      continue # the end of the time, which Go before 1.27 may take for a failure (go.dev/issue/75804)
	    fi
	    echo "$$output"
	    exit 1
	  done
	done
	echo "fuzz: ok ($$SECONDS s)"

# Fuzzing instruments a package with all that it imports. These three stay clear of
# client-go and Helm: a minute of compiling the first time, not ten.
.PHONY: fuzz-hooks
fuzz-hooks: PACKAGES = ./hooks ./values ./kube/objectpatch
fuzz-hooks: FUZZ = ^Fuzz(ParseConfig|ParseMetrics|Patch|ParseObjectPatches)$$
fuzz-hooks: fuzz ## what hooks write: configuration, values patches, object patches, metrics

.PHONY: bench
bench: ## benchmarks: BENCH=pattern BENCHTIME=1s COUNT=1 PACKAGES=./...
	@go test -run '^$$' -bench '$(BENCH)' -benchtime '$(BENCHTIME)' -count '$(COUNT)' -benchmem $(PACKAGES)
