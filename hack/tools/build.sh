#!/usr/bin/env bash
# Copyright The Grapnel Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds one tool into a directory:
#
#   build.sh DIR NAME
#
# NAME is a directory beside this script: a module with one `tool` line in its go.mod,
# or with its own program. Each tool has its own module, so that their
# requirements do not have to resolve together.
set -euo pipefail

if [ $# -ne 2 ]; then
	echo "usage: $0 DIR NAME" >&2
	exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
name=$2
cd "$(dirname "${BASH_SOURCE[0]}")/$name"

package=$(go list -f '{{.ImportPath}}' tool 2>/dev/null)
if [ -z "$package" ]; then
	package=.
fi
tmp=$(mktemp -d "$out/.build.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
echo "building $name"
# Without -trimpath: packages are compiled once for all that is built with the same flags.
CGO_ENABLED=0 go build -mod=readonly -buildvcs=false -ldflags "-s -w" -o "$tmp/$name" "$package"
mv "$tmp/$name" "$out/$name"
