// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// before are objects as they were; the mapping moves data to data-2.
const before = `
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"data","uid":"n1","labels":{"kubernetes.io/metadata.name":"data"}}}
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"web","uid":"n2","labels":{"kubernetes.io/metadata.name":"web"}}}
{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"data","name":"key","uid":"s1"},"data":{"a":"eA=="}}
{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":"web","name":"rs","uid":"r1"},"spec":{"replicas":2}}
{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"web","name":"pod","uid":"p1","generateName":"rs-",
	"ownerReferences":[{"kind":"ReplicaSet","name":"rs","uid":"r1"}]},"spec":{"containers":[{"name":"c","image":"i:1"}]},"status":{"phase":"Pending"}}
{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"web","name":"svc","uid":"v1","annotations":{
	"kubectl.kubernetes.io/last-applied-configuration":"{}"}},"spec":{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ports":[{"port":80,"nodePort":30001}]}}
{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"namespace":"web","name":"svc-aaaaa","labels":{"kubernetes.io/service-name":"svc"}}}
`

// after are the same objects as a restore makes them.
const after = `
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"data-2","uid":"n3","labels":{"kubernetes.io/metadata.name":"data-2","grapnel.dev/backup-name":"b","grapnel.dev/restore-name":"r"}}}
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"web","uid":"n4","labels":{"kubernetes.io/metadata.name":"web"}}}
{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"data-2","name":"key","uid":"s2",
	"labels":{"grapnel.dev/backup-name":"b","grapnel.dev/restore-name":"r"},"annotations":{"grapnel.dev/restored":"created u m"}},"data":{"a":"eA=="}}
{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":"web","name":"rs","uid":"r2"},"spec":{"replicas":2}}
{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"web","name":"pod","uid":"p2",
	"ownerReferences":[{"kind":"ReplicaSet","name":"rs","uid":"r2"}]},"spec":{"containers":[{"name":"c","image":"i:1"}]},"status":{"phase":"Running"}}
{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"web","name":"svc","uid":"v2","annotations":{
	"kubectl.kubernetes.io/last-applied-configuration":"{}"}},"spec":{"clusterIP":"10.0.0.2","clusterIPs":["10.0.0.2"],"ports":[{"port":80,"nodePort":30002}]}}
{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"namespace":"web","name":"svc-bbbbb","labels":{"kubernetes.io/service-name":"svc"}}}
`

// taken returns the snapshot of objects, read as the demo reads it.
func taken(t *testing.T, objects string) snapshot {
	t.Helper()
	s, err := readSnapshot(listFile(t, objects), map[string]bool{"data": true, "data-2": true, "web": true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func listFile(t *testing.T, objects string) string {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(objects))
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	for decoder.More() {
		var object json.RawMessage
		if err := decoder.Decode(&object); err != nil {
			t.Fatal(err)
		}
		list.Items = append(list.Items, object)
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "list.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func compared(t *testing.T, before, after string) comparison {
	t.Helper()
	return compareAll(&restored{
		before: taken(t, before), after: taken(t, after),
		mapping: map[string]string{"data": "data-2"}, backup: "b", restore: "r", uid: "u",
	})
}

func TestWhatIsMeantToDiffer(t *testing.T) {
	c := compared(t, before, after)
	if len(c.unexpected)+len(c.missing)+len(c.additional)+len(c.same) > 0 || c.compared != 7 {
		t.Errorf("compared %d objects: unexpected %v, missing %v, additional %v, same %v", c.compared, c.unexpected, c.missing, c.additional, c.same)
	}
	var got [][]string
	for _, row := range expectedRows(c) {
		got = append(got, row[:2])
	}
	want := [][]string{
		{"FIELD", "OBJECTS"},
		{"metadata.uid", "6"},
		{"metadata.generateName", "1"},
		{"metadata.ownerReferences", "1"},
		{"metadata.namespace", "1"},
		{"metadata.name", "1"}, // The namespace.
		{"metadata.name", "1"}, // The EndpointSlice.
		{"metadata.labels.grapnel.dev/backup-name", "2"},
		{"metadata.labels.grapnel.dev/restore-name", "2"},
		{"metadata.annotations.grapnel.dev/restored", "1"},
		{"spec.clusterIP", "1"},
		{"spec.ports", "1"},
		{"status", "1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestWhatIsNotMeantToDiffer(t *testing.T) {
	for name, tc := range map[string]struct {
		old, new string // a part of after, and what stands there instead
		want     string
	}{
		"a value":                     {`"replicas":2`, `"replicas":3`, "ReplicaSet web/rs spec.replicas"},
		"a value in a list":           {`"image":"i:1"`, `"image":"i:2"`, "Pod web/pod spec.containers[0].image"},
		"a longer list":               {`"image":"i:1"}]`, `"image":"i:1"},{"name":"d"}]`, "Pod web/pod spec.containers"},
		"a field that is gone":        {`,"data":{"a":"eA=="}`, ``, "Secret data/key data.a"},
		"a field that is new":         {`"data":{"a":"eA=="}`, `"data":{"a":"eA=="},"immutable":true`, "Secret data/key immutable"},
		"an empty field that is new":  {`"data":{"a":"eA=="}`, `"data":{"a":"eA=="},"x":{}`, "Secret data/key x"},
		"an empty list that is new":   {`"data":{"a":"eA=="}`, `"data":{"a":"eA=="},"x":[]`, "Secret data/key x"},
		"another label":               {`"labels":{"grapnel.dev/backup-name":"b","grapnel.dev/restore-name":"r"},"annotations"`, `"labels":{"a":"b"},"annotations"`, "Secret data/key metadata.labels.a"},
		"the label of another backup": {`"labels":{"grapnel.dev/backup-name":"b","grapnel.dev/restore-name":"r"},"annotations"`, `"labels":{"grapnel.dev/backup-name":"c"},"annotations"`, "Secret data/key metadata.labels.grapnel.dev/backup-name"},
		"the stamp of another run":    {`"created u m"`, `"created x m"`, "Secret data/key metadata.annotations.grapnel.dev/restored"},
		"no UID":                      {`,"uid":"s2"`, ``, "Secret data/key metadata.uid"},
		"no owner":                    {`"ownerReferences":[{"kind":"ReplicaSet","name":"rs","uid":"r2"}]`, `"x":1`, "Pod web/pod metadata.ownerReferences,Pod web/pod metadata.x"},
		"an owner that is not there":  {`"name":"rs","uid":"r2"}]`, `"name":"rs","uid":"gone"}]`, "Pod web/pod metadata.ownerReferences[0].uid"},
		"an owner that is another":    {`"name":"rs","uid":"r2"}]`, `"name":"rs","uid":"s2"}]`, "Pod web/pod metadata.ownerReferences[0].uid"},
		"an owner of another name":    {`"name":"rs","uid":"r2"}]`, `"name":"xx","uid":"r2"}]`, "Pod web/pod metadata.ownerReferences[0].name"},
		"no address":                  {`"clusterIP":"10.0.0.2",`, ``, "Service web/svc spec.clusterIP"},
		"another port":                {`"port":80`, `"port":81`, "Service web/svc spec.ports[0].port"},
		"a name label that is wrong":  {`"kubernetes.io/metadata.name":"data-2"`, `"kubernetes.io/metadata.name":"x"`, "Namespace data metadata.labels.kubernetes.io/metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(after, tc.old) {
				t.Fatalf("there is no %s", tc.old)
			}
			c := compared(t, before, strings.Replace(after, tc.old, tc.new, 1))
			var got []string
			for _, d := range c.unexpected {
				got = append(got, d.object.String()+" "+d.field)
			}
			if strings.Join(got, ",") != tc.want {
				t.Errorf("unexpected: %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNodePortsThatSomebodyAskedFor(t *testing.T) {
	asked := func(text string) string {
		return strings.ReplaceAll(text, `last-applied-configuration":"{}"`, `last-applied-configuration":"{\"nodePort\":30001}"`)
	}
	c := compared(t, asked(before), asked(after))
	if len(c.unexpected) != 1 || c.unexpected[0].field != "spec.ports[0].nodePort" {
		t.Errorf("unexpected: %v, want the node port", c.unexpected)
	}
}

func TestMissingAndAdditional(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(after), "\n")
	extra := `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"data","name":"key"}}`
	c := compared(t, before, strings.Join(append(slices.Clone(lines[1:]), extra), "\n"))
	var missing, additional []string
	for _, id := range c.missing {
		missing = append(missing, id.String())
	}
	for _, id := range c.additional {
		additional = append(additional, id.String())
	}
	if !slices.Equal(missing, []string{"Namespace data"}) || !slices.Equal(additional, []string{"Secret data/key"}) {
		t.Errorf("missing %q, additional %q", missing, additional)
	}
}

func TestSnapshotKeepsTheApplication(t *testing.T) {
	file := listFile(t, `
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"web"}}
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"other"}}
{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"web","name":"a"}}
{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"other","name":"web"}}
{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"databases.shop.example"}}
{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"backups.grapnel.dev"}}`)
	s, err := readSnapshot(file, map[string]bool{"web": true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, id := range sorted(s) {
		got = append(got, id.String())
	}
	if want := []string{"CustomResourceDefinition databases.shop.example", "Namespace web", "Secret web/a"}; !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
}

func TestSnapshotRefuses(t *testing.T) {
	twice := `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"web","name":"a"}}`
	if _, err := readSnapshot(listFile(t, twice+twice), map[string]bool{"web": true}); err == nil {
		t.Error("a duplicate object is accepted")
	}
	file := filepath.Join(t.TempDir(), "x")
	if _, err := readSnapshot(file, nil); err == nil {
		t.Error("a missing file is accepted")
	}
	if err := os.WriteFile(file, []byte(`{"items":[`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readSnapshot(file, nil); err == nil {
		t.Error("a truncated file is accepted")
	}
}
