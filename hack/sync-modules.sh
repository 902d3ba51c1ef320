#!/usr/bin/env bash
# Copyright The Grapnel Authors.
# SPDX-License-Identifier: Apache-2.0

# Gives the modules of this repository one version of each dependency they share, so that it is
# compiled and vetted once: with other versions of golang.org/x/net, for example, everything of
# Kubernetes is compiled again, for minutes. With -check, it only lists what differs.
#
# Modules that build a program or a plugin as its authors do have their own versions.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

modules=$(git ls-files '*go.mod' | xargs -n 1 dirname |
	grep -vxE 'hack/controlplane/(etcd|kubernetes|oldest)|hack/tools/(golangci-lint|kustomize)|test/interop/(velero|plugins/.*)')

case ${1:-} in
-check)
	for module in $modules; do
		awk -v module="$module" '$1 == "require" {$1 = ""; $0 = $0} $1 ~ /[.].*\// && $2 ~ /^v[0-9]/ && $1 !~ /grapnel-dev/ {print $1, $2, module}' "$module/go.mod"
	done | awk '
		!($1 in version) {version[$1] = $2; first[$1] = $3}
		version[$1] != $2 {print $1 " is " version[$1] " in " first[$1] " and " $2 " in " $3; differ = 1}
		END {exit differ}'
	;;
"")
	workspace=$(mktemp -d)
	trap 'rm -rf "$workspace"' EXIT
	{
		awk '/^go / {print}' go.mod
		for module in $modules; do
			echo "use $PWD/$module"
		done
	} >"$workspace/go.work"
	GOWORK=$workspace/go.work go work sync
	for module in $modules; do
		(cd "$module" && go mod tidy)
	done
	;;
*)
	echo "usage: $0 [-check]" >&2
	exit 2
	;;
esac
