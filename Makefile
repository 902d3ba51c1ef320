# Copyright The Grapnel Authors.
# SPDX-License-Identifier: Apache-2.0

# `make` alone lists the targets. A newcomer needs only two of them, `make demo` and
# `make test`; each builds what it needs first. Everything that is
# built is in bin/ or, if it is for users, in dist/. Neither is ever committed.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

GO ?= go
IMG ?= ghcr.io/grapnel-dev/grapnel:latest
# What `make deploy` and `make build-installer` install: config/default, a directory of config/overlays, or your own.
OVERLAY ?= config/default
# Additional arguments of `make deploy` for `kubectl apply`, for example a selector.
APPLY_ARGS ?=
# What `make image` builds for; a release is for linux/amd64 and linux/arm64.
PLATFORMS ?= linux/$(shell $(GO) env GOARCH)
BIN := $(CURDIR)/bin
DIST ?= $(CURDIR)/dist
TOOLS := $(BIN)/tools
CONTROL_PLANE := $(BIN)/controlplane
OLDEST := $(BIN)/controlplane-oldest
NODE := $(BIN)/node
CSI := $(BIN)/csi
# The kubectl for deployments: the installed one, because building one takes minutes,
# or else that of the test control plane. It reads KUBECONFIG like any other.
KUBECTL_FOUND := $(or $(shell command -v kubectl),$(CONTROL_PLANE)/kubectl)
KUBECTL ?= $(KUBECTL_FOUND)
KUBECTL_BUILT := $(filter $(CONTROL_PLANE)/kubectl,$(KUBECTL))
RENDER = $(KUBECTL) kustomize $(OVERLAY) | sed 's|ghcr.io/grapnel-dev/grapnel:latest|$(IMG)|'

CONTROLLER_GEN := $(TOOLS)/controller-gen
GOLANGCI_LINT := $(TOOLS)/golangci-lint
KUSTOMIZE := $(TOOLS)/kustomize
PROTOGEN := $(TOOLS)/protogen
PROTOC_GEN_GO := $(TOOLS)/protoc-gen-go
PROTOC_GEN_GO_GRPC := $(TOOLS)/protoc-gen-go-grpc
CRD_REF_DOCS := $(TOOLS)/crd-ref-docs

RELEASE := CGO_ENABLED=0 GOWORK=off $(GO) run -C hack/release .

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

##@ General

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*##"} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*##/ {printf "  %-22s%s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

##@ Development

.PHONY: demo
demo: control-plane ## Show a backup and a restore with hooks on a real API server, on this machine.
	CGO_ENABLED=0 $(GO) run ./hack/demo

.PHONY: bench
bench: control-plane csi-programs ## Measure against what the API server itself allows.
	CGO_ENABLED=0 $(GO) run ./test/perf

.PHONY: generate
generate: $(CONTROLLER_GEN) $(PROTOGEN) $(PROTOC_GEN_GO) $(PROTOC_GEN_GO_GRPC) ## Generate deepcopy functions and the Go code of the protocol.
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(PROTOGEN) -plugins $(TOOLS) sdk/proto

.PHONY: manifests
manifests: $(CONTROLLER_GEN) ## Generate CRDs and the operator's role from markers.
	$(CONTROLLER_GEN) crd paths=./api/... output:crd:artifacts:config=config/crd/bases
	$(CONTROLLER_GEN) rbac:roleName=grapnel-manager,headerFile=hack/boilerplate.yaml.txt \
		paths=./controllers/... paths=. output:rbac:artifacts:config=config/rbac

.PHONY: reference
reference: $(CRD_REF_DOCS) ## Generate the API reference in docs/spec from the types.
	$(CRD_REF_DOCS) --source-path=./api/v1alpha1 --config=hack/tools/crd-ref-docs/config.yaml \
		--templates-dir=hack/tools/crd-ref-docs/templates --renderer=markdown --log-level=ERROR --output-path=docs/spec/reference.md

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format the Go code.
	$(GOLANGCI_LINT) fmt

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Lint the Go code, and the API by the conventions of Kubernetes.
	$(GOLANGCI_LINT) run
	$(GOLANGCI_LINT) run --config .golangci-kal.yml ./api/...

.PHONY: lint-fix
lint-fix: $(GOLANGCI_LINT) ## Lint the Go code and fix what can be fixed.
	$(GOLANGCI_LINT) run --fix
	$(GOLANGCI_LINT) run --fix --config .golangci-kal.yml ./api/...

.PHONY: verify
verify: $(GOLANGCI_LINT) $(KUSTOMIZE) ## Check that everything generated, formatted and listed is current, and lint.
	hack/verify.sh

##@ Tests

.PHONY: test
test: control-plane csi-programs ## Run every test of every module; the last line counts them. LONG=1 hits every write in test/crash.
	hack/test.sh all

.PHONY: test-unit
test-unit: ## Run the tests of the operator's module that need no API server.
	hack/test.sh unit

.PHONY: test-integration
test-integration: control-plane csi-programs ## Run the tests that need an API server, and the nested test modules.
	hack/test.sh integration

.PHONY: test-oldest
test-oldest: control-plane-oldest ## Run the tests that show that the oldest Kubernetes is new enough; not part of make test.
	hack/test.sh oldest

# How long `make chaos` disturbs operators, and its seed; without one, it is random.
DURATION ?= 5m
SEED ?=

.PHONY: chaos
chaos: control-plane ## Disturb operators at random for DURATION, and check invariants; SEED reproduces a failure.
	hack/chaos.sh $(DURATION) $(SEED)

##@ End-to-end tests, on a throw-away cluster on this machine, as root

.PHONY: e2e
e2e: e2e-packages browser-packages e2e-programs ## Bring up the cluster, run test/e2e in it, take it down; E2E_ARGS are passed to its tests, E2E_LAYOUT is the image.
	test/node/test.sh

.PHONY: e2e-up
e2e-up: e2e-packages e2e-programs e2e-node ## Bring up the cluster; its kubeconfig is bin/e2e/kubeconfig.
	$(BIN)/e2e/e2e up

.PHONY: e2e-down
e2e-down: e2e-node ## Take the cluster down, whatever its state.
	$(BIN)/e2e/e2e down

.PHONY: e2e-packages
e2e-packages: ## Install containerd and the other packages that the cluster needs.
	test/node/packages.sh

.PHONY: browser-packages
browser-packages: ## Install Chromium, for the test of pages.
	test/node/packages.sh browser

.PHONY: test-browser
test-browser: browser-packages ## Check the pages of the command line in Chromium; needs no cluster.
	cd test/e2e && CGO_ENABLED=0 $(GO) test -count=1 ./browser

.PHONY: e2e-node
e2e-node: ## Build bin/e2e/e2e, which brings the cluster up and down, and builds and loads images.
	CGO_ENABLED=0 $(GO) build -C test/node -o $(BIN)/e2e/e2e .

##@ Build

.PHONY: build
build: ## Build the operator, the command line, and the plugins.
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $(BIN)/manager .
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $(BIN)/ ./cmd/kubectl-grapnel
	cd plugins/csi && CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o $(BIN)/plugins/csi .
	cd test/exampleplugin && CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o $(BIN)/plugins/example .

.PHONY: image
image: ## Build the image IMG for PLATFORMS, without a container engine: dist/image, an OCI layout, and dist/image.tar.
	$(RELEASE) image -version $(VERSION) -name $(IMG) -platforms $(PLATFORMS) -out $(DIST)/image

.PHONY: image-push
image-push: ## Push the image of make image to the registry of IMG.
	$(RELEASE) push -layout $(DIST)/image $(IMG)

.PHONY: build-installer
build-installer: $(KUBECTL_BUILT) ## Write dist/install.yaml, which installs what `make deploy` installs.
	mkdir -p $(DIST)
	$(RENDER) >$(DIST)/install.yaml

# Every file of it is the same for the same commit and the same version of Go.
.PHONY: release
release: ## Build everything that is released as VERSION, such as v0.1.0, into dist/VERSION.
	$(RELEASE) release -version $(VERSION) -out $(DIST)/$(VERSION)

.PHONY: release-push
release-push: ## Push the image of the release VERSION to REGISTRY, such as ghcr.io/grapnel-dev.
	$(RELEASE) push -layout $(DIST)/$(VERSION)/image $(if $(REGISTRY),$(REGISTRY),$(error set REGISTRY, for example to ghcr.io/grapnel-dev))/grapnel:$(VERSION)

.PHONY: clean
clean: ## Remove everything that was built.
	rm -rf $(BIN) $(CURDIR)/dist

##@ Deployment, into the cluster of KUBECONFIG

.PHONY: install
install: $(KUBECTL_BUILT) ## Install the CRDs.
	$(KUBECTL) apply -k config/crd

.PHONY: uninstall
uninstall: $(KUBECTL_BUILT) ## Remove the CRDs, and with them every object of these kinds.
	$(KUBECTL) delete --ignore-not-found -k config/crd

.PHONY: deploy
deploy: $(KUBECTL_BUILT) ## Install the CRDs, the operator (image IMG) and its policies, as OVERLAY says.
	$(RENDER) | $(KUBECTL) apply $(APPLY_ARGS) -f -

# Neither the CRDs nor the namespace with the volume of the store: removing the
# operator must not delete backups. Everything that is removed has a label, so that it is
# found, whichever overlay it came from. Alerts go first, as they would fire, and then the
# Deployment with its pods: until they have ended, they need their rights and the network to
# record the progress of a backup. The policies go last: until then, only the operator can
# write what it wrote.
GRAPNEL := -l app.kubernetes.io/name=grapnel --ignore-not-found

.PHONY: undeploy
undeploy: $(KUBECTL_BUILT) ## Remove the operator; CRDs, their objects and stored backups stay.
	$(KUBECTL) get crd servicemonitors.monitoring.coreos.com prometheusrules.monitoring.coreos.com --ignore-not-found -o name | \
		sed 's|.*/||' | xargs -r -I{} $(KUBECTL) delete {} -n grapnel-system $(GRAPNEL)
	$(KUBECTL) delete configmap -n grapnel-system grapnel-dashboard --ignore-not-found
	$(KUBECTL) delete deployment -n grapnel-system $(GRAPNEL) --cascade=foreground --timeout=5m
	$(KUBECTL) delete poddisruptionbudget,service,networkpolicy -n grapnel-system $(GRAPNEL)
	$(KUBECTL) delete secret -n grapnel-system grapnel-restore-stamp-key --ignore-not-found
	$(KUBECTL) delete rolebinding,role,serviceaccount -n grapnel-system $(GRAPNEL)
	$(KUBECTL) delete clusterrolebinding,clusterrole $(GRAPNEL)
	$(KUBECTL) delete validatingadmissionpolicybinding,validatingadmissionpolicy $(GRAPNEL)

##@ Tools, built from pinned modules when something needs them

.PHONY: control-plane
control-plane: $(CONTROL_PLANE)/etcd $(CONTROL_PLANE)/kubectl ## Build etcd, kube-apiserver, kube-controller-manager and kubectl (minutes, once).

$(CONTROL_PLANE)/etcd: hack/controlplane/build.sh hack/controlplane/etcd/go.mod hack/controlplane/etcd/go.sum
	hack/controlplane/build.sh $(CONTROL_PLANE) etcd

# One build produces the three programs; kubectl is the last of them.
$(CONTROL_PLANE)/kubectl: hack/controlplane/build.sh hack/controlplane/kubernetes/go.mod hack/controlplane/kubernetes/go.sum
	hack/controlplane/build.sh $(CONTROL_PLANE) kubernetes

.PHONY: control-plane-oldest
control-plane-oldest: $(OLDEST)/etcd $(OLDEST)/kubectl ## Build the oldest Kubernetes that Grapnel runs on (minutes, once).

$(OLDEST)/etcd: hack/controlplane/build.sh hack/controlplane/etcd/go.mod hack/controlplane/etcd/go.sum
	hack/controlplane/build.sh $(OLDEST) etcd

$(OLDEST)/kubectl: hack/controlplane/build.sh hack/controlplane/oldest/go.mod hack/controlplane/oldest/go.sum
	hack/controlplane/build.sh $(OLDEST) oldest

.PHONY: csi-programs
csi-programs: $(CSI)/snapshot-controller ## Build the sidecars of CSI drivers: csi-provisioner, snapshot-controller, csi-snapshotter.

# One build produces these three; snapshot-controller is the last of them.
$(CSI)/snapshot-controller: hack/controlplane/build.sh hack/controlplane/csi/go.mod hack/controlplane/csi/go.sum
	hack/controlplane/build.sh $(CSI) csi

.PHONY: e2e-programs
e2e-programs: control-plane csi-programs $(NODE)/kube-scheduler $(NODE)/coredns ## Build the other programs of a node: kubelet, kube-proxy, kube-scheduler, CoreDNS.

# One build produces these three, too; kube-scheduler is the last of them.
$(NODE)/kube-scheduler: hack/controlplane/build.sh hack/controlplane/kubernetes/go.mod hack/controlplane/kubernetes/go.sum
	hack/controlplane/build.sh $(NODE) node

$(NODE)/coredns: test/node/coredns/main.go test/node/coredns/go.mod test/node/coredns/go.sum
	cd test/node/coredns && CGO_ENABLED=0 $(GO) build -mod=readonly -buildvcs=false -ldflags "-s -w" -o $@ .

.PHONY: tools
tools: $(CONTROLLER_GEN) $(GOLANGCI_LINT) $(KUSTOMIZE) $(PROTOGEN) $(PROTOC_GEN_GO) $(PROTOC_GEN_GO_GRPC) $(CRD_REF_DOCS) ## Build all tools.

# Each tool has its own module under hack/tools, with one tool in its go.mod.
$(TOOLS)/%: hack/tools/%/go.mod hack/tools/%/go.sum
	hack/tools/build.sh $(TOOLS) $*

$(PROTOGEN): $(wildcard hack/tools/protogen/*.go)
