# Everything a developer does here. `make` alone shows the list.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE    ?= $(shell git log -1 --format=%cI 2>/dev/null)

BUILDINFO   := spillway/shared/buildinfo
LDFLAGS     := -s -w -X $(BUILDINFO).version=$(VERSION) -X $(BUILDINFO).commit=$(COMMIT) -X $(BUILDINFO).date=$(DATE)
GOBUILD     := CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)'
STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2

BIN      ?= bin
FUZZTIME ?= 1m
DURATION ?= 10m
SEED     ?= 0
BENCH    ?= .

.DEFAULT_GOAL := help
.PHONY: help build demo run install image-files docker-test k8s-test trackers test check check-fast race fmt bench fuzz fuzz-disk soak clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build both programs into bin/
	$(GOBUILD) -o $(BIN)/spillway-collector ./collector
	$(GOBUILD) -o $(BIN)/spillway-watchdog ./watchdog

demo: build ## show an outage from beginning to end on this machine, without AWS
	go run ./shared/rig/demo -bin bin

run: build ## start collector and watchdog on local stand-ins, to play with; Ctrl-C ends them
	go run ./shared/rig/demo -bin bin run

install: ## install programs, units and example configs for systemd, below DESTDIR if set; installed configs stay as they are
	@test -x $(BIN)/spillway-collector && test -x $(BIN)/spillway-watchdog || { echo 'first, as a user: make build'; exit 1; }
	install -D -t $(DESTDIR)/usr/bin $(BIN)/spillway-collector $(BIN)/spillway-watchdog
	install -D -m 644 -t $(DESTDIR)/usr/lib/systemd/system systemd/spillway-collector.service systemd/spillway-collector.socket systemd/spillway-watchdog.service systemd/spillway.target
	install -D -m 644 systemd/spillway.sysusers.conf $(DESTDIR)/usr/lib/sysusers.d/spillway.conf
	install -D -m 644 systemd/spillway.tmpfiles.conf $(DESTDIR)/usr/lib/tmpfiles.d/spillway.conf
	install -D -m 644 -t $(DESTDIR)/usr/share/polkit-1/rules.d systemd/50-spillway.rules
	install -D -m 644 -t $(DESTDIR)/usr/share/doc/spillway docs/operations.md docs/watchdog.md
	install -d $(DESTDIR)/etc/spillway
	@for name in collector.yaml collector-fallback.yaml watchdog.yaml; do \
	  test -e $(DESTDIR)/etc/spillway/$$name || install -m 644 systemd/examples/$$name $(DESTDIR)/etc/spillway/ || exit 1; \
	done

IMAGE ?= dist/image
image-files: ## build what container images hold, into IMAGE (dist/image)
	$(MAKE) build BIN=$(IMAGE)/bin
	CGO_ENABLED=0 go build -trimpath -o $(IMAGE)/bin/standins ./shared/rig/standins
	install -D -m 644 -t $(IMAGE) /etc/ssl/certs/ca-certificates.crt
	install -d $(IMAGE)/empty

docker-test: ## build the images and run the pair in containers; takes root, and Docker (a daemon is started if none runs)
	docker/test.sh

k8s-test: ## decode the Kubernetes manifests as strictly as Kubernetes does
	cd docker/k8s/strict && go test ./...

trackers: ## install the real trackers that the tests send with; they need node, python3 and chromium
	npm ci --prefix shared/rig/trackers/node --ignore-scripts --no-audit --no-fund
	python3 -m venv dist/python
	dist/python/bin/pip install --quiet --disable-pip-version-check -r shared/rig/trackers/python/requirements.txt

test: ## run every test
	go test ./...

check-fast: ## formatting, go vet, go fix, staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go fix -diff ./...
	$(STATICCHECK) ./...

check: check-fast ## all of check-fast, the architecture, every test under the race detector
	go test -count=1 ./docs
	go test -race ./...

fmt: ## format all Go files
	gofmt -w $$(git ls-files --cached --others --exclude-standard '*.go')

bench: build ## run the benchmarks; then the collector beside a bare server, and its start with 1 GiB of backlog
	go test -run '^$$' -bench '$(BENCH)' -benchmem ./...
	go run ./shared/rig/bench -bin bin
	go run ./shared/rig/bench -bin bin backlog

fuzz: ## run every fuzz target for FUZZTIME (1m)
	@for pkg in $$(go list ./...); do \
	  for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$pkg $$target"; \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; \
	done

fuzz-disk: ## fuzz what reads the spool after a crash, about half a minute each
	go test -run '^$$' -fuzz '^FuzzScanner$$' -fuzztime 200000x ./collector/internal/spool
	go test -run '^$$' -fuzz '^FuzzAckSlot$$' -fuzztime 200000x ./collector/internal/spool

soak: build ## break everything at random under load for DURATION (10m), then look every event up; SEED repeats a run
	go run ./shared/rig/soak -bin bin -duration $(DURATION) -seed $(SEED)

clean: ## remove what was built
	rm -rf bin dist artifacts
