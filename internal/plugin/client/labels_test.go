// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// annotated returns an object with annotations, given as key and value in turn.
func annotated(pairs ...string) string {
	var members []string
	for i := 0; i < len(pairs); i += 2 {
		key, _ := json.Marshal(pairs[i])
		value, _ := json.Marshal(pairs[i+1])
		members = append(members, fmt.Sprintf("%s:%s", key, value))
	}
	return `{"metadata":{"annotations":{` + strings.Join(members, ",") + `},"name":"web"},"spec":{"n":1.50}}`
}

func TestExtractAnnotations(t *testing.T) {
	t.Parallel()
	const (
		bare    = `{"metadata":{"name":"web"},"spec":{"n":1.50}}`
		key     = "grapnel.dev/backup-labels"
		labels  = `{"tier":"gold"}`
		another = `{"tier":"lead"}`
		odd     = `{"tier":"gold","x<":"y"}`
	)
	escaped := annotated(key, odd) // as the API server writes it
	plain := strings.Replace(escaped, `\u003c`, "<", 1)
	gold := map[string]string{"tier": "gold"}
	for name, tc := range map[string]struct {
		given, returned string
		object          string
		labels          map[string]string
	}{
		"none":                           {bare, bare, bare, nil},
		"the only annotation":            {bare, annotated(key, labels), bare, gold},
		"first of two":                   {annotated("a", "b"), annotated(key, labels, "a", "b"), annotated("a", "b"), gold},
		"last of two":                    {annotated("a", "b"), annotated("a", "b", key, labels), annotated("a", "b"), gold},
		"the only one where none was":    {annotated(), annotated(key, labels), annotated(), gold},
		"in the cluster, left alone":     {annotated(key, labels), annotated(key, labels), annotated(key, labels), nil},
		"in the cluster, in other words": {escaped, plain, plain, nil},
		"in the cluster, changed":        {annotated(key, another), annotated(key, labels), annotated(), gold},
		"in the cluster, taken away":     {annotated(key, labels), annotated(), annotated(), nil},
		"with the key in other letters":  {bare, strings.Replace(annotated(key, labels), "grapnel.dev/", `grapnel.dev\/`, 1), bare, gold},
		"two of them":                    {bare, annotated("more", "x", key, labels), strings.Replace(bare, "{", `{`, 1), gold},
		"white space in the value":       {bare, annotated(key, " { \"tier\" : \"gold\" } "), bare, gold},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object, taken, err := ExtractAnnotations([]byte(tc.given), []byte(tc.returned), "other", key, "more")
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(tc.object, string(object)); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			if diff := gocmp.Diff(tc.labels, ParseBackupLabels(cmp.Or(taken[key], "{}")).Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseBackupLabels(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range MaxBackupLabels + 1 {
		many[fmt.Sprint("k", i)] = "v"
	}
	tooMany, _ := json.Marshal(many)
	for name, tc := range map[string]struct{ value, want string }{
		"no JSON":                {"gold", "is not a JSON object of strings"},
		"a list":                 {"[]", "is not a JSON object of strings"},
		"a number":               {`{"tier":1}`, "is not a JSON object of strings"},
		"too many":               {string(tooMany), "33 labels for the Backup exceed the limit of 32"},
		"a bad key":              {`{"a b":"c"}`, `does not get the label "a b": its key is not a valid label key`},
		"an empty key":           {`{"":"c"}`, "its key is not a valid label key"},
		"a bad value":            {`{"a":"b c"}`, "its value is not a valid label value"},
		"a prefix of Grapnel":    {`{"grapnel.dev/phase":"x"}`, "the prefix grapnel.dev is reserved"},
		"a prefix of Velero":     {`{"velero.io/storage-location":"x"}`, "the prefix velero.io is reserved"},
		"a prefix of Kubernetes": {`{"app.kubernetes.io/name":"x"}`, "the prefix app.kubernetes.io is reserved"},
		"the short one":          {`{"k8s.io/name":"x"}`, "the prefix k8s.io is reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ParseBackupLabels(tc.value)
			if len(got.Labels) > 0 || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], tc.want) {
				t.Errorf("labels %v with warnings %q, want none and one that says %q", got.Labels, got.Warnings, tc.want)
			}
		})
	}
	t.Run("a good one beside a bad one", func(t *testing.T) {
		t.Parallel()
		got := ParseBackupLabels(`{"a b":"c","mygrapnel.dev/x":"y"}`)
		if len(got.Warnings) != 1 || got.Labels["mygrapnel.dev/x"] != "y" {
			t.Errorf("labels %v with warnings %q", got.Labels, got.Warnings)
		}
	})
}
