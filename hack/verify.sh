#!/usr/bin/env bash
# Copyright The Grapnel Authors.
# SPDX-License-Identifier: Apache-2.0

# Checks what a compiler does not: that generated files, formatting and lists of
# dependencies are current, that the linters pass, that the words are those of
# CONTRIBUTING.md, and that the manifests build. It regenerates in place: a file
# that changes was not current. In a tree with uncommitted changes, only further
# changes are failures.
set -euo pipefail
if [ $# -gt 0 ]; then
	echo "usage: $0" >&2
	exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# What is compiled here is what the tests build programs of.
export CGO_ENABLED=0

tools=$PWD/bin/tools
failed=()

# step NAME COMMAND... runs one check; the others run whatever its result.
step() {
	local name=$1
	shift
	echo "--- $name"
	if ! "$@"; then
		failed+=("$name")
	fi
}

tree() {
	git status --porcelain
	git diff | git hash-object --stdin
	git ls-files --others --exclude-standard -z | xargs -0 -r git hash-object
}

unchanged() {
	if [ "$(tree)" != "$before" ]; then
		echo "Regenerating changes the tree. Run make generate manifests reference and commit:"
		git --no-pager diff
		git status --short
		return 1
	fi
}

modules() {
	git ls-files '*go.mod' | xargs -n 1 dirname
}

tidy() {
	local dir ok=0
	while read -r dir; do
		if ! (cd "$dir" && go mod tidy -diff); then
			echo "$dir is not tidy"
			ok=1
		fi
	done < <(modules)
	return "$ok"
}

shared_versions() {
	hack/sync-modules.sh -check || { echo "Run hack/sync-modules.sh and commit."; return 1; }
}

# The linter checks only the operator's module.
formatted() {
	local list
	list=$(git ls-files '*.go' | xargs gofmt -s -l)
	[ -z "$list" ] || { echo "$list"; return 1; }
	"$tools/golangci-lint" fmt --diff
}

# Modules that only pin a program have no code of their own.
vet_nested() {
	local dir ok=0
	while read -r dir; do
		if [ "$dir" != . ] && [ -n "$(git ls-files "$dir/*.go")" ]; then
			(cd "$dir" && go vet ./...) || ok=1
		fi
	done < <(modules)
	return "$ok"
}

manifests_build() {
	local dir ok=0
	for dir in config/default config/overlays/* config/crd config/samples config/health/argocd test/e2e/config/*; do
		if [ -f "$dir/kustomization.yaml" ]; then
			"$tools/kustomize" build "$dir" >/dev/null || ok=1
		fi
	done
	return "$ok"
}

# Comments, strings and documents, but not names in code: see Words in CONTRIBUTING.md. A word
# begins after a space, a bracket or a quote, so that paths and http.NoBody pass.
words() {
	local word='(nobody|somebody|can not|folders?|mend(s|ed)?|anew|says whether|is (told|asked)|look(ed|s) at|goes on)\b'
	local code=(':!*_test.go' ':!hack' ':!test' ':!internal/testing')
	local found
	found=$(
		git grep -niE "//(.*[ (])?$word" -- '*.go' "${code[@]}"
		git grep -niE "^[^\"]*(\"[^\"]*\"[^\"]*)*\"([^\"]*[ (]$word|$word [^\"])" -- '*.go' "${code[@]}"
		git grep -niE "(^|[ (*_])$word" -- '*.md' 'config/*.yaml' charts ':!test'
	) || true
	[ -z "$found" ] || {
		echo "$found"
		echo "Write: its outcome is unknown, a user, cannot, directory, fix, again or recreate, reports"
		echo "whether, gets or receives, reads or checks, continues. See Words in CONTRIBUTING.md."
		return 1
	}
}

before=$(tree)
step generate make --no-print-directory generate
step manifests make --no-print-directory manifests
step reference make --no-print-directory reference
step unchanged unchanged
step format formatted
step tidy tidy
step "module versions" shared_versions
step lint "$tools/golangci-lint" run
step "lint the API" "$tools/golangci-lint" run --config .golangci-kal.yml ./api/...
step words words
step "vet nested modules" vet_nested
step "manifests build" manifests_build

if [ ${#failed[@]} -gt 0 ]; then
	echo "verify failed:"
	printf '  %s\n' "${failed[@]}"
	exit 1
fi
echo "verify: everything is current."
