// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

// TestManagedFieldsPatch restores the field to its previous managers, in their remaining entries.
func TestManagedFieldsPatch(t *testing.T) {
	t.Parallel()
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1",
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	owner := func(manager string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1"}
	}
	ours := entry(quiesce.FieldOwner, `{"f:spec":{"f:replicas":{}}}`)
	for name, tc := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		owners  []metav1.ManagedFieldsEntry
		want    []string // parts of the patch; nil if no patch is expected
	}{
		"Grapnel is not among them": {entries: []metav1.ManagedFieldsEntry{entry("flux", `{}`)}, owners: []metav1.ManagedFieldsEntry{owner("flux")}},
		"Grapnel is the only one":   {entries: []metav1.ManagedFieldsEntry{ours}},
		"no manager before": {
			entries: []metav1.ManagedFieldsEntry{ours, entry("flux", `{"f:spec":{"f:template":{}}}`)},
			want:    []string{`"managedFields":[{`, `"fieldsV1":{"f:spec":{"f:template":{}}}`},
		},
		"it had other fields, too": {
			entries: []metav1.ManagedFieldsEntry{entry("flux", `{"f:spec":{"f:template":{"f:spec":{}}}}`), ours}, owners: []metav1.ManagedFieldsEntry{owner("flux")},
			want: []string{`"manager":"flux"`, `"fieldsV1":{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{}}}}`},
		},
		"others wrote it since": {
			entries: []metav1.ManagedFieldsEntry{entry(quiesce.FieldOwner, `{"f:metadata":{}}`), entry("kubectl", `{"f:spec":{}}`)},
			owners:  []metav1.ManagedFieldsEntry{owner("kubectl")}, want: []string{`"fieldsV1":{"f:spec":{}}`},
		},
		"it had no other fields": {
			entries: []metav1.ManagedFieldsEntry{ours}, owners: []metav1.ManagedFieldsEntry{owner("kubectl")},
			want: []string{`"manager":"kubectl"`, `"operation":"Apply"`, `"fieldsV1":{"f:spec":{"f:replicas":{}}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.entries}}
			patch, needed := quiesce.ManagedFieldsPatch(object, quiesce.Deployment, tc.owners)
			if needed != (len(tc.want) > 0) || strings.Contains(string(patch), quiesce.FieldOwner) {
				t.Fatalf("the patch is %s", patch)
			}
			for _, part := range tc.want {
				if !strings.Contains(string(patch), part) {
					t.Errorf("%s has no %s", patch, part)
				}
			}
		})
	}
}
