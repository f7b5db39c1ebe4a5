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
BENCH     ?= Older
BENCHTIME ?= 1s
FUZZTIME  ?= 10s
SOAK_TIME ?= 10m
FUZZ      ?= ^Fuzz
COUNT     ?= 1
BASE      ?= HEAD
# Packages whose tests know the flag -update of testkit/golden.
GOLDEN    ?= $(shell grep -rlE --include='*_test.go' '^\s+"addon-operator/testkit(/golden)?"$$' . | xargs -r -n1 dirname | sort -u)
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# The test cluster is a module of its own, with the same versions of all libraries that the
# operator uses too (TestOperatorAndClusterShareVersions), and everything here is compiled
# with the flags in .ci/goflags, the image too, so Go compiles each package once. The programs
# carry no debug information, which saves a sixth of the first build, no symbols, which saves a
# quarter of the time to link a test, and no paths of the machine that built them.
DEVCLUSTER := testkit/devcluster
# What checks workflows and the Dockerfile is a module of its own, too.
CHECKS := .ci/checks
LINK_KUBE   = -ldflags "$$(sh $(DEVCLUSTER)/ldflags)"
BUILD       = VERSION=$(VERSION) bash .ci/build
export CGO_ENABLED := 0
export GOFLAGS     := $(shell cat .ci/goflags)

# The versions of Kubernetes that a control plane is made of: those of kube-*.mod, and of go.mod. The tests that have a
# cluster run on each, the others do not know of it. What they say is a row of docs/compatibility.md.
OLDER      := $(patsubst $(DEVCLUSTER)/kube-%.mod,%,$(sort $(wildcard $(DEVCLUSTER)/kube-*.mod)))
NEWEST     := $(shell awk '$$1 == "k8s.io/kubernetes" { split($$2, v, "."); print "1." v[2]; exit }' $(DEVCLUSTER)/go.mod)
KUBERNETES ?= $(OLDER) $(NEWEST)
CLUSTERED   = $(sort ./testkit/devclustertest $(shell grep -rl --include='*_test.go' '"addon-operator/testkit/devclustertest"' . | xargs -n1 dirname))

# How long the tests of one package may take. Go's own ten minutes are too few with the race
# detector on a machine that does other things, too.
LIMIT := -timeout 30m

# The race detector needs cgo, and that needs a C compiler. Where there is none, make check
# does without and says so.
CC_FOUND := $(shell command -v "$$(go env CC)" 2>/dev/null)

started := $(shell date +%s)

##@ Start here

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " }
	  /^##@ / { printf "\n%s\n", substr($$0, 5) }
	  /^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## a cluster, the operator and example modules; Ctrl-C ends everything. CLUSTER=memory, real or mine; VIEW=1: what each save does
	@exec bash examples/run.sh

##@ Build

.PHONY: build
build: ## bin/addon-operator, static
	@$(BUILD) operator

.PHONY: devcluster
devcluster: ## bin/devcluster, a Kubernetes control plane in one process; with kubectl and jq
	@$(BUILD) cluster tools

# The tools of others that .ci/tools.mod names.
bin/golangci-lint bin/govulncheck bin/gotestsum bin/cyclonedx-gomod bin/go-licenses: .ci/tools.mod .ci/tools.sum
	@echo "building $(@F)"
	$(LOW) go build -modfile=.ci/tools.mod -o $@ "$$(awk 'NF == 1 && $$1 ~ "/$(@F)(/v[0-9]+)?$$" { print $$1 }' .ci/tools.mod)"
	touch $@

.PHONY: clean
clean: ## remove what make built
	@rm -rf bin dist

##@ Check

.PHONY: quick
quick: format vet-changed ## in one or two minutes: format, vet of what changed, all tests that need no cluster
	@output=$$(mktemp)
	export GOGC=400 # as in test
	go test -C $(DEVCLUSTER) -short -vet=off $(LINK_KUBE) . >"$$output" 2>&1 & # as in test
	others=$$! code=0
	trap 'kill "$$others" 2>/dev/null || true; rm -f "$$output"' EXIT
	go test -short -vet=off $(AT_A_TIME) $(ALL_PACKAGES) || code=$$?
	wait "$$others" || code=$$?
	cat "$$output"
	[ "$$code" = 0 ] || exit "$$code"
	echo "make quick: passed, in $$(( $$(date +%s) - $(started) )) s"

# go test begins packages in the order of the command line. Those that take longest, or wait longest, come first: one that is
# left over at the end keeps a single processor busy.
LONGEST := ./cmd/e2e ./examples ./helm ./actors ./kube ./hooks ./cmd/lint ./helm/health ./kube/apiserver ./testkit/devclustertest ./actors/scenario ./values

# So many packages at a time, and tests of each, on two processors too: most of them wait for an API server, for hooks
# or for a timer, and leave a processor idle. With more of them all wait longer, ask again, and so compute more.
AT_A_TIME := -p 4 -parallel 8

# make check runs a failed test once more, by itself, as most end-to-end tests of Kubernetes projects do: one
# test of a thousand that depends on the load of the machine must not hide what the others say. It
# prints which one that was, and such a test is a defect to fix. A data race is never run again,
# nor are more than five failures. make test runs each test once.
GO_TEST = $(if $(RERUN),bin/gotestsum --format pkgname $(if $(RESULTS),--jsonfile "$(RESULTS)") --rerun-fails=1 --rerun-fails-max-failures=5 --rerun-fails-abort-on-data-race --packages="$(strip $1)" --,go test $1) -vet=off $(LIMIT) $(AT_A_TIME)
ALL_PACKAGES = $(if $(filter ./...,$(PACKAGES)),$(LONGEST)) $(PACKAGES)

.PHONY: test
test: format devcluster ## proves the product: the tests, on a real API server; one package by PACKAGES=./values
	@output=$$(mktemp)
	go test -C $(DEVCLUSTER) -vet=off $(LINK_KUBE) . >"$$output" 2>&1 & # it links alone for seconds
	cluster=$$! code=0
	trap 'kill "$$cluster" 2>/dev/null || true; rm -f "$$output"' EXIT
	export GOGC=400 # linker and tests live for seconds: fewer collections save a tenth of their time
	$(call GO_TEST,$(ALL_PACKAGES)) || code=$$?
	wait "$$cluster" || code=$$?
	cat "$$output"
	[ "$$code" = 0 ] || exit "$$code"
	echo "make test: passed, in $$(( $$(date +%s) - $(started) )) s (the race detector, vet and lint run in make check)"

# make test leaves a processor idle for a third of its time. These targets only compute, so they run in parallel
# with it, at the lowest priority; the output of each appears when it ends. The other targets run one after the
# other, and nothing runs in parallel with them: tests with timeouts that share two processors fail by chance.
PARALLEL_TARGETS := oldest race-libraries lint test-release test-files test-site

.PHONY: check
check: bin/gotestsum devcluster ## what CI runs: test, and the race detector on the oldest Kubernetes, lint with go vet, 600 differential steps, a release, workflows, fuzzing, a short soak
	@bash .ci/fetch-axe
	[ ! -s bin/axe.js ] || export AXE='$(CURDIR)/bin/axe.js' # for TestLivePage
	$(MAKE) --no-print-directory -j 2 -O RERUN=yes LOW='nice -n 19' test $(PARALLEL_TARGETS)
	$(MAKE) --no-print-directory RERUN=yes test-race test-full differential fuzz-hooks soak-short
	echo "make check: passed, in $$(( $$(date +%s) - $(started) )) s"

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
vet: ## go vet of all modules
	@go vet $(PACKAGES)
	for module in $(DEVCLUSTER) $(CHECKS); do go vet -C "$$module" .; done
	echo "vet: ok ($$SECONDS s)"

.PHONY: vet-changed
vet-changed: ## go vet of the packages with changes against BASE=HEAD
	@packages=$$({ git diff --name-only --relative $(BASE) -- '*.go'; git ls-files --others --exclude-standard -- '*.go'; } |
	  { grep -vE '^($(DEVCLUSTER)|$(CHECKS))/' || true; } | xargs -r -n1 dirname | sort -u | while read -r dir; do [ ! -d "$$dir" ] || echo "./$$dir"; done)
	[ -z "$$packages" ] || go vet $$packages
	echo "vet: ok ($$(wc -w <<<"$$packages") packages with changes)"

# The race detector sees goroutines that share memory. It compiles everything once more and makes tests ten
# times slower, so it is asked about packages that begin goroutines, themselves or in their tests; nothing else can
# race. The end-to-end tests build the program with the detector, when they have it. Not so the programs
# that the tests of examples build by run.sh. Of the tests of values, which begins none, two do.
CONCURRENT := ^\s*go [a-z]|[.]Go\b|t[.]Parallel\b|httptest[.]New|actor[.]Context
RACING      = $(if $(filter ./...,$(PACKAGES)),$(filter-out ./examples ./values ./$(DEVCLUSTER) ./$(CHECKS),$(shell \
  grep -rlE --include='*.go' '$(CONCURRENT)' . | xargs -n1 dirname | sort -u)),$(PACKAGES))
IN_VALUES   = $(shell awk -F'[ \050]' '/^func Test/ { test = $$2 } /[.]Go[^a-z]|^[ \t]*go [a-z]/ { print test }' values/*_test.go | sort -u | paste -sd '|' -)

# These tests run on the oldest Kubernetes that is supported: make test has had them on the newest.
.PHONY: test-race
test-race: devcluster oldest race-libraries ## tests of all that has several goroutines, with the race detector, on the oldest Kubernetes; without a C compiler those that have a cluster
	@export KUBERNETES='$(firstword $(OLDER))'
	if [ -z '$(CC_FOUND)' ]; then
	  echo "test-race: there is no C compiler ($$(go env CC)), so there is no race detector: only tests with a cluster run, on Kubernetes $$KUBERNETES"
	  $(call GO_TEST,$(CLUSTERED))
	  $(call GO_TEST,./cmd/e2e ./kube) -run '$(NOT_IN_TEST)' -args -full
	  exit
	fi
	export CGO_ENABLED=1
	$(call GO_TEST,$(filter $(RACING),$(LONGEST)) $(RACING)) -race
	$(if $(filter ./...,$(PACKAGES)),$(call GO_TEST,./cmd/e2e ./kube) -race -run '$(NOT_IN_TEST)' -args -full)
	$(if $(filter ./...,$(PACKAGES)),go test -vet=off -race ./values -run '$(IN_VALUES)')
	echo "test-race: ok, on Kubernetes $$KUBERNETES ($$SECONDS s)"

# What make test leaves to make test-full, and the race detector and older versions of Kubernetes have, too.
NOT_IN_TEST = ^Test(ForeignCharts|RestartOfTheAPIServer|RestoreOfTheStore)$$

.PHONY: oldest
oldest:
	@$(LOW) bash .ci/build 'cluster-$(firstword $(OLDER))'

.PHONY: race-libraries
race-libraries:
	@[ -z '$(CC_FOUND)' ] || CGO_ENABLED=1 $(LOW) go list -race -export -test -deps $(RACING) >/dev/null # compiles, and links nothing

# What loads the operator, and what repeats, is here in full. make test has none of the floods, bombs and crowds, 3 of
# the 20 kills of leaders, one of the 3 restarts of TestHealingOutlivesTheAPIServer, no hook that hangs for more than
# a minute, 20 of 100 random scripts, each lifecycle script once and not under 5 more seeds, a third of the crashes of
# actors, 32 of the 600 random steps of helm (make differential), of the tests of the test cluster only those of what
# others share, of the texts that say what to paste only the README, not what make run does when it is disturbed or
# has a view, no comparison of charts with Helm, and no API server that is killed or restored below the watches of
# package kube.
IN_FULL = LeaderIsKilled|HealingOutlives|$(shell awk -F'[ \050]' '/^func Test/ { test = $$2 } /^\tdevclustertest.OnlyInFull/ { print test }' cmd/e2e/*_test.go kube/*_test.go | paste -sd '|' -)

.PHONY: test-full
test-full: devcluster oldest ## tests that repeat or load the operator, in full
	@$(call GO_TEST,./helm) -run TooLarge
	$(call GO_TEST,./cmd/e2e ./kube) -run '$(IN_FULL)' -args -full
	$(call GO_TEST,./examples) -args -full
	$(call GO_TEST,./actors) -run 'Random|Interleavings|CrashOver' -args -sequences 100 -full
	$(call GO_TEST,./values) -args -thorough
	$(call GO_TEST,./testkit/devclustertest) -args -full
	KUBERNETES='$(firstword $(OLDER))' $(call GO_TEST,./testkit/devclustertest) -args -full
	echo "test-full: ok ($$SECONDS s)"

.PHONY: differential
differential: devcluster ## 600 random steps, the stock Helm library beside ours
	@go test -vet=off ./helm -run Differential -steps 600 -timeout 30m
	echo "differential: ok ($$SECONDS s)"

# A CI that fails can be run again with the same faults: its seed is fixed. make soak draws one by the clock.
# The test counts its time itself, and ends a little after it: a round that has begun is played to its end.
.PHONY: matrix
matrix: RERUN = yes
matrix: RESULTS = $$results
matrix: bin/gotestsum devcluster ## tests on the versions of Kubernetes in KUBERNETES="1.34 1.35 1.36", which writes docs/compatibility.md
	@mkdir -p bin/matrix
	code=0
	for version in $(KUBERNETES); do
	  [ "$$version" = '$(NEWEST)' ] && unset KUBERNETES || export KUBERNETES="$$version"
	  [ "$$version" = '$(NEWEST)' ] || bash .ci/build "cluster-$$version"
	  echo "matrix: Kubernetes $$version"
	  results="$(CURDIR)/bin/matrix/$$version.json"
	  $(call GO_TEST,$(filter $(CLUSTERED),$(LONGEST)) $(CLUSTERED)) -count=1 -skip '^TestCompatibilityPage$$' || code=$$?
	  go test -count=1 -vet=off $(LIMIT) ./cmd/e2e ./kube -run '$(NOT_IN_TEST)' -args -full || code=$$?
	  MATRIX_RESULTS="$$results" go test -count=1 -v -vet=off ./cmd/e2e -run '^TestCompatibilityPage$$' || code=$$?
	done
	[ "$$code" = 0 ] || exit "$$code"
	echo "matrix: ok ($$SECONDS s)"

.PHONY: soak
soak: devcluster ## the program under faults from a seed, for SOAK_TIME=10m, against a model; the same faults again by SOAK_SEED=N
	@SOAK_TIME='$(SOAK_TIME)' SOAK_SEED='$(SOAK_SEED)' go test -vet=off -count=1 -v -timeout 24h ./cmd/e2e -run '^TestSoak$$'
	echo "soak: ok ($$SECONDS s)"

.PHONY: soak-short
soak-short: SOAK_TIME = 40s
soak-short: SOAK_SEED ?= 13
soak-short: soak

# Charts of others, which are no part of this repository: .ci/fetch-charts says where some are from. Without
# CHARTS these tests play the charts of the repository, as make test-full does. A report of each chart is printed, and with
# CHARTS_TABLE=docs/charts.md, or another file with the same two marks, becomes the table there.
.PHONY: charts
charts: devcluster ## the charts in CHARTS=DIR (DIR/NAME or DIR/NAME.tgz, with NAME.values.yaml next to it) as modules, compared with Helm
	@export CHARTS='$(if $(CHARTS),$(abspath $(CHARTS)))' CHARTS_TABLE='$(if $(CHARTS_TABLE),$(abspath $(CHARTS_TABLE)))'
	go test -vet=off -count=1 -v $(LIMIT) ./cmd/e2e -run '^TestForeignCharts$$' -full
	echo "charts: ok ($$SECONDS s)"

.PHONY: test-files
test-files: ## lints the Dockerfile, and workflows and forms in .github
	@$(LOW) go test -C $(CHECKS) -vet=off -count=1 .
	echo "test-files: ok ($$SECONDS s)"

.PHONY: docs
docs: ## builds the site from docs/ into bin/site, and serves it on this machine; needs npm
	@bash .ci/site preview

.PHONY: test-site
test-site: ## builds the site, which fails at a dead link
	@$(LOW) bash .ci/site test
	echo "test-site: ok ($$SECONDS s)"

.PHONY: golden
golden: devcluster ## rewrite the expected outputs of tests; look at the difference before you commit it
	@[ -n "$(strip $(GOLDEN))" ] || { echo "golden: no test knows -update"; exit 0; }
	go test $(GOLDEN) -update

# The cache of golangci-lint is below that of Go, which CI keeps between runs (actions/setup-go): packages that did not
# change are not analysed again. Its default directory is kept nowhere.
.PHONY: lint
lint: export GOLANGCI_LINT_CACHE ?= $(shell go env GOCACHE)/golangci-lint
lint: bin/golangci-lint ## golangci-lint of all modules (minutes the first time, seconds later)
	@$(LOW) bin/golangci-lint run $(PACKAGES)
	for module in $(DEVCLUSTER) $(CHECKS); do
	  cd "$(CURDIR)/$$module"
	  $(LOW) "$(CURDIR)/bin/golangci-lint" run .
	done
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

# By default the program is compared with that of an older commit, the last release, in one run: only ratios of one run
# mean something. Run it on a quiet machine, before and after a change of what the operator does at a start or a reload.
SINCE ?= $(shell git describe --tags --abbrev=0 2>/dev/null)

.PHONY: bench
bench: devcluster ## ratios to the program of SINCE=COMMIT, in five minutes; or other benchmarks: BENCH=pattern BENCHTIME=1s COUNT=1 PACKAGES=./...
	@flags='-benchtime $(BENCHTIME) -count $(COUNT) -benchmem $(PACKAGES)'
	if [ '$(BENCH)' = Older ]; then
	  flags='-benchtime 1x ./cmd/e2e'
	  commit=$$(git rev-parse --verify --quiet --short '$(SINCE)^{commit}') ||
	    { echo "make bench: SINCE='$(SINCE)' is no commit here; name the one to compare with, as SINCE=HEAD~1; without SINCE it is the last tag" >&2; exit 2; }
	  export OLDER_PROGRAM='$(CURDIR)/bin/older-'$$commit
	  if [ ! -x "$$OLDER_PROGRAM" ]; then
	    dir=$$(mktemp -d)
	    trap 'rm -rf "$$dir"' EXIT
	    git archive "$$commit" | tar -x -C "$$dir"
	    go build -C "$$dir" -o "$$OLDER_PROGRAM" ./cmd/addon-operator
	  fi
	fi
	go test -run '^$$' -bench '$(BENCH)' -timeout 30m $$flags

##@ Release

include deploy/release.mk

.PHONY: release-check
release-check: bin/cyclonedx-gomod bin/go-licenses ## builds a release for PLATFORMS twice, from two directories: the same bytes each time
	@MAKE='$(MAKE)' PLATFORMS='$(PLATFORMS)' $(LOW) bash .ci/release-check
	echo "release-check: ok for $(PLATFORMS) ($$SECONDS s)"

.PHONY: test-release
test-release: PLATFORMS = $(shell go env GOOS)/$(shell go env GOARCH)
test-release: release-check

# A scan that could not be made is not one that found nothing: it fails.
IN_IMAGE = $(shell sed -n 's/^ARG KUBECTL=//p' Dockerfile)
.PHONY: scan
scan: bin/govulncheck ## known vulnerabilities of the operator and of kubectl in its image; needs the database of Go
	@scan=(bin/govulncheck $(if $(GOVULNDB),-db '$(GOVULNDB)'))
	output=$$("$${scan[@]}" $(PACKAGES) 2>&1 && GOFLAGS="$$GOFLAGS -modfile=$(IN_IMAGE)" "$${scan[@]}" -C $(DEVCLUSTER) k8s.io/kubernetes/cmd/kubectl 2>&1) && code=0 || code=$$?
	echo "$$output"
	if grep -q 'fetching vulnerabilities' <<<"$$output"; then
	  echo "scan: NOT DONE: the database of vulnerabilities cannot be reached from here; another one is named by GOVULNDB=URL"
	elif [ "$$code" != 0 ]; then
	  echo "scan: vulnerabilities were found, or the scan failed, see above"
	else
	  echo "scan: ok ($$SECONDS s)"
	fi
	exit "$$code"
