// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The objects of the application before the backup and after the restore.
const (
	objectsBefore = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop-data","uid":"1","labels":{"kubernetes.io/metadata.name":"shop-data"}}},
{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop-data","name":"a","uid":"2","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"a","uid":"3"}]}},
{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"shop-data","name":"s","uid":"4"},"spec":{"clusterIP":"10.0.0.1","ports":[{"port":80,"nodePort":30001}]}},
{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"other","name":"s"}}`
	objectsAfter = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop-data-restored","uid":"5","labels":{"kubernetes.io/metadata.name":"shop-data-restored"}}},
{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop-data-restored","name":"a","uid":"6","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"a","uid":"7"}],
	"labels":{"grapnel.dev/backup-name":"shop","grapnel.dev/restore-name":"shop-again"},"annotations":{"grapnel.dev/restored":"created u 1"}}},
{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"shop-data-restored","name":"s","uid":"8"},"spec":{"clusterIP":"10.0.0.2","ports":[{"port":80,"nodePort":30002}]}}`
)

func TestCompareObjects(t *testing.T) {
	for name, test := range map[string]struct {
		before, after string // what to replace in objectsAfter
		want          string
	}{
		"only intended differences":       {},
		"a port":                          {`"port":80`, `"port":81`, "Service shop-data-restored/s: Service replace /spec/ports/0/port 81"},
		"another owner":                   {`"name":"a","uid":"7"`, `"name":"b","uid":"7"`, "/metadata/ownerReferences/0/name b"},
		"the label of another restore":    {"shop-again", "other", "add /metadata/labels/grapnel.dev~1restore-name other"},
		"the stamp of another restore":    {"created u 1", "created v 1", "add /metadata/annotations/grapnel.dev~1restored created v 1"},
		"an additional annotation":        {`"annotations":{`, `"annotations":{"a":"b",`, "add /metadata/annotations/a b"},
		"a missing and an unknown object": {`"name":"s"`, `"name":"t"`, "Service shop-data-restored/s is missing\nService shop-data-restored/t was not there before"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &demo{dir: t.TempDir()}
			for file, objects := range map[string]string{"before.json": objectsBefore, "after.json": strings.Replace(objectsAfter, test.before, test.after, 1)} {
				if err := os.WriteFile(filepath.Join(d.dir, file), []byte(`{"items":[`+objects+`]}`), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := d.compareObjects("u")
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasSuffix(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
