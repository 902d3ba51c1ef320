// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDeletionRunAdmission(t *testing.T) {
	checkAdmission(t, "DeletionRun", map[string]admission{
		"the least":        {body: `{spec: {backupName: b}}`},
		"everything":       {body: `{spec: {backupName: b, backupUID: u, storageLocation: l, destroyForeign: true, cause: Expired, ttl: 1h}}`},
		"no spec":          {rejected: "spec: Required value"},
		"no backup":        {body: `{spec: {}}`, rejected: "spec.backupName: Required value"},
		"no name":          {body: `{spec: {backupName: ""}}`, rejected: "spec.backupName"},
		"too long a name":  {body: `{spec: {backupName: ` + strings.Repeat("b", 201) + `}}`, rejected: "spec.backupName: Too long"},
		"an unknown cause": {body: `{spec: {backupName: b, cause: Anger}}`, rejected: `Unsupported value: "Anger"`},
		"no time at all":   {body: `{spec: {backupName: b, ttl: 0s}}`, rejected: "must be longer than zero"},
		"negative time":    {body: `{spec: {backupName: b, ttl: -1h}}`, rejected: "spec.ttl"},
	})
}

func TestDeletionRunChanges(t *testing.T) {
	body := `{spec: {backupName: b, backupUID: u, storageLocation: l, destroyForeign: true, ttl: 1h}}`
	table := map[string]change{
		"keep it longer": {body: body, patch: `{"spec":{"ttl":"9h"}}`},
	}
	for field, value := range map[string]string{
		"backupName": `"c"`, "backupUID": `"v"`, "storageLocation": `"m"`, "destroyForeign": `false`, "cause": `"Expired"`,
	} {
		table["change "+field] = change{body: body, patch: fmt.Sprintf(`{"spec":{%q:%s}}`, field, value), rejected: "is immutable; create a new DeletionRun instead"}
	}
	for field, value := range map[string]string{"backupUID": `"v"`, "storageLocation": `"m"`, "destroyForeign": `true`} {
		table["add "+field] = change{body: `{spec: {backupName: b}}`, patch: fmt.Sprintf(`{"spec":{%q:%s}}`, field, value), rejected: "is immutable"}
		table["remove "+field] = change{body: body, patch: fmt.Sprintf(`{"spec":{%q:null}}`, field), rejected: "is immutable"}
	}
	checkChanges(t, "DeletionRun", func(*testing.T, *unstructured.Unstructured) {}, table)
}

func TestBackupTTLAdmission(t *testing.T) {
	checkAdmission(t, "Backup", map[string]admission{
		"a month":           {body: `{spec: {ttl: 720h}}`},
		"for ever":          {body: `{spec: {ttl: 0s}}`},
		"for ever in parts": {body: `{spec: {ttl: 0h0m}}`},
		"negative":          {body: `{spec: {ttl: "-720h"}}`, rejected: "spec.ttl"},
		"found and deleted": {
			body:     `{spec: {deletionPolicy: Delete, importedFrom: {storageLocation: l}}}`,
			rejected: "the data of an imported backup is not destroyed with its object; create a DeletionRun with destroyForeign instead",
		},
	})
}
