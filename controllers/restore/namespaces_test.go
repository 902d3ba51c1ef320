// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
)

// compressed returns a file as Velero stores it.
func compressed(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestReadBackupNamespaces checks that the step find reads the namespaces from the stored
// files.
func TestReadBackupNamespaces(t *testing.T) {
	for name, tc := range map[string]struct {
		spec, list string // list is "" if there is none
		want, not  []string
	}{
		"what is in the archive": {
			list: compressed(t, `{"v1/Pod":["shop/web","db/pg"],"v1/Namespace":["empty","shop"],"v1/PersistentVolume":["pv-1"],"apps/v1/Deployment":[]}`),
			want: []string{"db", "shop"}, // Namespace objects are archived for their labels, too
		},
		"less than it should include": {
			spec: `{"includedNamespaces":["*"]}`, list: compressed(t, `{"v1/Pod":["shop/web"]}`), want: []string{"shop"},
		},
		"no object in any":              {list: compressed(t, `{"v1/PersistentVolume":["pv-1"]}`), want: []string{""}},
		"nothing":                       {list: compressed(t, `{}`), want: []string{""}},
		"invalid names":                 {list: compressed(t, `{"v1/Pod":["shop/web","{a/b","*/c","/d"]}`), want: []string{"shop"}},
		"no list":                       {spec: `{"includedNamespaces":["shop","db-*"]}`, want: []string{"shop", "db-*"}},
		"no list, and all":              {want: []string{"*"}},
		"no list, and invalid patterns": {spec: `{"includedNamespaces":["shop","[a"]}`, want: []string{"*"}},
		"a truncated list":              {spec: `{"includedNamespaces":["shop"]}`, list: compressed(t, `{"v1/Pod":["db/a"`), want: []string{"shop"}},
		"a file that is no list":        {spec: `{"includedNamespaces":["shop"]}`, list: "text", want: []string{"shop"}},
		"more than the status can hold": {
			spec: `{"includedNamespaces":["n*"]}`, want: []string{"n*"},
			list: compressed(t, `{"v1/Pod":["`+strings.Join(numbered(maxNamespaces+1), `/p","`)+`/p"]}`),
		},
		"a name without an end": {
			spec: `{"includedNamespaces":["shop"]}`, want: []string{"shop"}, list: compressed(t, `{"v1/Pod":["db/`+strings.Repeat("a", 2<<20)+`"]}`),
		},
		"no list, and some excluded": {
			spec: `{"excludedNamespaces":["db","kube-*"]}`, want: []string{"*"}, not: []string{"db", "kube-*"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := memory.New()
			put := func(key, content string) {
				if _, err := objects.Put(t.Context(), key, strings.NewReader(content), objectstore.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			spec := tc.spec
			if spec == "" {
				spec = "{}"
			}
			put("backups/b/velero-backup.json", `{"metadata":{"uid":"v-1"},"spec":`+spec+`}`)
			if tc.list != "" {
				put("backups/b/b-resource-list.json.gz", tc.list)
			}
			r := &Reconciler{Runner: &restore.Runner{}}
			got, err := r.readManifest(t.Context(), storage.New(objects, ""), storedBackup{name: "b"}, restore.Origin{})
			if has := got.namespaces; err != nil || !slices.Equal(has.included, tc.want) || !slices.Equal(has.excluded, tc.not) {
				t.Errorf("found %d namespaces, %.3q without %q, %v; want %q without %q", len(has.included), has.included, has.excluded, err, tc.want, tc.not)
			}
		})
	}
}

func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	return names
}
