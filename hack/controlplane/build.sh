#!/usr/bin/env bash
# Copyright The Grapnel Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds the programs of a cluster from Go modules:
#
#   build.sh DIR etcd         etcd
#   build.sh DIR kubernetes   kube-apiserver, kube-controller-manager and kubectl
#   build.sh DIR oldest       the same of the oldest version that Grapnel runs on
#   build.sh DIR node         kubelet, kube-proxy and kube-scheduler, which only
#                             test/node needs
#   build.sh DIR csi          csi-provisioner, snapshot-controller and csi-snapshotter
#
# Kubernetes and node come from one module, and have one version.
#
# Versions and checksums come from the go.mod and go.sum of the nested modules
# beside this script. Programs appear in DIR all at once and only when the whole
# build succeeded; two builds into one DIR wait for each other.
set -euo pipefail

if [ $# -ne 2 ]; then
	echo "usage: $0 DIR etcd|kubernetes|oldest|node|csi" >&2
	exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
part=$2
cd "$(dirname "${BASH_SOURCE[0]}")"

case $part in
kubernetes | oldest | node)
	cd "${part/node/kubernetes}"
	version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
	# Without a version the programs cannot parse their own: kubectl fails and
	# the API server says v0.0.0-master.
	ldflags="-X k8s.io/component-base/version.gitVersion=$version"
	names="kube-apiserver kube-controller-manager kubectl"
	if [ "$part" = node ]; then
		names="kubelet kube-proxy kube-scheduler"
	fi
	packages=$(printf 'k8s.io/kubernetes/cmd/%s\n' $names)
	;;
etcd)
	cd etcd
	ldflags=""
	packages=go.etcd.io/etcd/server/v3
	;;
csi)
	cd csi
	ldflags=""
	packages=$(go list -f '{{.ImportPath}}' tool)
	;;
*)
	echo "$0: unknown part $part" >&2
	exit 2
	;;
esac

if command -v flock >/dev/null; then
	exec 9>"$out/.lock"
	flock 9
fi
tmp=$(mktemp -d "$out/.build.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

for package in $packages; do
	name=$(basename "$package")
	if [ "$part" = etcd ]; then
		name=etcd
	fi
	echo "building $name"
	CGO_ENABLED=0 go build -mod=readonly -buildvcs=false \
		-ldflags "-s -w $ldflags" -o "$tmp/$name" "$package"
done
mv "$tmp"/* "$out/"
