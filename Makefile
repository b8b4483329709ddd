# Seedbed. The two commands: `make run` and `make test`; both install what they need.
# `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
empty :=
space := $(empty) $(empty)
comma := ,
export PATH := $(PATH):/usr/local/go/bin:$(subst $(space),:,$(wildcard /usr/lib/go-1.2?/bin))
export GOTOOLCHAIN := auto

VERSION := $(shell awk -F '[()]' 'NR == 1 { print $$2 }' debian/changelog)
LDFLAGS := -s -w -bindnow -X seedbed/internal/build.version=$(VERSION)
# Position-independent, so that an attacker cannot know where code and data are.
GOBUILD := go build -trimpath -buildmode=pie
IMAGE   := .cache/debian.qcow2
PURE    := seedbedd seedbed-metadata seedbed
# Only the worker links C: libvirt, librados, librbd. Debian 12 has Ceph Pacific.
TAGS    := libvirt,ceph$(shell . /etc/os-release; [ "$$VERSION_CODENAME" != bookworm ] || echo ,pacific)

.PHONY: help run test test-long soak vet lint check race build image packages deb lab-up lab-down labctl bench-metadata bench-webhook bench-api bench-scripts bench-provision bench-lifecycle bench-network profile-metadata bench-programs fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## a signed webhook boots a real guest; ONCE=1 ends once it has reported in; STORAGE=ceph, STORE=postgres, COORDINATION=zookeeper
	@internal/lab/run.sh --check
	@internal/lab/packages.sh run $(STORAGE) $(STORE) $(COORDINATION)
	@$(MAKE) --no-print-directory build labctl image
	@internal/lab/run.sh $(if $(ONCE),--once)

# Packages that share the host's one libvirtd, its block devices or its control groups run one after
# another. Beside them run those that mostly wait, one at a time, because guests that boot need the processors. The others run
# side by side after them, those that take longest first: beside a guest that boots they made it fail.
WAITS  := provision/ceph provision/backup netcfg
ALONE  := internal/e2e internal/soak internal/lab provision/libvirt provision/dir provision/image provision/mapper provision/script provision/script/sandbox provision/script/python
LONG   := store provision cmd/seedbed
# A test that fails runs once more, alone, if there are few. One that passes only then is named at the end:
# it is a fault too, but it does not hide what else the run shows.
GOTEST  = env CGO_ENABLED=1 $(GOTESTSUM) --format pkgname-and-test-fails --format-icons text --format-hide-empty-pkg --hide-summary skipped --rerun-fails=1 --rerun-fails-max-failures=6 \
	--rerun-fails-run-root-test --rerun-fails-report $(TIMES)/again-$(1) --packages "$(2)" -- -count=1 -vet=off -timeout $(LIMIT) -tags integration,$(TAGS)$(LONG_TAG)
LIMIT  := 40m
LONG_TAG := $(if $(filter 1,$(SEEDBED_LONG)),$(comma)long)
TIMES  := .cache/times
# A test takes a few cases of each large matrix, chosen by SEEDBED_SEED, or all with SEEDBED_LONG=1 (internal/sample).
test: export SEEDBED_SEED ?= $(shell date +%s)
test: ## every path once: unit, contract, integration and end-to-end tests (root); SEEDBED_SEED=N chooses the samples
	@internal/lab/packages.sh test
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target vet build image $(GOTESTSUM)
	@mkdir -p $(TIMES); rm -f $(TIMES)/*; \
	echo "samples by SEEDBED_SEED=$$SEEDBED_SEED$${SEEDBED_LONG:+, and all cases of the matrices}"; \
	status=0; \
	others=$$(CGO_ENABLED=1 go list -tags integration,$(TAGS) ./... | grep -vxF "$$(printf 'seedbed/%s\n' $(WAITS) $(ALONE) $(LONG); $(if $(RACED),$(WITHOUT_TAGS)))"); \
	nice -n 5 $(call GOTEST,waits,$(addprefix ./,$(WAITS))) -p 1 >$(TIMES)/waits 2>&1 & waits=$$!; \
	trap 'kill $$waits 2>/dev/null || :' EXIT; \
	$(call GOTEST,alone,$(addprefix ./,$(ALONE))) -p 1 2>&1 | tee $(TIMES)/alone || status=1; \
	$(call GOTEST,beside,$(addprefix ./,$(LONG)) $$others) -p 3 2>&1 | tee $(TIMES)/beside || status=1; \
	wait $$waits || status=1; trap - EXIT; cat $(TIMES)/waits; \
	echo 'where the time went:'; \
	cat $(TIMES)/alone $(TIMES)/waits $(TIMES)/beside | awk '($$1 == "PASS" || $$1 == "FAIL") && $$3 ~ /[0-9]s\)$$/ { \
		t = substr($$3, 2); s = 0; if (t ~ /m/) { s = 60 * t; sub(/.*m/, "", t) } print int(s + t) " s", $$2 }' | sort -rn | head -12; \
	if cat $(TIMES)/again-* 2>/dev/null | grep .; then echo 'The tests above failed and ran again. A test that passes only then is a fault: mend it.'; fi; \
	exit $$status

test-long: ## like test, with all cases of the large matrices, a guest that a script installs, and guests of the newest Debian; two hours
	@SEEDBED_LONG=1 $(MAKE) --no-print-directory test LIMIT=6h

# How long the disturbances last. The rest takes up to two minutes more.
TIME ?= 10m
soak: ## a whole installation under random faults for TIME (10m), with a checker from outside; SEED=N repeats a plan (root)
	@internal/lab/packages.sh test
	@SEEDBED_SOAK_TIME=$(TIME) SEEDBED_SEED=$(or $(SEED),$(shell date +%s)) CGO_ENABLED=1 \
		go test -count=1 -v -timeout 24h -tags integration,$(TAGS) -run '^TestSoak$$' ./internal/soak

vet: ## format and vet, without tags and without C
	@bad=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$bad" ] || { printf '%s\n' "$$bad" 'run gofmt -w on these' >&2; exit 1; }
	CGO_ENABLED=0 go vet ./...

# The linter and the test runner are not in go.mod, because they would bring hundreds of modules.
LINT      := $(CURDIR)/.cache/golangci-lint-v2.15.0
GOTESTSUM := $(CURDIR)/.cache/gotestsum-v1.13.0
lint: $(LINT) ## the checks of .golangci.yml, on all Go files; installs the linter, once
	@CGO_ENABLED=1 $(LINT) run

$(LINT): module := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
$(GOTESTSUM): module := gotest.tools/gotestsum@v1.13.0
$(LINT) $(GOTESTSUM):
	@echo 'installing $(@F) (once, in two minutes at most)'
	@mkdir -p $(@D)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	GOBIN="$$dir" CGO_ENABLED=0 go install $(module); \
	mv "$$dir"/* $@

check: vet lint ## the fast part: format, vet, lint, unit tests; needs C's headers for lint (make packages), no root, no network
	CGO_ENABLED=0 go test ./...

# What has goroutines that share memory. The race detector needs C and makes tests several times slower.
RACE := . ./store/groupcommit ./store/zk ./store/local ./provision/engine ./provision/plans ./provision/intake ./provision/record ./provision/cleanup ./provision/fleet ./provision/worker/... ./provision/backup ./provision/failover ./provision/placement ./feed ./guestplane ./metadata ./netcfg/... \
	./webhook/... ./api/client ./api/pvc ./api/rest ./api/server ./api/signin ./internal/cgate ./internal/duplex ./internal/httpserve ./internal/mtls ./internal/reload ./internal/run
# Of the store, the engine and the API, what is about concurrent requests and jobs: all of it would take ten minutes.
RACE_STORE  := ^(TestContract|TestSharedCreates|TestJobChangesInABatch|TestHintIsForCommits|TestGuestEventsBounded)$$/^race$$
RACE_ENGINE := ^Test(CreateAndRemove|ManyAtOnce|UnavailableIsRetried|Panic|CrashLoop|Zombie|Lease|SoftStop|Cancel|WaitingCounts|FollowDomains)$$
RACE_API    := ^Test(Share|Once|Events|Stream|PVCTogether|PVCStop|Guesses|Closed|Panic|IfMatch)
# SQLite is C that was translated to Go: the detector would only make it slow. Vet is for make vet. Many tests wait, so three
# packages run at a time.
RACETEST = CGO_ENABLED=1 go test -race -vet=off -p 3 -gcflags='modernc.org/...=-race=false' -timeout 20m
# What has no tests with tags, so that `make race` has run all of its tests: `make test RACED=1` leaves it out.
TESTFILES    := {{.ImportPath}} {{.TestGoFiles}} {{.XTestGoFiles}}
WITHOUT_TAGS  = comm -12 <(go list -f '$(TESTFILES)' $(RACE) | sort) <(go list -tags integration,$(TAGS) -f '$(TESTFILES)' $(RACE) | sort) | cut -d' ' -f1
race: ## unit tests of the packages with goroutines, with the race detector
	$(RACETEST) $(RACE)
	$(RACETEST) -run '$(RACE_STORE)|$(RACE_ENGINE)|$(RACE_API)' ./provision ./api ./store

build: ## the four programs, in bin/
	@mkdir -p bin
	CGO_ENABLED=0 $(GOBUILD) -ldflags '$(LDFLAGS)' -o bin/ $(addprefix ./cmd/,$(PURE))
	CGO_ENABLED=1 $(GOBUILD) -tags $(TAGS) -ldflags '$(LDFLAGS)' -o bin/ ./cmd/seedbed-worker

image: $(IMAGE) ## the Debian guest image that run and test boot

$(IMAGE): internal/lab/guest-image.sh internal/lab/bootable.sh
	@echo 'making a Debian guest image (once, about two minutes)'
	@internal/lab/guest-image.sh $@

packages: ## install the Debian packages that the tests need (root)
	@internal/lab/packages.sh test

lab-up: ## start a one-node Ceph, PostgreSQL and ZooKeeper, and say how to use them (root)
	@internal/lab/packages.sh ceph postgres zookeeper
	@$(MAKE) --no-print-directory labctl
	@bin/labctl up ceph postgres zookeeper
	@echo 'make lab-down stops them, and removes their data.'

lab-down: labctl ## stop what lab-up started, and remove its data (root)
	@bin/labctl down

labctl:
	@mkdir -p bin
	@CGO_ENABLED=0 go build -o bin/ ./internal/lab/labctl

bench-metadata: ## how fast guests are answered, beside a constant server: nine figures, in four minutes at most (root; docs/reference/benchmarks.md)
	@$(MAKE) --no-print-directory bench-programs
	@bin/bench/metadata -daemon bin/bench/seedbed-metadata

bench-webhook: ## how fast webhooks are accepted, beside bare commits: nine figures, in three minutes (root; docs/reference/benchmarks.md)
	@internal/lab/packages.sh bench
	@mkdir -p bin/bench
	@CGO_ENABLED=0 go build -o bin/bench/ ./internal/bench/webhook
	@bin/bench/webhook

bench-api: ## how fast the REST API answers over 100,000 instances, and how the command line starts: nine figures, in four minutes (root)
	@internal/lab/packages.sh bench postgres
	@mkdir -p bin/bench
	@CGO_ENABLED=0 go build -o bin/bench/ ./internal/bench/api
	@CGO_ENABLED=0 $(GOBUILD) -ldflags '$(LDFLAGS)' -o bin/bench/ ./cmd/seedbed
	@bin/bench/api

bench-scripts: ## what the sandbox adds to a provisioning script, beside the bare interpreter: one figure, in a minute (root; docs/reference/benchmarks.md)
	@internal/lab/packages.sh bench script
	@mkdir -p bin/bench
	@CGO_ENABLED=0 go build -o bin/bench/ ./internal/bench/scripts
	@bin/bench/scripts

bench-network: ## a node's networks and security groups, beside ip, nft, a bare bridge and dnsmasq: eight figures, in seven minutes (root; docs/reference/benchmarks.md)
	@internal/lab/packages.sh dnsmasq
	@mkdir -p bin/bench
	@CGO_ENABLED=0 go build -o bin/bench/ ./internal/bench/network
	@bin/bench/network

bench-lifecycle: ## snapshots, attached volumes, backups, migrations and a lost node, beside the same by hand: seven figures, in fifteen minutes (root)
	@$(MAKE) --no-print-directory bench-provision PARTS=lifecycle

bench-provision: ## what the engine adds to an instance's making on real Ceph and libvirt: ten figures, in ten minutes (root)
	@internal/lab/packages.sh test
	@mkdir -p bin/bench
	@CGO_ENABLED=1 go build -tags $(TAGS) -o bin/bench/ ./internal/bench/provision
	@CGO_ENABLED=1 $(GOBUILD) -tags $(TAGS) -ldflags '$(LDFLAGS)' -o bin/bench/ ./cmd/seedbed-worker
	@bin/bench/provision $(if $(PARTS),-only $(PARTS))

PROFILE ?= dist/metadata.pprof
profile-metadata: ## a CPU profile of seedbed-metadata under the load of bench-metadata, in PROFILE (dist/metadata.pprof); LOAD=newconn for one load (root)
	@$(MAKE) --no-print-directory bench-programs
	@bin/bench/metadata -daemon bin/bench/seedbed-metadata -profile $(PROFILE) $(if $(LOAD),-load $(LOAD))

bench-programs:
	@internal/lab/packages.sh bench
	@mkdir -p bin/bench
	@CGO_ENABLED=0 $(GOBUILD) -ldflags '$(filter-out -s -w,$(LDFLAGS))' -o bin/bench/ ./cmd/seedbed-metadata ./internal/bench/metadata

deb: ## the four Debian packages, in dist/ (docs/how-to/install.md)
	@internal/lab/packages.sh deb
	@packaging/build-debs.sh dist

fuzz: ## each fuzz target for 20 seconds
	@for f in $$(grep -rlE '^func Fuzz' --include='*_test.go' .); do \
		for t in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9]+).*/\1/p' $$f); do \
			CGO_ENABLED=0 go test -run xxx -fuzz "^$$t\$$" -fuzztime 20s ./$$(dirname $$f); \
		done; \
	done

clean: ## remove what was built, but not the cached guest image
	rm -rf bin dist
