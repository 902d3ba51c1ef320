// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hook_test

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/sdk/hook"
)

func TestValidateOutputs(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range hook.MaxOutputs + 1 {
		many[strconv.Itoa(i)] = ""
	}
	for name, tc := range map[string]struct {
		outputs map[string]string
		wantErr string
	}{
		"none":             {},
		"some":             {outputs: map[string]string{"a.B-c_9": "x", "empty": ""}},
		"largest outputs":  {outputs: map[string]string{"a": strings.Repeat("x", hook.MaxOutputValueBytes), "b": strings.Repeat("x", hook.MaxOutputValueBytes-2)}},
		"too large":        {outputs: map[string]string{"a": strings.Repeat("x", hook.MaxOutputValueBytes), "b": strings.Repeat("x", hook.MaxOutputValueBytes-1)}, wantErr: "8193 bytes of outputs"},
		"value too large":  {outputs: map[string]string{"a": strings.Repeat("x", hook.MaxOutputValueBytes+1)}, wantErr: `the output "a" has 4097 bytes, at most 4096`},
		"too many":         {outputs: many, wantErr: "33 outputs, at most 32"},
		"longest key":      {outputs: map[string]string{strings.Repeat("k", 63): "x"}},
		"key too long":     {outputs: map[string]string{strings.Repeat("k", 64): "x"}, wantErr: "64 bytes, at most 63"},
		"slash in the key": {outputs: map[string]string{"a/b": "x"}, wantErr: `"a/b" is not allowed`},
		"empty key":        {outputs: map[string]string{"": "x"}, wantErr: "is not allowed"},
		"not UTF-8":        {outputs: map[string]string{"a": "\xff"}, wantErr: "not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := hook.ValidateOutputs(tc.outputs)
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("error is %v, want %q", err, tc.wantErr)
			}
		})
	}
}

func TestParseBackup(t *testing.T) {
	t.Parallel()
	b, err := hook.ParseBackup([]byte(`{"metadata":{"name":"n","namespace":"ns","uid":"u","labels":{"l":"1"},"managedFields":[{}]},
		"spec":{"includedNamespaces":["a"],"storageLocation":"s","new":{"field":1}},"status":{"phase":"Completed"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if b.Name != "n" || b.Namespace != "ns" || b.UID != "u" || b.Labels["l"] != "1" || b.IncludedNamespaces[0] != "a" ||
		b.StorageLocation != "s" || b.Phase != "Completed" || len(b.Raw) == 0 {
		t.Errorf("parsed as %+v", b)
	}
	for _, raw := range []string{"", "no", `{"metadata":{"name":5}}`} {
		if _, err := hook.ParseBackup([]byte(raw)); err == nil {
			t.Errorf("%q was parsed", raw)
		}
	}
}

func TestParseRestore(t *testing.T) {
	t.Parallel()
	const raw = `{"metadata":{"name":"n","namespace":"ns","uid":"u","annotations":{"a":"1"},"managedFields":[{}]},
		"spec":{"backupName":"b","includedNamespaces":["a"],"excludedNamespaces":["x"],"namespaceMapping":{"a":"a2"},"new":{"field":1}},
		"status":{"phase":"PartiallyFailed"}}`
	got, err := hook.ParseRestore([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	want := hook.Restore{
		Name: "n", Namespace: "ns", UID: "u", Annotations: map[string]string{"a": "1"}, Phase: "PartiallyFailed", BackupName: "b",
		IncludedNamespaces: []string{"a"}, ExcludedNamespaces: []string{"x"}, NamespaceMapping: map[string]string{"a": "a2"},
		Raw: []byte(raw),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("parsed as %+v, want %+v", got, want)
	}
	for _, raw := range []string{"", "no", `{"spec":{"namespaceMapping":["a"]}}`} {
		if _, err := hook.ParseRestore([]byte(raw)); err == nil || !strings.Contains(err.Error(), "parsing the Restore object") {
			t.Errorf("%q: error is %v", raw, err)
		}
	}
}
