#!/usr/bin/env bash
# Copyright The Grapnel Authors.
# SPDX-License-Identifier: Apache-2.0

# Brings up the cluster of test/node, runs the end-to-end tests in it, and takes it down
# whatever happens. It exits with the code of the tests. The tests find in their
# environment:
#
#   KUBECONFIG  the cluster
#   E2E_LOAD    a command that puts images on its nodes: $E2E_LOAD IMAGE.tar...
#   PATH        with kubectl
#
# Against another cluster they run without this script: set KUBECONFIG and E2E_LOAD,
# which is "kind load image-archive" for kind, and run go test in test/e2e.
#
# E2E_TESTS is the directory of another test module, E2E_ARGS are additional arguments of
# go test. The output of the tests also goes to bin/test/e2e.json, which hack/testsummary
# reads; a line is printed for each package that ends, and the failures at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tests=${E2E_TESTS:-test/e2e}
out=$PWD/bin/test
e2e=$PWD/bin/e2e/e2e
mkdir -p "$out" bin/e2e
rm -f "$out/e2e.json"
CGO_ENABLED=0 go build -o "$out/testsummary" ./hack/testsummary
CGO_ENABLED=0 go build -C test/node -o "$e2e" .

# conclude writes the exit code as hack/test.sh does, so that the summary has it even
# if no test could fail, and takes the cluster down.
code=1
up=
conclude() {
	trap - EXIT
	if [ "$code" -ne 0 ] && [ -n "$up" ]; then
		dump || true
	fi
	# Not one that existed before and may be in use.
	if [ -n "$up" ]; then
		"$e2e" down || code=1
	fi
	printf '{"Action":"exit","Output":"%s"}\n' "$code" >>"$out/e2e.json"
	"$out/testsummary" "$out/e2e.json" || code=1
	exit "$code"
}

# dump stores what can only be queried while the cluster is up.
dump() {
	if [ ! -e bin/e2e/kubeconfig ]; then
		return
	fi
	local dir=bin/e2e/log/dump
	mkdir -p "$dir"
	timeout 60 kubectl get pods,pv,pvc,volumesnapshots,volumesnapshotcontents,jobs,deployments -A -o wide >"$dir/objects.txt" 2>&1 || true
	timeout 60 kubectl get events -A --sort-by=.metadata.creationTimestamp >"$dir/events.txt" 2>&1 || true
	timeout 60 kubectl get backups.grapnel.dev,restores.grapnel.dev,deletionruns,hookruns -A -o yaml >"$dir/grapnel.yaml" 2>&1 || true
	timeout 60 kubectl logs -n grapnel-system -l app.kubernetes.io/name=grapnel --all-containers --tail=-1 --prefix >"$dir/grapnel.log" 2>&1 || true
	echo "The state at the time of the failure is in $dir, next to the logs of the cluster." >&2
}

trap conclude EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
KUBECONFIG=$PWD/bin/e2e/kubeconfig
PATH=$PWD/bin/controlplane:$PATH
E2E_LOAD="$e2e load"
# No proxy is used for what is on this machine.
NO_PROXY=${NO_PROXY:+$NO_PROXY,}10.98.0.0/24,10.99.0.0/16
no_proxy=$NO_PROXY
export KUBECONFIG PATH E2E_LOAD NO_PROXY no_proxy

# It takes down what it could not bring up itself.
"$e2e" up
up=1
code=0
# shellcheck disable=SC2086
(cd "$tests" && go test -json -count=1 -vet=off -timeout 60m ${E2E_ARGS:-} ./... 2>&1) |
	"$out/testsummary" -record "$out/e2e.json" || code=${PIPESTATUS[0]}
