# SPDX-FileCopyrightText: The livecpm authors
# SPDX-License-Identifier: Apache-2.0

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export CGO_ENABLED ?= 0
GO        ?= go
# Everything is compiled with the flags of the landscape's programs, so that common packages are compiled once. What is linked has no
# DWARF anyway, and compiling without it saves a tenth of the time.
BUILD_FLAGS = -trimpath -gcflags=all=-dwarf=false
export GOFLAGS := $(filter-out $(BUILD_FLAGS),$(shell $(GO) env GOFLAGS 2>/dev/null)) $(BUILD_FLAGS)
ARTIFACTS ?= _artifacts
# The state of the landscape, and the cache of what is built once. Set both from outside if you need to.
export LIVECPM_STATE ?= $(CURDIR)/.landscape
export LIVECPM_CACHE ?= $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/livecpm

# The gardenlet of the landscape: composed, upstream or drop-in. Empty: that of the landscape that is up, else composed.
export LIVECPM_GARDENLET := $(or $(GARDENLET),$(LIVECPM_GARDENLET))
export LIVECPM_TLS_TERMINATION := $(or $(TLS_TERMINATION),$(LIVECPM_TLS_TERMINATION))
# Whether the names of the members of new Etcds have a prefix: on, or off as in shoots that are older than it. Empty: as in the
# landscape that is up, else on.
export LIVECPM_MEMBER_PREFIX := $(or $(MEMBER_PREFIX),$(LIVECPM_MEMBER_PREFIX))
# The shoot of the landscape: live, workers, single or single-workers. Empty: that of the landscape that is up, else live.
export LIVECPM_SHOOT := $(or $(SHOOT),$(LIVECPM_SHOOT))
# The nodes of each seed, 1 or 3, and what the shoot tolerates, node or zone. Empty: those of the landscape that is up, else 1.
export LIVECPM_NODES := $(or $(NODES),$(LIVECPM_NODES))
export LIVECPM_TOLERANCE := $(or $(TOLERANCE),$(LIVECPM_TOLERANCE))
# How the members of shoots' etcds stop: shipped (the default), as real ones do, or graceful.
export LIVECPM_ETCD := $(or $(ETCD),$(LIVECPM_ETCD))
# How the seeds enforce NetworkPolicies: on (the default), packets or off.
export LIVECPM_POLICIES := $(or $(POLICIES),$(LIVECPM_POLICIES))
# The load of demo, end-to-end specs and benchmarks: normal (the default) or heavy, with 100 writes per second.
export LIVECPM_LOAD := $(or $(LOAD),$(LIVECPM_LOAD))

# Agents compare their own build with the gardenlets' version, so Gardener's version is stamped into every binary.
GARDENER_VERSION = $(shell $(GO) list -m -f '{{.Version}}' github.com/gardener/gardener)
LDFLAGS = -s -w -X k8s.io/component-base/version.gitVersion=$(GARDENER_VERSION) -X k8s.io/component-base/version.gitTreeState=clean \
	-X github.com/livecpm/livecpm/pkg/release.version=$(VERSION)

# Our own code without the suites that need API servers or the landscape.
UNIT_PACKAGES        = $(shell $(GO) list ./... | grep -v -e /test/integration -e /test/suites)
INTEGRATION_PACKAGES = ./test/integration/...
# How many packages to compile and test at once. Tests wait more than they compute; those with their own API servers compute more.
UNITS_AT_ONCE        ?= $(shell echo $$((2 * $$(nproc))))
INTEGRATIONS_AT_ONCE ?= $(shell echo $$((1 + $$(nproc))))
# With ROUNDS each package is compiled once and tested so many times. The limit is that of all rounds.
LIMIT = $(if $(ROUNDS),3h,20m)
REPEAT = $(if $(ROUNDS),-count=1 -exec '$(CURDIR)/hack/rounds.sh $(ROUNDS)')

# What make help shows. The rest, and what variables each takes, is in make help-all.
EVERYDAY = build images quick check test test-unit test-integration test-e2e demo landscape-up landscape-status landscape-down release \
	clean help-all

.PHONY: help
help: # Show what people need every day
	@awk -v everyday=' $(EVERYDAY) ' 'BEGIN {FS = ":.*## "} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-zA-Z0-9_-]+:.*## / && index(everyday, " " $$1 " ") {sub(/( \(|; |\. ).*/, "", $$2); printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Check what a target needs before anything is built. These are prerequisites because make asks go for the packages of a recipe
# before its first line runs. INSTALL=no installs nothing, REQUIREMENTS=warn continues with too little memory (see the script).
.PHONY: setup-landscape setup-test setup-check setup-recovery
setup-landscape setup-test setup-check setup-recovery: setup-%:
	@INSTALL='$(INSTALL)' REQUIREMENTS='$(REQUIREMENTS)' hack/setup.sh $*

##@ Build

.PHONY: build
build: ## Build livecpm's binaries into bin/
	$(GO) build -trimpath -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...

.PHONY: images
images: ## Build the images as OCI tarballs into bin/images (FROM scratch, no container engine; with bills of materials)
	$(GO) run ./hack/images/cmd --out bin/images

.PHONY: examples
examples: ## Pack the agent's chart into the manifests in examples/
	$(GO) run ./hack/examples/cmd --out examples

.PHONY: licenses
licenses: ## Write docs/licences.md: the modules in what is shipped, and their licences
	$(GO) run -C hack/licences .

.PHONY: krew
krew: ## Build kubectl-livecpm for all platforms and pack it for krew into bin/krew (VERSION=v0.1.0)
	$(GO) run ./hack/krew/cmd --version "$(VERSION)" --ldflags "$(LDFLAGS)" --out bin/krew

.PHONY: release
release: ## Make all files of a release in bin/release (VERSION=v0.1.0, REGISTRY=; images for amd64 and arm64, charts, plugin, bills of materials, checksums)
	$(GO) run ./hack/release/cmd --version "$(VERSION)" --registry "$(or $(REGISTRY),livecpm.local)"

.PHONY: screenshots
screenshots: ## Write pictures of the report of the recorded migration to docs/images (needs Chromium)
	$(GO) run ./hack/screenshots/cmd --out docs/images

.PHONY: usage
usage: ## Bring docs/usage up to what make test-e2e LABELS=cli has recorded
	hack/usage.sh

.PHONY: tools
tools: setup-test ## Build the real components the landscape runs (once, cached by version)
	hack/build-tools.sh

##@ Test

# Tests do not vet: make check does, and vetting again would analyse everything that is imported once more.

.PHONY: quick
quick: ## Check and test one package within a minute (PKG=./pkg/etcd/quorum, FOCUS=name of a spec); without PKG those that have changed
	FOCUS='$(FOCUS)' hack/quick.sh $(PKG)

.PHONY: check
check: setup-check ## Check formats, imports, charts, alerts, licences and prose, and run the linters
	hack/check.sh

.PHONY: test
test: test-unit test-integration ## Run unit and integration tests (race detector on)

.PHONY: test-unit
test-unit: setup-test ## Run the unit tests
	hack/build-tools.sh envoy
	CGO_ENABLED=1 $(GO) test -race -vet=off -p $(UNITS_AT_ONCE) -timeout $(LIMIT) $(REPEAT) $(UNIT_PACKAGES)
	cd hack/licences && CGO_ENABLED=1 $(GO) test -race -timeout $(LIMIT) $(REPEAT) ./...
	cd test/standins/etcdwrapper && CGO_ENABLED=1 GONOSUMDB='go.etcd.io/etcd/*' $(GO) test -race -timeout $(LIMIT) $(REPEAT) ./...

.PHONY: test-integration
test-integration: setup-test ## Run the integration tests against a real kube-apiserver and gardener-apiserver
	CGO_ENABLED=1 KUBEBUILDER_ASSETS="$$(hack/envtest-assets.sh)" $(GO) test -race -vet=off -p $(INTEGRATIONS_AT_ONCE) -count=1 -timeout $(LIMIT) $(REPEAT) $(INTEGRATION_PACKAGES)

.PHONY: test-busy
test-busy: ## Run the unit and integration tests ten times (ROUNDS=) while every processor is busy: what fails then needs a quiet machine
	hack/busy.sh $(MAKE) --no-print-directory test ROUNDS=$(or $(ROUNDS),10)

.PHONY: test-mutations
test-mutations: ## Put deliberate faults into the product, one after the other, and fail if the specs miss one: FOCUS= chooses by name, SAMPLE=5 tries so many, chosen by the commit (COMMIT=)
	$(GO) run ./test/mutations/cmd/mutate $(if $(FOCUS),--focus '$(FOCUS)') $(if $(SAMPLE),--sample '$(SAMPLE)' --commit "$(or $(COMMIT),$$(git rev-parse HEAD))")

# Suites, commands and results: docs/development/release-results.md.
.PHONY: test-release
test-release: ## Run the suites that .ci/run has no time for, one after another, and record their results (LIST=yes prints the commands, SUITES=cli,drain chooses; most need root)
	$(GO) run ./test/release/cmd/release $(if $(filter yes,$(LIST)),--list) $(if $(SUITES),--suites '$(SUITES)')

.PHONY: fuzz
fuzz: ## Fuzz what reads from strangers: every target for FUZZTIME (1m), FUZZ= chooses
	FUZZTIME='$(FUZZTIME)' FUZZ='$(FUZZ)' hack/fuzz.sh

# What is searched, and how to read what is found: docs/development/search.md.
.PHONY: test-search
test-search: ## Search what the agents do in every order of events (BOUND=20000 states of each world, SCHEDULES=100000 random ones of SEED=1); SCHEDULE=NUMBER or REPLAY=FILE repeats one
	BOUND='$(or $(BOUND),20000)' SCHEDULES='$(or $(SCHEDULES),100000)' SEED='$(SEED)' SCHEDULE='$(SCHEDULE)' REPLAY='$(abspath $(REPLAY))' \
		$(GO) test -vet=off -count=1 -v -timeout 0 ./test/search/... -ginkgo.v $(if $(SCHEDULE)$(REPLAY),-ginkgo.focus 'should be replayed')

.PHONY: bench-drain
bench-drain: setup-test ## Drain 3 of 20 seeds with 2,000 shoots in a real garden-apiserver with simulated agents, and report what it costs
	$(GO) build -trimpath -ldflags "$(LDFLAGS)" -o bin/ ./cmd/livecpm-controller-manager
	LIVECPM_BENCH_DRAIN=$(CURDIR)/bin/livecpm-controller-manager KUBEBUILDER_ASSETS="$$(hack/envtest-assets.sh)" $(GO) test -vet=off -count=1 -v -timeout 15m ./test/integration/drain/... -ginkgo.focus 'Drain at scale'

.PHONY: bench
bench: setup-landscape ## Measure what migrations cost and write docs/benchmarks.md (needs root; BENCH=relay,join,agent,landscape,live,production,distance,size chooses, BENCH_FLAGS= as --distances=0,180)
	KUBEBUILDER_ASSETS="$$(hack/envtest-assets.sh)" $(GO) run ./test/bench/cmd/bench --parts "$(BENCH)" $(BENCH_FLAGS)

.PHONY: bench-page
bench-page: ## Write docs/benchmarks.md of the figures in docs/benchmarks/data
	$(GO) run ./test/bench/cmd/bench --page

# One tree of specs (test/suites), of which labels choose. What only recovery, conformance or bench need is installed and built only
# for them.
# Without LABELS the run has an hour; labels that are named have limits of their own, and show their progress.
.PHONY: test-e2e
test-e2e: setup-$(if $(findstring recovery,$(LABELS)),recovery,landscape) ## End-to-end specs on the landscape (needs root): LABELS='migration || bench', or abort, cli, conformance, drain, drawn, faults, mix (with SHOOT=workers), nodes (with NODES=3), planted, policies, recovery; FOCUS= chooses by name (MOMENTS=, FAULT=, STEP=, MOMENT=, MIGRATIONS=, FORCE_SHRINK=, LOAD=heavy: docs/development/testing.md)
	$(if $(findstring recovery,$(LABELS)),hack/build-tools.sh kubectl etcdctl)
	$(if $(findstring conformance,$(LABELS)),hack/build-tools.sh kubernetes-e2e kubectl)
	LIVECPM_LABELS='$(or $(LABELS),migration || bench)' MOMENTS='$(MOMENTS)' FAULT='$(FAULT)' STEP='$(STEP)' MOMENT='$(MOMENT)' MIGRATIONS='$(MIGRATIONS)' FORCE_SHRINK='$(FORCE_SHRINK)' SEED='$(SEED)' HOURS='$(HOURS)' CELLS='$(CELLS)' \
		KUBEBUILDER_ASSETS="$$($(if $(findstring bench,$(or $(LABELS),bench)),hack/envtest-assets.sh,true))" \
		$(GO) test -vet=off -count=1 -v -timeout $(if $(LABELS),0,65m) ./test/suites $(if $(LABELS)$(FOCUS),-ginkgo.v) $(if $(FOCUS),-ginkgo.focus '$(FOCUS)')

.PHONY: test-conformance
test-conformance: ## Kubernetes' own conformance specs run against the shoot, round after round, while its control plane moves (needs root; builds the specs once)
	$(MAKE) --no-print-directory test-e2e LABELS=conformance

.PHONY: test-robustness
test-robustness: ## Migrations with faults, and pairs of them, that are drawn by SEED=(a number) for HOURS=1; one that fails is repeated with fewer faults; CELLS= repeats one (needs root)
	$(MAKE) --no-print-directory test-e2e LABELS=drawn

.PHONY: fault-matrix
fault-matrix: ## Take the results of make test-e2e LABELS=faults over into docs/development/fault-matrix, and find out which results are stale
	$(GO) run ./test/robustness/cmd/matrix

##@ Landscape and demo (need root)

.PHONY: landscape-up
landscape-up: setup-landscape ## Bring up garden, two seeds and gardenlets; a second run is a no-op. GARDENLET=upstream|drop-in: whole gardenlets, with all components of a seed. TLS_TERMINATION=off: TLS ends at the kube-apiservers instead of the ingress gateways. POLICIES=packets|off: judge each packet by the NetworkPolicies, or enforce none. ETCD=graceful: etcd members stop as real ones do not. MEMBER_PREFIX=off: the shoot's Etcds are older than the prefix of members' names. NODES=3: three nodes in each seed, TOLERANCE=node for one zone
	$(GO) run ./test/landscape/cmd/landscape up

.PHONY: landscape-status
landscape-status: ## Show what runs and where its logs are
	$(GO) run ./test/landscape/cmd/landscape status

.PHONY: landscape-down
landscape-down: ## Remove every process, mount, network namespace and cgroup of the landscape
	$(GO) run ./test/landscape/cmd/landscape down

.PHONY: demo
demo: setup-landscape ## Migrate a shoot's control plane live from seed-a to seed-b under load and report. SHOOT=workers: a shoot with machines, there and back. SHOOT=single, SHOOT=single-workers: the same with one member in each etcd. LOAD=heavy: 100 writes per second
	@# The first program is small: it says what is going to happen, compiles the demo, and becomes it.
	@mkdir -p '$(LIVECPM_STATE)/bin'
	@$(GO) build -o '$(LIVECPM_STATE)/bin/livecpm-demo-start' ./test/demo/cmd/start
	@exec '$(LIVECPM_STATE)/bin/livecpm-demo-start' --out '$(ARTIFACTS)/demo'

.PHONY: test-fresh
test-fresh: ## Run make demo, make test and make demo again in a minimal Debian root with empty caches (needs root and 45 GB of disk)
	hack/fresh-machine.sh all

##@ Other

.PHONY: clean
clean: ## Remove built files (not the cache of real components)
	rm -rf bin $(ARTIFACTS)

.PHONY: help-all
help-all: ## Show all targets and their variables
	@awk 'BEGIN {FS = ":.*## "} /^[a-zA-Z0-9_-]+:.*## / {printf "  %-18s %s\n", $$1, $$2} /^##@ / {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)
