// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/factory"
)

// cluster has the namespaces a, b, db-1, db-2, and one that is excluded from backups.
func cluster() client.Client {
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "private", Labels: map[string]string{"grapnel.dev/exclude-from-backup": "true"},
	}}}
	for _, name := range []string{"a", "b", "db-1", "db-2"} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return fake.NewClientBuilder().WithObjects(objects...).Build()
}

func TestTargetNamespaces(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		subject string
		want    []string
		err     string
	}{
		"all":                            {subject: `{"kind":"Backup"}`, want: []string{"a", "b", "db-1", "db-2"}},
		"some":                           {subject: `{"kind":"Backup","spec":{"includedNamespaces":["b","gone"]}}`, want: []string{"b"}},
		"a pattern":                      {subject: `{"kind":"Backup","spec":{"includedNamespaces":["db-*"],"excludedNamespaces":["db-2"]}}`, want: []string{"db-1"}},
		"all but some":                   {subject: `{"kind":"Backup","spec":{"excludedNamespaces":["a"]}}`, want: []string{"b", "db-1", "db-2"}},
		"excluded by label":              {subject: `{"kind":"Backup","spec":{"includedNamespaces":["private"]}}`},
		"none":                           {subject: `{"kind":"Backup","spec":{"includedNamespaces":[""]}}`},
		"a backup of Velero":             {subject: `{"kind":"Backup","apiVersion":"velero.io/v1","spec":{"includedNamespaces":["a"]}}`, want: []string{"a"}},
		"a Restore":                      {subject: `{"kind":"Restore","spec":{"includedNamespaces":["a"]}}`, want: []string{"a"}},
		"a Restore with a mapping":       {subject: `{"kind":"Restore","spec":{"includedNamespaces":["shop"],"namespaceMapping":{"shop":"b"}}}`, want: []string{"b"}},
		"a Restore into an excluded one": {subject: `{"kind":"Restore","spec":{"includedNamespaces":["a"],"namespaceMapping":{"a":"private"}}}`, want: []string{"private"}},
		"two into one":                   {subject: `{"kind":"Restore","spec":{"includedNamespaces":["shop","stall"],"namespaceMapping":{"shop":"b","stall":"b"}}}`, want: []string{"b"}},
		"mapped away":                    {subject: `{"kind":"Restore","spec":{"includedNamespaces":["a"],"namespaceMapping":{"a":"b"}}}`, want: []string{"b"}},
		"swapped":                        {subject: `{"kind":"Restore","spec":{"includedNamespaces":["a"],"namespaceMapping":{"a":"b","b":"a"}}}`, want: []string{"b"}},
		"mapped onto itself":             {subject: `{"kind":"Restore","spec":{"includedNamespaces":["a"],"namespaceMapping":{"a":"a"}}}`, want: []string{"a"}},
		"mapped, and not included":       {subject: `{"kind":"Restore","spec":{"includedNamespaces":["stall"],"namespaceMapping":{"shop":"b"}}}`},
		"a mapping of a Backup":          {subject: `{"kind":"Backup","spec":{"includedNamespaces":["shop"],"namespaceMapping":{"shop":"b"}}}`},
		"a Restore of everything": {
			subject: `{"kind":"Restore","status":{"backupNamespaces":["a","gone"]}}`, want: []string{"a"},
		},
		"a Restore of everything that names it": {
			subject: `{"kind":"Restore","spec":{"includedNamespaces":["*"]},"status":{"backupNamespaces":["a"]}}`, want: []string{"a"},
		},
		"a Restore of a namespace that is not in the backup": {
			subject: `{"kind":"Restore","spec":{"includedNamespaces":["b"]},"status":{"backupNamespaces":["a"]}}`,
		},
		"a Restore of everything, mapped": {
			subject: `{"kind":"Restore","spec":{"namespaceMapping":{"shop":"b"}},"status":{"backupNamespaces":["shop"]}}`, want: []string{"b"},
		},
		"a Restore of everything, mapped away": {
			subject: `{"kind":"Restore","spec":{"namespaceMapping":{"a":"b"}},"status":{"backupNamespaces":["a","db-1"]}}`, want: []string{"b", "db-1"},
		},
		"a Restore of a backup without namespaces": {
			subject: `{"kind":"Restore","status":{"backupNamespaces":[""]}}`,
		},
		"a Restore of a backup with a pattern": {
			subject: `{"kind":"Restore","spec":{"excludedNamespaces":["db-2"]},"status":{"backupNamespaces":["db-*","b"]}}`, want: []string{"b", "db-1"},
		},
		"a Restore of a backup with exceptions": {
			subject: `{"kind":"Restore","status":{"backupNamespaces":["*"],"backupExcludedNamespaces":["db-*","private"]}}`, want: []string{"a", "b"},
		},
		"a Restore that an earlier release started": {
			subject: `{"kind":"Restore"}`, want: []string{"a", "b", "db-1", "db-2", "private"},
		},
		"a Backup with backupNamespaces": {
			subject: `{"kind":"Backup","status":{"backupNamespaces":["a"]}}`, want: []string{"a", "b", "db-1", "db-2"},
		},
		"nothing":                  {subject: ``, err: "which namespaces"},
		"another kind":             {subject: `{"kind":"Secret"}`, err: "which namespaces"},
		"invalid names":            {subject: `{"kind":"Backup","spec":{"includedNamespaces":["A B"]}}`, err: "which namespaces"},
		"everything, and one name": {subject: `{"kind":"Backup","spec":{"includedNamespaces":["*","a"]}}`, err: "which namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := factory.TargetNamespaces(t.Context(), cluster(), executor.Call{Subject: []byte(tc.subject)})
			if (err == nil) != (tc.err == "") || (err != nil && !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error %v, want one with %q", err, tc.err)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
