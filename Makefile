# `make` prints the targets below with the line after their `##`.
#
# Every target builds with the flags exported here and no others, for all modules and all
# their tools: what they have in common is compiled once. Only the race detector needs it
# compiled a second time, and cgo. Releases are built with -trimpath, so all is.

# The linter has govet, so that no test needs to vet first: that would compile nothing, and read all
# dependencies once more.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO ?= go
# Tests make much garbage on small heaps. With less frequent collections they take a quarter less time, and up to 1 GiB.
GOTEST = GOGC=400 $(GO) test -vet=off
# What debuggers read is left out: it takes a sixth of the time to compile, and to link. Stacks and profiles do not need it.
COMPILED := -buildvcs=false -trimpath -gcflags=all=-dwarf=false -ldflags=-s
export GOFLAGS := $(COMPILED) $(filter-out -buildvcs=% $(COMPILED),$(GOFLAGS))
export CGO_ENABLED := 0
# By default, each program that was built with the race detector sleeps for a second when it exits.
export GORACE := atexit_sleep_ms=0

FUZZTIME ?= 30s
CASES ?= 20000
SEED ?= 1
UNPLACED := pretrain-0 --namespace training
FLEET := examples/fleet-200
SCHEDULER ?= dray
KILLS ?= 5
E2ETIMEOUT ?= 1h
export SCHEDULER KILLS
LINT := golangci-lint run --allow-serial-runners ./...

# Builds releases: its standard library has no vulnerability that the database knows. The go command gets it from the
# module proxy where another one is installed.
MENDEDGO ?= go1.26.10
# Karpenter needs a later Go than the other modules. The go command gets it, though the environment may say GOTOOLCHAIN=local.
NEWERGO := GOTOOLCHAIN=auto

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: build ## allocate on a fleet of 200 nodes, then explain the pod that does not fit
	@# Exit status 1 says that a pod stayed pending, which is what the demo is about.
	bin/dray allocate -f $(FLEET) || test $$? -eq 1
	bin/dray explain $(UNPLACED) -f $(FLEET) || test $$? -eq 1

.PHONY: build
build: ## build bin/dray
	$(GO) build -o bin/dray ./cmd/dray

VIEW := cmd/dray/internal/view/web
VIEWDIST := $(VIEW)/dist
ESBUILD := $(GO) tool -modfile=tools/go.mod esbuild --minify --charset=utf8 --target=es2022 --log-level=warning

.PHONY: view-page
view-page: ## bundle the page of dray view, from TypeScript to what the binary has in it
	$(ESBUILD) --bundle --format=esm --loader:.yaml=text $(VIEW)/src/main.ts --outfile=$(VIEWDIST)/app.js
	$(ESBUILD) $(VIEW)/src/app.css --outfile=$(VIEWDIST)/app.css

PACKAGE := $(VIEW)
NPM := bin/npm

.PHONY: npm
npm: ## install what checks the page, at the versions that its package-lock.json pins, into bin/npm; PACKAGE=, NPM= another one, elsewhere
	@command -v npm >/dev/null || { echo 'npm is missing: on Debian, apt-get install npm'; exit 1; }
	@mkdir -p $(NPM)
	cp $(PACKAGE)/package.json $(PACKAGE)/package-lock.json $(PACKAGE)/.npmrc $(NPM)/
	cd $(NPM) && npm ci --no-audit --no-fund --silent

.PHONY: test-view
test-view: build npm ## check the page's types and that its bundle is what the sources give, and test it in Chromium; DRAY_SCREENSHOTS=
	@command -v chromium >/dev/null || { echo 'chromium is missing: on Debian, apt-get install chromium'; exit 1; }
	bin/npm/node_modules/.bin/tsc -p $(VIEW)
	@$(MAKE) view-page VIEWDIST=bin/view
	diff -rq bin/view $(VIEW)/dist || { echo 'run make view-page, and commit what it gives'; exit 1; }
	@[[ -x bin/kube-apiserver && -x bin/dray-scheduler ]] || $(MAKE) controlplane
	cd internal/dev/view && $(GO) vet . && $(GOTEST) -count=1 -timeout 10m .

.PHONY: screenshots
screenshots: ## make the pictures of docs/pictures by the tests of the page
	@mkdir -p bin/screenshots
	DRAY_SCREENSHOTS=$(CURDIR)/bin/screenshots $(MAKE) test-view
	cp bin/screenshots/waiting.png docs/pictures/view.png
	cp bin/screenshots/whatif.png docs/pictures/whatif.png
	cp bin/screenshots/usage.png docs/pictures/usage.png

.PHONY: measure-view
measure-view: build ## judge how the page of 5,000 nodes is: there within two seconds, 30 frames a second, 500 MiB of memory at most
	cd internal/dev/view && DRAY_MEASURE=1 $(GO) test -vet=off -count=1 -run '^TestBig$$' -v .

.PHONY: lint-view
lint-view: ## the same as lint, for the module that tests the page
	cd internal/dev/view && $(GO) mod tidy -diff && $(GO) tool -modfile=../../../tools/go.mod $(LINT)

.PHONY: test
test: ## run every test that needs no control plane
	$(GOTEST) -timeout 30m $$($(GO) list ./... | grep -v /e2e$$)
	@# A module of its own, for what it draws with.
	cd benchmarks/report && $(GO) vet ./... && $(GOTEST) ./...

SCHEDGO := cd schedplugin && $(GO)
# What is linked in says nothing of what is compiled.
LINKED := -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=v1.37.2 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37'

.PHONY: etcd
etcd: ## build bin/etcd
	$(SCHEDGO) build $(LINKED) -o ../bin/etcd go.etcd.io/etcd/server/v3

.PHONY: controlplane
controlplane: etcd ## build bin/dray-scheduler, and etcd, kube-apiserver and kube-controller-manager
	$(SCHEDGO) build $(LINKED) -o ../bin/ k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager ./cmd/dray-scheduler ./internal/dev/cluster-demo
	cp schedplugin/deploy/chart/base/scheduler-config.yaml bin/

.PHONY: test-cli
test-cli: controlplane ## test the command line on a real control plane
	$(GOTEST) -count=1 -timeout 15m ./cmd/dray/e2e

.PHONY: cluster-demo
cluster-demo: controlplane ## schedule pods with claims on a real control plane; ARGS=--keep leaves it running
	bin/cluster-demo --scheduler=$(SCHEDULER) $(ARGS)

# A module of its own, for what it renders with.
RENDER := bin/render

.PHONY: install-manifests
install-manifests: ## write what installs dray-scheduler and dray-agent to bin/manifests, as Kustomize and as Helm render it
	cd schedplugin/deploy/render && $(GO) build -o ../../../$(RENDER) .
	@mkdir -p bin/manifests
	$(RENDER) kustomize schedplugin/deploy/second > bin/manifests/kustomize-second.yaml
	$(RENDER) kustomize schedplugin/deploy/default > bin/manifests/kustomize-default.yaml
	$(RENDER) helm schedplugin/deploy/chart > bin/manifests/helm-second.yaml
	$(RENDER) helm schedplugin/deploy/chart schedplugin/deploy/chart/values-default.yaml > bin/manifests/helm-default.yaml
	$(RENDER) kustomize agent/deploy/default > bin/manifests/kustomize-agent.yaml
	$(RENDER) helm agent/deploy/chart > bin/manifests/helm-agent.yaml

.PHONY: test-schedplugin
test-schedplugin: ## test the scheduler, on a real control plane too, and under the race detector; SCHEDULER=in-tree or dray, KILLS=
	@$(MAKE) units-schedplugin
	@$(MAKE) e2e-schedplugin

# Packages that promise concurrency are tested under the race detector, and not once more without it. Of two tests it has a
# smaller part.
RACED := . ./autoscaler ./config ./internal/model ./internal/refusal ./internal/wake ./internal/preempt ./internal/podgroup

.PHONY: units-schedplugin
units-schedplugin: controlplane install-manifests
	cd schedplugin/deploy/render && $(GO) vet . && $(GOTEST) .
	cd schedplugin && $(GOTEST) -timeout 30m $$($(GO) list ./... | grep -v /e2e$$ | grep -vxFf <($(GO) list $(RACED)))
	cd schedplugin && $(GOTEST) -timeout 30m -run '^Test(SameAnswers|EventsThatHelpRequeuePods)$$' . ./autoscaler
	cd schedplugin && CGO_ENABLED=1 $(GOTEST) -race -short -timeout 30m $(RACED)

.PHONY: e2e-schedplugin
e2e-schedplugin: controlplane
	cd schedplugin && $(GOTEST) -count=1 -timeout $(E2ETIMEOUT) ./e2e -ginkgo.timeout $(E2ETIMEOUT)

.PHONY: lint-schedplugin
lint-schedplugin: ## the same as lint, for the scheduler's module
	$(SCHEDGO) mod tidy -diff
	$(SCHEDGO) tool -modfile=../tools/go.mod $(LINT)

AGENTGO := cd agent && $(GO)

.PHONY: agent
agent: ## build bin/dray-agent
	$(AGENTGO) build -o ../bin/dray-agent ./cmd/dray-agent

.PHONY: agent-demo
agent-demo: build agent controlplane ## publish, allocate and prepare simulated devices on a real control plane; ARGS=--keep
	$(AGENTGO) build -o ../bin/agent-demo ./cmd/agent-demo
	bin/agent-demo $(ARGS)

.PHONY: loop-demo
loop-demo: build agent controlplane ## devices, claims, processes and a failing GPU, on a real control plane with 51 nodes; ARGS=--keep
	$(AGENTGO) build -o ../bin/loop-demo ./cmd/loop-demo
	bin/loop-demo $(ARGS)

# What runs on a real control plane, or programs of others: once is enough, and most of it is not ours to race.
ONPLANE := /cmd/(agent|loop)-demo$$|/e2e$$|/deploy$$

# Tests that the race detector does not run: those of a package as another user, and what counts memory and writes, which
# takes a minute longer with it.
UNRACED := WithoutRoot|MemoryIsFlat|WriteCounts

.PHONY: test-agent
test-agent: ## test drivers and virtual nodes, on a real control plane too, and under the race detector; ROUNDS=
	@$(MAKE) units-agent
	@$(MAKE) e2e-agent

.PHONY: units-agent
units-agent: build agent controlplane
	@# Random texts are compared in larger numbers without the race detector.
	cd agent && $(GOTEST) -timeout 30m -run '^Test($(UNRACED)|AnyTextIsValid)$$' ./deviceplugin ./inventory ./provider/process ./resourceslice
	@# What runs the containers of pods has no environment, so it sleeps when it exits: more packages at a time than cores. These
	@# tests take longest, and begin first.
	cd agent && CGO_ENABLED=1 $(GOTEST) -race -short -p 4 -timeout 30m -skip '^Test($(UNRACED))$$' ./provider/process $$($(GO) list ./... | grep -vE '$(ONPLANE)')

.PHONY: e2e-agent
e2e-agent: build agent controlplane install-manifests
	cd agent && $(GOTEST) -count=1 -timeout 30m $$($(GO) list ./... | grep -E '$(ONPLANE)')

.PHONY: kills-agent
kills-agent: agent controlplane ## kill dray-agent KILLS= times under a Job whose pods have a device each, and look for what is left
	cd agent && ROUNDS=$(KILLS) $(GO) test ./e2e -count=1 -timeout 2h -v -ginkgo.v -ginkgo.no-color -ginkgo.fail-on-empty -ginkgo.focus 'A Job of pods'

.PHONY: lint-agent
lint-agent: ## the same as lint, for the driver side's module
	$(AGENTGO) mod tidy -diff
	$(AGENTGO) tool -modfile=../tools/go.mod $(LINT)

.PHONY: bench-agent
bench-agent: ## measure what publishing one change costs, beside upstream's controller
	$(AGENTGO) test ./resourceslice -run '^$$' -bench . -benchtime 20x

KWOK := sigs.k8s.io/kwok@v0.8.0
KWOKSTAGES = $(addprefix $(shell $(GO) mod download -json $(KWOK) | sed -n 's/.*"Dir": "\(.*\)",/\1/p')/kustomize/stage/, \
	node/fast/node-initialize.yaml node/heartbeat-with-lease/node-heartbeat-with-lease.yaml pod/fast/pod-ready.yaml pod/fast/pod-delete.yaml)

.PHONY: kwok
kwok: ## build bin/kwok, and write bin/kwok.yaml, the stages of its nodes and pods
	GOBIN=$(CURDIR)/bin $(GO) install $(subst @,/cmd/kwok@,$(KWOK))
	@for stage in $(KWOKSTAGES); do echo ---; cat $$stage || exit 1; done >bin/kwok.yaml

.PHONY: bench-nodes
bench-nodes: agent controlplane kwok ## measure what 1,000 virtual nodes cost, beside kwok's; ARGS="--nodes=100 --pods=200"
	$(AGENTGO) build -o ../bin/node-scale ./cmd/node-scale
	bin/node-scale --kwok=bin/kwok --kwok-config=bin/kwok.yaml $(ARGS)

.PHONY: soak-fields
soak-fields: ## change each field of slices, nodes, classes and claims, one at a time, and compare answers with those of who was asked nothing before
	DRAY_FIELDS=all $(GOTEST) -count=1 -timeout 2h -run '^TestEachField' -v ./allocator ./simulate ./simulate/internal/onenode

.PHONY: soak-cases
soak-cases: ## the random cases of the allocator, all of them, and CASES= of each kind from SEED= for its solver
	DRAY_CASES=all $(GOTEST) -count=1 -timeout 2h ./allocator
	$(GOTEST) -count=1 -timeout 5h ./allocator/internal/solver -cases $(CASES) -seed $(SEED) -steps 300000

.PHONY: soak-validation
soak-validation: controlplane ## change CASES= valid objects, and compare what the command line and an API server take
	DRAY_VALIDATION=$(CASES) $(GOTEST) -count=1 -timeout 2h -run '^TestValidation$$' ./cmd/dray/e2e

.PHONY: soak-memory
soak-memory: ## the tests of simulate where nothing is remembered, and where all is forgotten at once
	DRAY_MEMORY=off $(GOTEST) -count=1 -timeout 1h ./simulate
	DRAY_MEMORY=small $(GOTEST) -count=1 -timeout 1h ./simulate

.PHONY: soak-agent
soak-agent: ## publish 100,000 updates, and print what memory that takes
	cd agent && SOAK_UPDATES=100000 $(GO) test ./resourceslice -run '^TestMemoryIsFlat$$' -count=1 -timeout 1h -v

STEPS ?= 1000000
.PHONY: soak-ledger
soak-ledger: ## take STEPS= random steps of kubelet, driver and API server from SEED=, with a driver that dies at any write of its ledger
	cd agent && MODEL_STEPS=$(STEPS) MODEL_SEED=$(SEED) $(GO) test ./nodedriver -run '^TestModel$$' -count=1 -timeout 2h -v

FAULTSTEPS ?= 400000
.PHONY: faults-ledger
faults-ledger: ## plant each known fault of the ledger, and have the model of soak-ledger find it within FAULTSTEPS= steps
	cd agent && LEDGER_FAULTS=$(FAULTSTEPS) $(GO) test ./nodedriver -run '^TestFaults$$' -count=1 -timeout 5h -v

SIZE ?= small
ROUNDS ?= 1
WORKLOADS ?= .
SCHEDRESULTS := schedplugin/internal/dev/perf/results$(if $(filter full,$(SIZE)),/full)
# What a disk takes to keep etcd's data is not what is measured.
SCHEDTMP := $(firstword $(wildcard /dev/shm) /tmp)
MEASURED := $(CURDIR)/bin/bench-scheduler

.PHONY: bench-scheduler
bench-scheduler: ## measure the scheduler with three plugins; SIZE=small or full, ROUNDS=, WORKLOADS=regexp
	@rm -rf $(MEASURED) && mkdir -p $(MEASURED)
	$(SCHEDGO) build $(LINKED) -o ../bin/etcd go.etcd.io/etcd/server/v3
	$(SCHEDGO) test -c -o ../bin/scheduler-perf.test ./internal/dev/perf
	@# The log has all that four components say. It is of interest if something fails.
	cd schedplugin/internal/dev/perf && TMPDIR=$(SCHEDTMP) PATH=$(CURDIR)/bin:$$PATH ../../../../bin/scheduler-perf.test -test.run '^$$' \
		-test.bench '^BenchmarkPerfScheduling$$' -test.benchtime 1x -test.timeout 6h -size $(SIZE) -rounds $(ROUNDS) -workloads '$(WORKLOADS)' \
		-data-items-dir $(MEASURED) -with-data-items-unique-id=false -perf-cpuprofile >$(MEASURED)/log 2>&1 || { tail -50 $(MEASURED)/log; exit 1; }
	cd schedplugin/internal/dev/perf && ../../../../bin/scheduler-perf.test -test.run '^$$' -test.bench '^BenchmarkFilterPhase$$' -test.benchtime 20x \
		-test.count $(ROUNDS) >$(MEASURED)/filter.txt 2>$(MEASURED)/filter.log
	@$(MAKE) report-scheduler

.PHONY: bench-autoscaler
bench-autoscaler: ## run what cluster-autoscaler asks of the scheduler framework, with Dray and with the in-tree plugin
	$(SCHEDGO) test ./autoscaler -run '^$$' -bench . -benchtime 50x

.PHONY: report-scheduler
report-scheduler: ## write the page of schedplugin/internal/dev/perf/results from the last bench-scheduler
	$(SCHEDGO) run ./internal/dev/perf/report $(MEASURED) ../$(SCHEDRESULTS)

.PHONY: linters
linters: ## lint for the modules other than the root's
	@for module in view agent kubelet schedplugin; do $(MAKE) lint-$$module; done

# Targets with a + between them run at the same time: what compiles other things, or waits most of its time.
STAGES := test race+lint+lint-prose readme+consumer+test-docs test-release test-conformance+test-karpenter+test-kueue+differential \
	controlplane test-cli+test-view units-agent+units-schedplugin e2e-agent+e2e-schedplugin+conformance-kubelet+linters

.PHONY: modules
modules: ## download all that the modules of the repository require
	@for module in $$(git ls-files go.mod '*/go.mod'); do $(GO) -C $$(dirname $$module) mod download; done

# All is built with the Go that releases are built with. Karpenter needs it anyway, and has what others have compiled.
.PHONY: ci
ci: export GOTOOLCHAIN := $(MENDEDGO)
ci: export GOGC := 400
# Compilers and linkers collect no garbage below 2 GiB, which saves an eighth of their time.
ci: export GOFLAGS := $(GOFLAGS) '-toolexec=env GOGC=off GOMEMLIMIT=2GiB'
ci: ## what a change must pass, stage by stage
	@$(MAKE) modules >/dev/null 2>&1 & # later stages do not wait for the network
	@for stage in $(STAGES); do \
		echo "==> make $${stage//+/ }"; \
		together=; [[ $$stage != *+* ]] || together='-j4 --output-sync=line'; \
		TIMEFORMAT="==> make $${stage//+/ }: %0R s, with %0U s of CPU time and %0S s in the kernel"; \
		time $(MAKE) $$together $${stage//+/ }; \
	done

# Each with a seed that is the same every night, and printed.
NIGHTLY := conformance 'differential CASES=200000' 'fuzz FUZZTIME=5m' soak soak-cases 'soak-simulate CASES=10000' 'soak-moves CASES=20000' soak-commands soak-fields 'soak-validation CASES=100000' soak-memory race-simulate test-site soak-agent 'soak-ledger STEPS=1500000' test-kubelet \
	'test-agent ROUNDS=200' 'test-schedplugin KILLS=200' 'vuln GOTOOLCHAIN=$(MENDEDGO)'

.PHONY: nightly
nightly: ## what takes too long for each change, from SEED=; goes on after a failure, and says at the end what failed
	@failed=; for stage in $(NIGHTLY); do \
		echo "==> make $$stage SEED=$(SEED)"; \
		start=$$SECONDS; \
		$(MAKE) $$stage SEED=$(SEED) || failed="$$failed; $$stage SEED=$(SEED)"; \
		echo "==> make $$stage SEED=$(SEED): $$((SECONDS - start))s"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed$$failed"; exit 1; fi

.PHONY: outdated
outdated: ## list required modules and pinned versions that are behind the latest release
	$(GO) run ./internal/dev/outdated

GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
# The Go vulnerability database has its reports in a module, which can be had where modules can. It may be some days old.
VULNDB := golang.org/x/vulndb@latest
GOVULNDB ?= file://$(shell $(GO) mod download -json $(VULNDB) | sed -n 's/.*"Dir": "\(.*\)",/\1/p')/data/osv

# No version mends these. SECURITY.md says who calls them.
UNMENDED := GO-2025-3521 GO-2025-3547 GO-2026-4768 GO-2026-5491 GO-2026-5493 GO-2026-6548 GO-2026-6549

# What a module has for tools only, no package of its own imports. The linter of prose has parsers in C.
.PHONY: vuln
vuln: ## look for known vulnerabilities in what each module calls, and its tools; fails at those that a version mends; GOTOOLCHAIN= another Go, GOVULNDB= another Go vulnerability database than that of the module proxy
	GOBIN=$(CURDIR)/bin $(GO) install $(GOVULNCHECK)
	@toolchain=$$($(GO) env GOTOOLCHAIN); [ "$$toolchain" != local ] || toolchain=auto; \
	found=; for module in $$(git ls-files go.mod '*/go.mod'); do \
		echo "==> $$module"; \
		packages=./...; ! grep -q '^tool' $$module || packages="$$packages tool"; \
		cgo=0; [ $$module != tools/prose/go.mod ] || cgo=1; \
		rc=0; GOTOOLCHAIN=$$toolchain CGO_ENABLED=$$cgo bin/govulncheck -C $$(dirname $$module) -db '$(GOVULNDB)' $$packages | tee bin/vuln.txt || rc=$$?; \
		case $$rc in 0) ;; \
		3) mended=$$(sed -n 's/^Vulnerability #[0-9]*: //p' bin/vuln.txt | grep -vwF $(UNMENDED:%=-e %) || true); \
			[ -z "$$mended" ] || found="$$found $$module ($$(echo $$mended))" ;; \
		*) echo "make vuln: $$module was not checked" >&2; exit 1 ;; \
		esac; \
	done; \
	if [ -n "$$found" ]; then echo "vulnerabilities in:$$found"; exit 1; fi

.PHONY: lint
lint: ## check go.mod, vet, and run the linter that tools/go.mod pins
	$(GO) mod tidy -diff
	$(GO) tool -modfile=tools/go.mod $(LINT)

# The linter's parsers of source code, which is not what it reads here, are in C.
.PHONY: lint-prose
lint-prose: ## check the prose of README, docs, the help of commands and messages: length of sentences, words, spelling
	cd tools/prose && CGO_ENABLED=1 $(GO) build -o ../../bin/vale github.com/vale-cli/vale/v3/cmd/vale
	bin/vale --config tools/prose/vale.ini --output line $$(git ls-files '*.md' | grep -v -e /testdata/)
	@# What help says before usage and flags.
	awk -f tools/prose/help.awk docs/commands.md docs/agent-commands.md | bin/vale --config tools/prose/vale.ini --output line --ext .md
	@# What programs say to people.
	git ls-files '*.go' | grep -v -e _test.go -e /testdata/ -e ^internal/dev/ -e ^benchmarks/ -e ^tools/ -e /perf/ -e ^examples/ -e zz_generated | \
		$(GO) run ./internal/dev/messages tools/prose/others.txt bin/vale --config tools/prose/vale.ini

.PHONY: house
house: ## print the packages with their files, lines and imports of each other
	$(GO) run ./internal/dev/houserules/house

.PHONY: race
race: ## run what promises concurrency under the race detector
	@# Changing each field of objects takes half of the allocator's time, and uses one goroutine.
	CGO_ENABLED=1 $(GOTEST) -race -short -skip '^TestEachField' -timeout 30m ./pools/... ./internal/index/... ./allocator ./allocator/structured/... ./allocator/internal/alike ./allocator/internal/eligibility ./internal/memo
	CGO_ENABLED=1 $(GOTEST) -race -run 'AtOnce|Goroutines|Forks' ./simulate ./simulate/moves ./simulate/when ./simulate/mix ./allocator/charge
	@# Comparing thousands of expressions with upstream is slow enough without.
	CGO_ENABLED=1 $(GOTEST) -race -run Concurrent ./cel
	CGO_ENABLED=1 $(GOTEST) -race -short ./cmd/dray/internal/view

.PHONY: race-simulate
race-simulate: ## run all of simulate under the race detector, which takes 12 minutes on two cores
	CGO_ENABLED=1 $(GOTEST) -race -short -timeout 1h ./simulate/...

.PHONY: readme
readme: ## run the console sessions of the READMEs and compare what they print
	$(GOTEST) -count=1 -run '^TestReadmeCommands$$' ./internal/dev/houserules

.PHONY: consumer
consumer: ## build a module that imports the library, and look at what it inherits
	$(GOTEST) -count=1 -run '^TestConsumer$$' ./internal/dev/houserules

# Where checkouts are of what the module proxy does not have: a folder of all, or one of them.
DRIVERS ?=
VIRTUAL_KUBELET ?=
INTEL_PLUGINS ?=
CLUSTER_AUTOSCALER ?=
CHECKOUTS := -programs '$(DRIVERS)' -programs 'virtual-kubelet=$(VIRTUAL_KUBELET)' -programs 'intel-device-plugins-for-kubernetes=$(INTEL_PLUGINS)' \
	-programs 'cluster-autoscaler=$(CLUSTER_AUTOSCALER)'
CONFORMANCE := PATH=$(CURDIR)/bin:$$PATH $(GO) run ./internal/dev/conformance/cmd
# Parts that are not run keep their rows.
RECORDED := $(CONFORMANCE) $(CHECKOUTS) -page docs/conformance.md

PARTS ?=

.PHONY: conformance
conformance: agent controlplane kubelet-parts kwok ## run all tests of others with Dray in the place of what they test, and write docs/conformance.md; DRIVERS=, VIRTUAL_KUBELET=, INTEL_PLUGINS=, CLUSTER_AUTOSCALER= checkouts, PARTS= some
	$(RECORDED) $(or $(PARTS),-all)

.PHONY: conformance-allocator
conformance-allocator: ## run the cases of upstream's allocators on allocator/structured
	$(CONFORMANCE) allocator

.PHONY: conformance-cel
conformance-cel: ## run the tests of upstream's expressions on cel
	$(CONFORMANCE) cel

.PHONY: conformance-slices
conformance-slices: ## run the tests of upstream's ResourceSlice controller on agent/resourceslice
	$(CONFORMANCE) slices

.PHONY: conformance-names
conformance-names: ## compare the names that packages of drivers, nodes and allocators export, with their types, for programs that change an import
	$(CONFORMANCE) names

CONFIG ?=

.PHONY: conformance-scheduler
conformance-scheduler: etcd ## run the tests of the in-tree plugin, and of Kubernetes with it, on that of schedplugin, about 40 minutes; CONFIG=api, default, ga or all runs one configuration
	$(RECORDED) scheduler$(if $(CONFIG),/integration/$(CONFIG))

.PHONY: conformance-drivers
conformance-drivers: ## build and test DRA drivers of others with agent/kubeletplugin; DRIVERS= folder with their checkouts
	$(RECORDED) drivers

.PHONY: agent-older
agent-older: ## lay out bin/agent-1.36: agent/kubeletplugin and agent/resourceslice as a module for drivers with the libraries of Kubernetes 1.36
	rm -rf bin/agent-1.36
	$(CONFORMANCE) -older bin/agent-1.36
	cd bin/agent-1.36 && $(GO) build ./...

.PHONY: conformance-node
conformance-node: controlplane ## build and test virtual-kubelet with agent/node, and run its program on an API server; VIRTUAL_KUBELET= a checkout of its main branch
	$(RECORDED) node/virtual-kubelet $(if $(VIRTUAL_KUBELET),node/main)

.PHONY: conformance-deviceplugin
conformance-deviceplugin: ## build and test Intel's device plugins with agent/deviceplugin; INTEL_PLUGINS= their checkout
	$(RECORDED) deviceplugin

.PHONY: conformance-autoscaler
conformance-autoscaler: controlplane kwok ## build, test and run cluster-autoscaler with the plugin of schedplugin and the snapshot of schedplugin/autoscaler; CLUSTER_AUTOSCALER= its checkout, PARTS=cluster-autoscaler/loop to run it only
	$(RECORDED) $(or $(PARTS),cluster-autoscaler)

.PHONY: kubelet-parts
kubelet-parts: ## build bin/kubelet-parts: what drivers meet of kubelet 1.37
	cd internal/dev/kubelet && $(GO) build -o ../../../bin/kubelet-parts ./cmd/kubelet-parts

.PHONY: conformance-kubelet
conformance-kubelet: agent controlplane kubelet-parts ## run dray-agent with kubelet's own device manager, DRA manager, plugin manager and pod-resources server
	$(RECORDED) kubelet

CONTAINERD := github.com/containerd/containerd/v2@v2.4.2
# What Debian has of a node: its packages, by a program or file of each.
NODEPACKAGES := runc:/usr/sbin/runc busybox-static:/bin/busybox containernetworking-plugins:/usr/lib/cni/ptp

.PHONY: kubelet-programs
kubelet-programs: ## build bin/kubelet, and containerd with its shim and its client
	cd internal/dev/kubelet && $(GO) build $(LINKED) -o ../../../bin/kubelet k8s.io/kubernetes/cmd/kubelet
	GOBIN=$(CURDIR)/bin $(GO) install -tags no_aufs,no_btrfs,no_devmapper,no_zfs -ldflags '-s -w -X github.com/containerd/containerd/v2/version.Version=$(lastword $(subst @, ,$(CONTAINERD)))' \
		$(foreach name,containerd containerd-shim-runc-v2 ctr,$(subst @,/cmd/$(name)@,$(CONTAINERD)))

.PHONY: test-kubelet
test-kubelet: agent controlplane install-manifests kubelet-programs ## run dray-agent and pods on a node with kubelet and containerd themselves, as root; RUN=regexp
	@for package in $(NODEPACKAGES); do [ -e "$${package#*:}" ] || lacking="$${lacking:-} $${package%%:*}"; done; \
	[ -z "$${lacking:-}" ] || { apt-get update -q && apt-get install -qy --no-install-recommends $$lacking; } || { echo "on Debian, apt-get install$$lacking"; exit 1; }
	cd internal/dev/kubelet && $(GOTEST) -count=1 -timeout 1h -run '$(or $(RUN),.)' ./realnode

.PHONY: lint-kubelet
lint-kubelet: ## the same as lint, for the module of kubelet-parts
	cd internal/dev/kubelet && $(GO) mod tidy -diff && $(GO) tool -modfile=../../../tools/go.mod $(LINT)

.PHONY: test-conformance
test-conformance: ## run the parts of conformance that take less than three minutes, and compare with docs/conformance.md
	$(CONFORMANCE) -page docs/conformance.md -check

.PHONY: test-karpenter
test-karpenter: ## compare Karpenter's answers with Dray's, and with the table of benchmarks/karpenter/README.md; the go command gets the Go that it needs
	$(CONFORMANCE) -page docs/conformance.md -check karpenter

.PHONY: test-kueue
test-kueue: ## compare kueue's places of gangs, and what it counts of claims, with Dray's
	cd benchmarks/kueue && $(GO) vet . && $(GOTEST) .

.PHONY: conformance-karpenter
conformance-karpenter: ## compare Karpenter's answers with Dray's, and record them
	cd benchmarks/karpenter && $(NEWERGO) $(GOTEST) -count=1 -run '^TestSuite$$' . -rewrite
	$(RECORDED) karpenter

MUTANTS ?= ./simulate
MUTATED ?= .

.PHONY: mutants
mutants: ## change packages MUTANTS= of the module in folder MUTATED= in COUNT= random small ways from SEED=, and list what their tests do not see; ARGS="-tests ./..."
	$(GO) run ./internal/dev/mutate -C $(MUTATED) -n $(or $(COUNT),50) -seed $(SEED) $(ARGS) $(MUTANTS)

.PHONY: differential
differential: ## compare CASES= generated clusters from SEED= with upstream
	$(GO) run ./internal/dev/differential/cmd -cases $(CASES) -seed $(SEED)
	$(GO) run ./internal/dev/differential/cmd -profile hard -cases $$(($(CASES) / 5)) -seed $(SEED)
	$(GO) run ./internal/dev/differential/cmd -profile shares -cases $$(($(CASES) / 5)) -seed $(SEED)
	$(GO) run ./internal/dev/differential/cmd -profile pairs -cases $$(($(CASES) / 5)) -seed $(SEED)
	$(GO) run ./internal/dev/differential/cmd -profile gates -picked -cases $$(($(CASES) / 5)) -seed $(SEED)
	$(GO) run ./internal/dev/differential/cmd -profile pairs -sequence 12 -cases $$(($(CASES) / 5)) -seed $(SEED)

# A module of its own, for what it draws and renders with.
DOCSGO := cd tools/docs && $(GO)
DRAWINGS := $(wildcard docs/drawings/*.d2)

.PHONY: docs-tools
docs-tools:
	$(DOCSGO) build -o ../../bin/ github.com/gohugoio/hugo oss.terrastruct.com/d2

.PHONY: docs
docs: docs-tools ## render docs as a site, into bin/docs
	cd tools/docs/site && ../../../bin/hugo --destination ../../../bin/docs --cleanDestinationDir --noBuildLock
	@echo "bin/docs/index.html"

.PHONY: drawings
drawings: docs-tools ## draw docs/drawings/*.svg from the texts beside them; OUT=folder
	@for drawing in $(DRAWINGS); do bin/d2 --omit-version --pad 20 --no-xml-tag $$drawing $(or $(OUT),docs/drawings)/$$(basename $$drawing .d2).svg 2>&1 | grep -v '^success' || true; done

.PHONY: test-site
test-site: docs ## check that docs are rendered as a site, and that its drawings are what their texts give
	@rm -rf bin/drawings && mkdir -p bin/drawings
	$(MAKE) drawings OUT=bin/drawings
	@for drawing in $(DRAWINGS:.d2=.svg); do cmp $$drawing bin/drawings/$$(basename $$drawing) || { echo "$$drawing: make drawings writes it anew"; exit 1; }; done

.PHONY: test-docs
test-docs: ## check the links of README and docs, with their headings, and the programs on these pages
	@$(MAKE) npm PACKAGE=tools/docs/links NPM=bin/links
	bin/links/node_modules/.bin/remark --quiet --frail --no-stdout --use $(CURDIR)/bin/links/node_modules/remark-validate-links/index.js=repository:false $$(git ls-files '*.md' | grep -v /testdata/)
	$(GOTEST) -count=1 -run '^TestPrograms$$' ./internal/dev/houserules

VERSION ?=
RELEASE := bin/release

.PHONY: release
release: ## prepare the release VERSION= in bin/release: modules, archives, images, charts, licenses, SBOMs, krew manifest, checksums, provenance; KEY= signs
	cd tools/release && $(GO) build -o ../../bin/prepare-release .
	GOTOOLCHAIN=$(MENDEDGO) bin/prepare-release -version '$(VERSION)' -out $(RELEASE) $(if $(KEY),-key $(KEY))

.PHONY: test-release
test-release: ## build consumers of every published module from a file-system module proxy, and check archives, images and charts
	cd tools/release && $(GO) vet . && $(GOTEST) -count=1 -timeout 30m .
	cd tools/images && $(GO) vet ./... && $(GOTEST) -count=1 -timeout 30m ./...

BUILDIMAGES = cd tools/images && $(GO) build -o ../../bin/build-images ./build && cd ../.. && bin/build-images -out '$(or $(OUT),bin/images)' -version '$(or $(VERSION),v0.0.0-dev)'

.PHONY: images
images: ## build the images of dray, dray-agent and dray-scheduler without a daemon, as OCI layouts in OUT=dir; VERSION= is their tag
	$(BUILDIMAGES)

.PHONY: image-agent
image-agent: ## the same for dray-agent only
	$(BUILDIMAGES) dray-agent

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME=
	@grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file func; do \
		echo "==> $${func#func } in $${file%/*}"; \
		$(GO) test -run '^$$' -fuzz "^$${func#func }$$" -fuzztime $(FUZZTIME) "$${file%/*}" </dev/null; \
	done

# benchstat needs six runs for an interval of confidence.
BENCH := $(GO) test -run '^$$' -count 6 -timeout 2h
RESULTS := benchmarks/results

.PHONY: bench
bench: ## run Dray and its peers on the same clusters, and write benchmarks/results
	@mkdir -p $(RESULTS)
	@printf 'date: %s\ngo: %s\ncores: %s\n' "$$(date -u +%F)" "$$($(GO) env GOVERSION)" "$$(nproc)" > $(RESULTS)/raw.txt
	$(BENCH) -bench '^Benchmark(Workload|Cliff|Family|Index|Fork|Floor)$$' -benchtime 20ms ./benchmarks | tee -a $(RESULTS)/raw.txt
	$(BENCH) -bench '^Benchmark(Fixed|Change|Parallel)$$' -benchtime 48x ./benchmarks | tee -a $(RESULTS)/raw.txt
	@# Steps are the same in each run.
	$(BENCH) -count 1 -bench '^BenchmarkRule$$' ./allocator | tee -a $(RESULTS)/raw.txt
	@# Karpenter takes long, and remembers nothing from one pod to the next.
	cd benchmarks/karpenter && $(NEWERGO) $(BENCH) -count 1 -bench '^BenchmarkWorkload$$' -benchtime 10ms . | tee -a ../results/raw.txt
	@$(MAKE) report

.PHONY: soak-gang
soak-gang: ## compare CASES= small gangs of each of 20 kinds with an enumeration, and print which share is placed
	GANG_CASES=$(or $(CASES),10000) $(GO) test ./gang -run TestLikeEnumeration -count=1 -v -timeout 0
	GANG_CASES=$(or $(CASES),10000) $(GO) test ./simulate -run TestGangLevelsByEnumeration -count=1 -v -timeout 0

# From SEED= on, CASES= of them.
SEEDS = $(or $(SEED),0)-$$(( $(or $(SEED),0) + $(or $(CASES),2000) ))

.PHONY: soak-moves
soak-moves: ## compare plans of moves for CASES= questions from number SEED= with an enumeration
	DRAY_MOVES=$(SEEDS) $(GO) test ./simulate/moves -run '^TestMixedLikeEnumeration$$' -count=1 -v -timeout 0

.PHONY: soak-commands
soak-commands: ## compare what the commands of dray say of CASES= clusters from number SEED= with each other
	DRAY_WORLDS=$(SEEDS) $(GO) test ./cmd/dray/internal/cli -run '^TestCommandsAgree$$' -count=1 -v -timeout 0

# One process for a thousand sequences, so that a long run can be ended and begun again where it was.
.PHONY: soak-simulate
soak-simulate: ## compare CASES= sequences of what-ifs from number SEED= with upstream's allocator asked step by step, and with ours for each policy
	@first=$(or $(SEED),0); last=$$((first + $(or $(CASES),100000))); while [ $$first -lt $$last ]; do \
		next=$$((first + 1000)); [ $$next -lt $$last ] || next=$$last; \
		DRAY_SEQUENCES=$$first-$$next $(GO) test ./simulate -run '^(TestLikeUpstream|TestLikeStepByStepWithPolicies)$$' -count=1 -v -timeout 0 | grep -v '^=== \|^PASS' || exit 1; \
		first=$$next; \
	done

.PHONY: soak
soak: ## allocate and release, and simulate, a million times while slices change, and print what memory that takes
	$(GO) test ./benchmarks -run '^$$' -bench '^BenchmarkSoak' -benchtime 1000000x -timeout 30m -v

.PHONY: bench-simulate
bench-simulate: ## ask what autoscalers ask of a cluster of 1,000 nodes, beside upstream's allocator
	$(GO) run ./benchmarks/simulate

.PHONY: report
report: ## write the table and the plots of benchmarks/results from its raw.txt
	cd benchmarks/report && $(GO) run . ../results/raw.txt ../results
