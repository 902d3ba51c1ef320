// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"strings"
	"testing"
)

// veleroKinds are the kinds of Velero whose names Grapnel has, too.
var veleroKinds = []string{"Backup", "Restore", "Schedule", "BackupStorageLocation", "DownloadRequest"}

// veleroDefinitions returns a CRD of Velero's API group for each of these kinds, with the names of Velero 1.18.
func veleroDefinitions() string {
	var definitions strings.Builder
	for _, kind := range veleroKinds {
		singular, shortNames := strings.ToLower(kind), ""
		if kind == "BackupStorageLocation" {
			shortNames = "bsl"
		}
		fmt.Fprintf(&definitions, `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.velero.io, annotations: {api-approved.kubernetes.io: "unapproved, for tests"}}
spec:
  group: velero.io
  names: {kind: %[2]s, listKind: %[2]sList, plural: %[1]ss, singular: %[1]s, shortNames: [%[3]s]}
  scope: Namespaced
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, singular, kind, shortNames)
	}
	return definitions.String()
}

// TestCommandsNameTheirGroup looks for kinds that kubectl could take for Velero's.
func TestCommandsNameTheirGroup(t *testing.T) {
	t.Parallel()
	shared := map[string]bool{"bsl": true}
	for _, kind := range veleroKinds {
		shared[strings.ToLower(kind)], shared[strings.ToLower(kind)+"s"] = true, true
	}
	found := 0
	for path, text := range documents(t) {
		for _, command := range commandsOf(text, "kubectl") {
			args := words(command)
			if len(args) == 0 || args[0] == "grapnel" {
				continue
			}
			for i, arg := range args {
				if i > 0 && args[i-1] == "kustomization" { // arg is the name of one
					continue
				}
				for resource := range strings.SplitSeq(arg, ",") {
					resource, _, _ = strings.Cut(resource, "/")
					name, group, qualified := strings.Cut(resource, ".")
					if !shared[strings.ToLower(name)] {
						continue
					}
					found++
					if !qualified || group != "grapnel.dev" && group != "velero.io" {
						t.Errorf("%s: kubectl %s: %s may be Velero's", path, command, resource)
					}
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("found only %d such names", found)
	}
}
