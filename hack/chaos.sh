#!/usr/bin/env bash
# Copyright The Grapnel Authors.
# SPDX-License-Identifier: Apache-2.0

# Disturbs operators at random for some time and checks invariants; see
# docs/faults.md:
#
#   chaos.sh DURATION [SEED]
#
# Three quarters of the time, two operators are disturbed; then, writes of single runs are.
# The seed is printed if none is given; it reproduces the faults. The journal of the faults, and the
# logs of operators that violated an invariant, are in bin/test/chaos.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
	echo "usage: $0 DURATION [SEED]" >&2
	exit 2
fi
export CGO_ENABLED=0 CHAOS_DURATION=$1
export CHAOS_SEED=${2:-$RANDOM}
echo "CHAOS_SEED=$CHAOS_SEED"
code=0
# Both end by themselves; each wait in them has a limit.
go test -count=1 -timeout 0 -v -run '^TestPair$' ./test/faults/chaos || code=$?
go test -count=1 -timeout 0 -v -run '^TestFaults$' ./test/crash || code=$?
if [ "$code" -ne 0 ]; then
	echo "make chaos failed; reproduce it with SEED=$CHAOS_SEED, or with the seed of the round that failed." >&2
fi
exit "$code"
