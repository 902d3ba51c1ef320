#!/usr/bin/env bash
# Copyright The Grapnel Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs tests and sums them up:
#
#   test.sh all          every test of the operator's module and of the nested
#                        modules below plugins/, test/ and hack/release
#   test.sh unit         those of the operator's module that need no API server
#   test.sh integration  the others
#   test.sh oldest       those that show that the API server of bin/controlplane-oldest
#                        accepts the manifests, decides as a newer one, and serves the operator
#
# The output of each run goes to bin/test/NAME.json, the summary to
# bin/test/summary.txt; its last line says how many passed and failed. ARGS are
# additional arguments of go test, SPECS those of ginkgo for the suites that run in
# several processes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

which=${1:-all}
out=$PWD/bin/test
mkdir -p "$out"
rm -f "$out"/*.json "$out/summary.txt"
race=-race cgo=1
if ! command -v "$(go env CC)" >/dev/null; then
	echo "There is no C compiler: testing without the race detector." >&2
	race= cgo=0
fi
export GINKGO_NO_COLOR=true
timeout=60m
[ -z "${LONG:-}" ] || timeout=5h
# Only the race detector needs C. Everything else is compiled once.
export CGO_ENABLED=0
go build -o "$out/testsummary" ./hack/testsummary

# run NAME DIRECTORY ARGUMENTS... records one go test. A failure does not stop the script: the
# summary reports it. make verify vets all modules, which takes as long as compiling them.
run() {
	local name=$1 dir=$2 code=0
	shift 2
	echo "--- $name"
	# shellcheck disable=SC2086
	(cd "$dir" && go test -json -count=1 -vet=off -timeout "$timeout" ${ARGS:-} "$@" 2>&1) |
		"$out/testsummary" -record "$out/$name.json" || code=${PIPESTATUS[0]}
	printf '{"Action":"exit","Output":"%s"}\n' "$code" >>"$out/$name.json"
}

# run_specs DIRECTORY records one suite. Its specs mostly wait, each process has an API server and an
# operator of its own, and the package of the suite has no other tests.
run_specs() {
	local name=${1//\//-} code=0
	echo "--- $name"
	# test2json learns the result from the last line of go test, which Ginkgo does not print.
	# shellcheck disable=SC2086
	{
		if go tool ginkgo run --no-color --vet=off --procs="$((2 * $(getconf _NPROCESSORS_ONLN)))" --timeout=60m ${SPECS:-} "./$1" 2>&1; then
			echo PASS
		else
			echo FAIL
			exit 1
		fi
	} | go tool test2json -t -p "$1" | "$out/testsummary" -record "$out/$name.json" || code=${PIPESTATUS[0]}
	printf '{"Action":"exit","Output":"%s"}\n' "$code" >>"$out/$name.json"
}

# with_api_server lists the packages whose tests start one.
with_api_server() {
	go list -test -f '{{if .ForTest}}{{.ForTest}} {{join .Deps " "}}{{end}}' ./... |
		awk '/internal\/testing\/controlplane( |$)/ {print $1}' | sort -u
	go list ./internal/testing/controlplane
}

all=$(go list ./...)
case $which in
all) packages=$all ;;
unit) packages=$(grep -vxFf <(with_api_server) <<<"$all") ;;
integration) packages=$(grep -xFf <(with_api_server) <<<"$all") ;;
oldest)
	packages=
	export GRAPNEL_CONTROL_PLANE=$PWD/bin/controlplane-oldest
	run api . ./api/v1alpha1
	run config . -run '^Test(Install|Installations|Samples)$' ./config
	run chart test/chart -run '^TestRelease$' .
	run operator . -p 1 ./test/integration ./test/restore -ginkgo.label-filter=oldest
	;;
*)
	echo "usage: $0 all|unit|integration|oldest" >&2
	exit 2
	;;
esac

# The race detector is for code in the process of the test. Below test/, but for test/quiesce, that
# is not the operator, which is started as a program, and test/perf measures; the tests below hack/
# are not concurrent; and api, config and docs are written for Kubernetes and for users. These run
# beside all others, one package at a time, because they mostly wait.
plain='/grapnel/\(hack\|api\|config\|docs\|test/[^q][^/]*\)\(/\|$\)'
parallel='test/\(integration\|restore\)$'
tested=$(grep -v "$plain" <<<"$packages" || true)
others=$(grep "$plain" <<<"$packages" | grep -v "$parallel" || true)
suites=$(grep -o "$parallel" <<<"$packages" || true)
{
	# shellcheck disable=SC2086
	[ -z "$others" ] || run others . -p 1 $others
	for suite in $suites; do
		run_specs "$suite"
	done
} &
if [ -n "$tested" ]; then
	# shellcheck disable=SC2086
	CGO_ENABLED=$cgo run operator . -p 2 $race $tested
fi
# test/e2e needs a cluster; test/node/coredns has no tests and takes minutes to compile.
if [ "$which" = all ] || [ "$which" = integration ]; then
	while read -r mod; do
		dir=$(dirname "$mod")
		run "${dir//\//-}" "$dir" -p 2 ./...
	done < <(find plugins test hack/release -name go.mod -not -path 'test/e2e/*' -not -path 'test/node/coredns/*' | sort)
fi
wait

"$out/testsummary" "$out"/*.json | tee "$out/summary.txt"
