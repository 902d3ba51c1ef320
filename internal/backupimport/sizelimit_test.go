// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupimport_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupimport"
)

func TestAbridgeBackup(t *testing.T) {
	t.Parallel()
	names := func(n int) []v1alpha1.NamePattern {
		var all []v1alpha1.NamePattern
		for i := range n {
			all = append(all, v1alpha1.NamePattern(fmt.Sprintf("namespace-%04d", i)))
		}
		return all
	}
	pairs := func(n, size int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprintf("key-%03d", i)] = strings.Repeat("v", size)
		}
		return all
	}
	for name, tc := range map[string]struct {
		backup       v1alpha1.Backup
		wantAbridged string
		check        func(*v1alpha1.Backup) bool
	}{
		"a normal backup is unchanged": {
			backup: v1alpha1.Backup{
				ObjectMeta: metav1.ObjectMeta{Labels: pairs(3, 20), Annotations: pairs(3, 100)},
				Spec:       v1alpha1.BackupSpec{IncludedNamespaces: names(50)},
			},
			check: func(b *v1alpha1.Backup) bool { return len(b.Spec.IncludedNamespaces) == 50 && len(b.Labels) == 3 },
		},
		"the largest field is removed first": {
			backup: v1alpha1.Backup{Spec: v1alpha1.BackupSpec{
				IncludedNamespaces: names(2048), ExcludedNamespaces: names(20), IncludedResources: names(150),
			}},
			wantAbridged: "omitted, see the manifest: spec.includedNamespaces (34817 bytes)",
			check: func(b *v1alpha1.Backup) bool {
				return b.Spec.IncludedNamespaces == nil && len(b.Spec.ExcludedNamespaces) == 20 && len(b.Spec.IncludedResources) == 150
			},
		},
		"parameters": {
			backup:       v1alpha1.Backup{Spec: v1alpha1.BackupSpec{Parameters: map[string]v1alpha1.ParameterSet{"example.io/freeze": {"wait": v1alpha1.ParameterValue(strings.Repeat("v", 4000))}}}},
			wantAbridged: "omitted, see the manifest: spec.parameters (4033 bytes)",
			check:        func(b *v1alpha1.Backup) bool { return b.Spec.Parameters == nil },
		},
		"values that grow when they are encoded": {
			backup:       v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": strings.Repeat("<", 2000), "b": "kept"}}},
			wantAbridged: "omitted, see the manifest: 1 annotations",
			check:        func(b *v1alpha1.Backup) bool { return b.Annotations["b"] == "kept" },
		},
		"labels and annotations": {
			backup:       v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Labels: pairs(64, 60), Annotations: pairs(2, 2000)}},
			wantAbridged: "omitted, see the manifest: 35 labels, 1 annotations",
			check:        func(b *v1alpha1.Backup) bool { return b.Labels["key-000"] != "" && b.Labels["key-063"] == "" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := tc.backup.DeepCopy()
			b.Name = "nightly"
			b.Spec.StorageLocation, b.Spec.DeletionPolicy = strings.Repeat("l", 253), v1alpha1.DeletionPolicyRetain
			b.Spec.ImportedFrom = &v1alpha1.ImportSource{StorageLocation: strings.Repeat("l", 253), BackupUID: strings.Repeat("u", 64), BackupName: strings.Repeat("n", 253)}
			own := *b.Spec.ImportedFrom
			if err := backupimport.AbridgeBackup(b); err != nil {
				t.Fatal(err)
			}
			if got := b.Annotations[v1alpha1.AnnotationAbridged]; got != tc.wantAbridged {
				t.Errorf("the annotation is %q, want %q", got, tc.wantAbridged)
			}
			if diff := cmp.Diff(own, *b.Spec.ImportedFrom); diff != "" || b.Spec.DeletionPolicy != v1alpha1.DeletionPolicyRetain || !tc.check(b) {
				t.Errorf("the Backup is %+v", b)
			}
			data, err := json.Marshal([]any{b.Spec, b.Labels, b.Annotations})
			if err != nil || len(data) > 8<<10 {
				t.Errorf("the foreign content has %d bytes: %v", len(data), err)
			}
		})
	}
}
