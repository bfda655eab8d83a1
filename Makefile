# SPDX-License-Identifier: Apache-2.0
GO       ?= go
BIN      := bin/gpufabric_exporter
SCENARIO ?= healthy
PORT     ?= 10791
FUZZTIME ?= 60s
VERSION  := $(shell cat VERSION)$(if $(SNAPSHOT),-snapshot)
REVISION := $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
# go-nvml's functions are looked up when they are called: the driver may lack some.
LDFLAGS  := -extldflags=-Wl,-z,lazy -X github.com/prometheus/common/version.Version=$(VERSION) -X github.com/prometheus/common/version.Revision=$(REVISION)

# The header of go-nvml marks half of itself deprecated.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations

.DEFAULT_GOAL := help
.PHONY: help build demo run test race loaded-test rules lint fmt docs generate contributing lab-test lab-full ping-lab hang-test nccl-test nccl-lab page-test safety-test load-test systemd-test corpus fuzz bench verify clean probes e2e scale pint prometheus dashboards pictures image-test kubernetes kubernetes-manifests

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{n = split($$2, word, " "); line = sprintf("%-20s", $$1); \
	  for (i = 1; i <= n; i++) {if (length(line " " word[i]) > 100) {print line; line = sprintf("%20s", "")} line = line " " word[i]} print line}' $(MAKEFILE_LIST)

build: ## build bin/gpufabric_exporter
	$(GO) build -trimpath -buildmode=pie -ldflags '$(LDFLAGS)' -o $(BIN) .

demo: build ## serve a simulated node on 127.0.0.1 (SCENARIO=healthy PORT=10791; all: gpufabric_exporter demo --list)
	./$(BIN) demo --scenario=$(SCENARIO) --web.listen-address=127.0.0.1:$(PORT)

run: build ## serve this host on port 10791
	./$(BIN)

# make test races the packages whose own goroutines share state; make race races all.
RACED := ./exporter ./probes/... ./internal/site ./internal/worker ./internal/observer ./internal/inventory ./internal/jobs/inquiry ./internal/logging \
	./internal/errand ./internal/jobs/owned ./internal/jobs/ras/... ./rdmaping/pinger ./rdmaping/verbs

# Packages whose tests make test runs whole. Of the others, -short leaves out what only takes long.
WHOLE := . ./internal/program ./internal/command/advise ./internal/command/check ./internal/command/lint ./internal/command/report ./internal/command/rules ./internal/command/topology \
	./internal/document ./internal/drawing ./internal/nccl/explain ./internal/jobs/job ./internal/report ./internal/status ./internal/nccl/settings ./internal/config ./internal/counters ./internal/fabric ./internal/verdict ./internal/diagnose/... ./internal/nccl/lint ./internal/simulator ./internal/capture ./internal/host/nvml ./internal/host/sysfs ./collector ./ncclprobe/... ./test/stability ./internal/demo ./internal/jobs/inspector ./test/corpus

# A command of make test: the next ones run also if it fails, and the packages that failed are listed at the end.
attempt = { $(1) || echo '$(2)' >>"$$log/failed"; } 2>&1 | tee -a "$$log/output"

# make lint runs go vet. Many packages wait for processes and timeouts: -p 4 lets others run meanwhile.
test: ## all tests that need no virtual machine, with the race detector where goroutines share state (make race: everywhere)
	@log=$$(mktemp -d) || exit 1; trap 'rm -rf "$$log"' EXIT; \
	raced=$$($(GO) list $(RACED)) && whole=$$($(GO) list $(WHOLE)) && all=$$($(GO) list ./...) || exit 1; \
	short=$$(echo "$$all" | grep -vxF "$$raced$$(printf '\n%s' "$$whole")"); \
	echo "with the race detector:" $$raced; \
	$(call attempt,$(GO) test -vet=off -p 4 -race -short -timeout 30m $$raced,packages with the race detector); \
	$(call attempt,$(GO) test -vet=off -p 4 -short -timeout 30m $$short,packages with -short); \
	$(call attempt,$(GO) test -vet=off -p 4 -timeout 30m $$whole,packages tested whole); \
	$(call attempt,$(GO) test -C tools/release .,tools/release); \
	test ! -e "$$log/failed" || { echo; echo 'failed:'; cat "$$log/failed"; \
	  awk -F '\t' '$$1 == "FAIL" && $$2 {split($$2, p, " "); print "  " p[1]}' "$$log/output" | sort -u; exit 1; }

race: ## all packages with the race detector; -short leaves out what it makes too slow
	$(GO) test -vet=off -race -short -timeout 120m ./...

loaded-test: ## make test three times beside 4 busy processes, nothing cached
	@busy=; trap 'kill $$busy' EXIT; for i in $$(seq 4); do sh -c 'while :; do :; done' & busy="$$busy $$!"; done; \
	for i in 1 2 3; do GOFLAGS=-count=1 $(MAKE) test || exit 1; done

# The tests in tools read files outside of that module, whose changes go test does not see: -count=1.
rules: ## alert rules and dashboards against the catalogue, docs/NEIGHBOURS.md beside node_exporter, make pictures over stand-ins, objects for Kubernetes, promtool's unit tests, where Alertmanager sends them (Debian's are fetched)
	cd tools && $(GO) test -count=1 -parallel 8 ./rules ./operator ./dashboards ./mixin ./pictures ./bench
	$(GO) test -v -run 'TestPromtool|TestAlertmanagerRoutes' ./alerts

pint: ## alert rules again, by Cloudflare's pint (built once: 4 min)
	$(GO) tool -modfile=tools/pint/go.mod pint -n -o -c tools/pint/pint.hcl lint --min-severity=info --fail-on=info alerts/*.rules.yml

lint: ## formatting, golangci-lint with vet and the import directions over all build tags, and actionlint over the workflows
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'not formatted: make fmt'; exit 1; }
	$(GO) tool -modfile=tools/actionlint/go.mod actionlint -shellcheck= -pyflakes=
	$(GO) tool -modfile=tools/go.mod golangci-lint run ./...

fmt: ## format the code
	gofmt -w $$(git ls-files '*.go')

docs: dashboards ## write docs/METRICS.md, COUNTERS.md, CHECKS.md, NCCL.md, SIGNATURES.md, ALERTS.md, PROFILES.md and CONFIGURATION.md from tables and rules, the default configuration, dashboards, and deploy/operator from both
	$(GO) test ./collector -run 'TestMetricsDocument|TestCountersDocument' -update
	$(GO) test ./alerts -run TestDocument -update
	$(GO) test ./test/stability -update
	$(GO) test ./internal/diagnose -run TestChecksDocument -update
	$(GO) test ./internal/nccl/settings -run 'TestDocument$$' -update
	$(GO) test ./internal/nccl/signature -run 'TestDocument$$' -update
	$(GO) test ./internal/jobs/job -run TestDeployments -update
	$(GO) test ./internal/profiles -run 'TestDocument$$' -update
	$(GO) test ./internal/config -run 'TestConfigurationDocument|TestChartSchema' -update
	cd tools && $(GO) test ./operator -run 'TestObjects$$' -update

generate: docs ## all that is generated: make docs, and the golden files of scenarios
	$(GO) test ./collector -run TestScenarios -update

dashboards: ## write dashboards/*.json from tools/dashboards
	cd tools && $(GO) run ./dashboards

lab-full: ## make lab-test with its long proofs: 1,000 scrapes of what hangs, cost against node_exporter, each system call judged, the guest suspended and resumed
	FULL=1 ./test/lab/test.sh -test.skip '^TestJudged$$'
	FULL=1 ./test/lab/test.sh -test.run '^TestJudged$$'
	SUSPEND=1 ./test/lab/test.sh

ping-lab: ## RDMA ping between eight nodes with two rails in a guest: faults are planted, and who names them after how long (90 min; FULL=1 also plants what is slow or loses little: 4 h)
	PING=1 ./test/lab/test.sh

lab-test: ## the real binary in a guest with a real RDMA stack (QEMU; no root, no /dev/kvm)
	./test/lab/test.sh

hang-test: ## the whole product over a file system that hangs, with the race detector (FUSE; needs root)
	$(GO) test -race -count=1 -v -tags hang ./test/hang

nccl-test: ## what is said of NCCL against NCCL itself, without a GPU (3 min, SHORT=-short 1 min; Debian's libnccl-dev of two releases is fetched; needs root)
	$(GO) test -count=1 -v $(SHORT) -timeout 20m -tags nccl ./test/nccl

nccl-lab: ## the same over RDMA, in the guest of make lab-test with Soft-RoCE: settings, GIDs, traffic class in packets, jobs, probes (25 min)
	./test/nccl/lab.sh

safety-test: build ## each system call of the exporter and of all commands: nothing is written, configured or signalled but its own (needs root)
	$(GO) test -count=1 -v -timeout 20m -tags safety ./test/safety

load-test: build ## 50 scrapers and 200 slow clients for a minute, clients that read no answer, and 20,000 scrapes: latency, memory, descriptors, reads of devices; what 2,000 requests of each path and changes of the node leave behind (loopback only; 15 min)
	$(GO) test -count=1 -v -timeout 60m -tags load ./test/safety
	FULL=1 $(GO) test -count=1 -v -timeout 60m -run 'TestNoEndpointGrows|TestNothingStaysOfWhatWent' ./exporter
	$(GO) test -count=1 -v -timeout 20m -run TestMemory ./internal/jobs/ras

systemd-test: build ## the units of packaging/systemd under the real systemd, in a container (8 min; systemd-nspawn, needs root)
	$(GO) test -count=1 -v -timeout 30m -tags systemd ./test/systemd

cluster-test: ## probe cluster under the real Slurm, with nodes that are network namespaces (8 min; needs root, Debian's slurmctld, slurmd, slurm-client, munge)
	$(GO) test -count=1 -v -timeout 30m -tags cluster ./test/cluster

cluster-search: ## precision and recall of the search between nodes, simulated with 2 to 4,096 nodes; 2,000 healthy runs
	FULL=1 $(GO) test -count=1 -v -timeout 60m ./probes/cluster/search

corpus: ## precision and recall of the checks over all scenarios and 500 compositions of mutations, and every scenario through the real pipeline
	FULL=1 $(GO) test -count=1 -v -timeout 20m -run 'TestCorpus|TestHiddenFactsNeverPass|TestSources' ./test/corpus
	FULL=1 $(GO) test -count=1 -timeout 20m -run 'TestDemo$$' ./internal/program

probes: ## probes with processes of this program over stand-ins for CUDA and NCCL: faults, 1,000 runs, the whole product (5 min)
	FULL=1 $(GO) test -count=1 -v -timeout 20m -run 'Probe' .
	$(GO) test -count=1 -v -timeout 20m -run 'Week' ./probes/prober
	FULL=1 $(GO) test -count=1 -v -timeout 30m -run 'TestFleets|TestSmallLoss' ./rdmaping/locate
	FULL=1 $(GO) test -count=1 -v -timeout 60m -run 'TestRules' ./rdmaping/pinger

e2e: ## the alerts on real Prometheus and Alertmanager, with faults at known times, and what dashboards show of them (30 min; Debian's packages are fetched)
	$(GO) test -count=1 -v -timeout 60m -tags e2e ./test/e2e

contributing: ## docs/CONTRIBUTING.md on copies of the tree: each page as printed, and without each of its steps (15 min)
	$(GO) test -count=1 -v -timeout 60m -tags contributing ./test/contributing

scale: ## what the rules cost Prometheus with 128, 256 and 512 nodes (25 min): bin/prometheus if it is there, else Debian's
	PROMETHEUS_PROGRAMS=$${PROMETHEUS_PROGRAMS:-$$(test ! -x bin/prometheus || echo "$$PWD/bin")} $(GO) test -count=1 -v -timeout 30m -tags scale ./test/scale

prometheus: ## bin/prometheus for make scale: Prometheus 3 (built once: 10 min), which needs a third less time for rules than Debian's 2.42
	cd tools/prometheus && $(GO) build -o ../../bin/prometheus \
	  -ldflags "-X github.com/prometheus/common/version.Version=$$($(GO) list -m -f '{{.Version}}' github.com/prometheus/prometheus)" \
	  github.com/prometheus/prometheus/cmd/prometheus

image-test: ## the image, built on bases that debootstrap makes, and run in containers (5 min; needs root, debootstrap, podman, buildah and crun)
	$(GO) test -count=1 -v -timeout 30m -tags image ./test/image

bin/helm: tools/helm/go.mod
	cd tools/helm && $(GO) build -o ../../$@ helm.sh/helm/v4/cmd/helm

# Helm 3 renders for Kubernetes 1.20 unless it is built with the version of its client library, as its releases are.
bin/helm3: tools/helm/go.mod
	cd tools/helm && minor=$$($(GO) list -m -f '{{.Version}}' k8s.io/client-go | cut -d. -f2) && $(GO) build -o ../../$@ \
	  -ldflags "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=$$minor" helm.sh/helm/v3/cmd/helm

bin/kubectl: tools/kubernetes/go.mod
	cd tools/kubernetes && $(GO) build -o ../../$@ k8s.io/kubernetes/cmd/kubectl

# A server that is built without a version reports 0.0.0, which charts and clients refuse.
bin/kube-apiserver: tools/kubernetes/go.mod
	cd tools/kubernetes && version=$$($(GO) list -m -f '{{.Version}}' k8s.io/kubernetes) && minor=$${version#v1.} && $(GO) build -o ../../$@ \
	  -ldflags "-X k8s.io/component-base/version.gitVersion=$$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$${minor%%.*}" \
	  k8s.io/kubernetes/cmd/kube-apiserver

kubernetes: bin/helm bin/helm3 bin/kubectl bin/kube-apiserver ## the chart by Helm 3 and 4, and all objects on a real API server (all built once: 10 min; needs Debian's etcd-server)
	$(GO) test -count=1 -v -timeout 10m -tags kubernetes ./test/kubernetes

kubernetes-manifests: bin/helm bin/helm3 bin/kube-apiserver ## write deploy/kubernetes from the chart, and the violations of pod security into docs/KUBERNETES.md
	$(GO) test -count=1 -tags kubernetes ./test/kubernetes -run 'TestManifests|TestCluster' -update

pictures: build ## docs/dashboards/*.png and docs/landing.png over simulated nodes, by the Grafana in folder GRAFANA (15 min; needs chromium, Debian's Prometheus is fetched)
	cd tools && $(GO) build -o ../bin/pictures ./pictures
	programs=$$(test/prometheus/fetch.sh) || { echo "$$programs"; exit 1; }; \
	bin/pictures -grafana "$(GRAFANA)" -exporter $(BIN) -programs "$$programs" -landing docs/landing.png

page-test: build ## status documents of all scenarios against their schema, and the page of a healthy node and twelve broken ones in Chromium: axe, widths, the first screen (5 min; needs Debian's chromium, nodejs and npm)
	$(GO) test -vet=off -timeout 30m -run TestStatusSchema ./internal/page
	@for p in chromium node npm; do command -v $$p >/dev/null || { echo "the page is not tested: no $$p in PATH (Debian: apt install chromium nodejs npm)"; exit 0; }; done; \
	cd test/page && npm ci --no-audit --no-fund && node page.js ../../$(BIN)

fuzz: ## each fuzz target for FUZZTIME (60s)
	@set -e; for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "== $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime=10x $$p; done; done

bench: build ## cost of a scrape against node_exporter in the same run, of GPUs, and Go benchmarks
	cd tools && $(GO) build -o ../bin/node_exporter github.com/prometheus/node_exporter
	cd tools && $(GO) run ./bench -exporter ../$(BIN) -peer ../bin/node_exporter
	$(GO) test -count=1 -v -run 'TestCostOfGPUs$$' .
	FULL=1 ./test/lab/test.sh -test.run 'TestLab/cost$$'
	$(GO) test -run '^$$' -bench . -benchmem ./...

verify: race loaded-test pint contributing cluster-search cluster-test corpus fuzz bench probes page-test hang-test nccl-test nccl-lab safety-test load-test systemd-test lab-full ping-lab e2e scale image-test kubernetes packages-test arm64-test ## the slow proofs

include packaging/packaging.mk

clean: ## remove what was built
	rm -rf bin
