// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"},"spec":{"n":1.50}}`

func TestValidateReturnedObject(t *testing.T) {
	t.Parallel()
	whole := Identity{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web"}
	short := Identity{Namespace: "shop", Name: "web"}
	for name, tc := range map[string]struct {
		returned string
		want     Identity
		err      string
		compact  string
	}{
		"the same":                {returned: pod, want: whole, compact: pod},
		"with white space":        {returned: strings.ReplaceAll(pod, ",", " ,\n ") + "\n", want: whole, compact: pod},
		"nothing":                 {returned: "", want: whole, err: "not a JSON object"},
		"no JSON":                 {returned: "{pod", want: whole, err: "not a JSON object"},
		"text":                    {returned: "sorry", want: whole, err: "not a JSON object"},
		"a list":                  {returned: "[" + pod + "]", want: whole, err: "not a JSON object"},
		"two objects":             {returned: pod + pod, want: whole, err: "not a JSON object"},
		"cut off":                 {returned: pod[:40], want: whole, err: "not a JSON object"},
		"a name twice":            {returned: strings.Replace(pod, `"kind"`, `"kind":"X","kind"`, 1), want: whole, err: "not a Kubernetes object"},
		"no name":                 {returned: `{"apiVersion":"v1","kind":"Pod"}`, want: whole, err: `another object: "" instead of "shop/web"`},
		"a name that is a number": {returned: strings.Replace(pod, `"web"`, `7`, 1), want: whole, err: "not a Kubernetes object"},
		"another name":            {returned: strings.Replace(pod, `"web"`, `"db"`, 1), want: whole, err: `another object: "shop/db" instead of "shop/web"`},
		"another namespace":       {returned: strings.Replace(pod, `"shop"`, `"office"`, 1), want: short, err: `another object: "office/web" instead of "shop/web"`},
		"another apiVersion":      {returned: strings.Replace(pod, `"v1"`, `"v2"`, 1), want: whole, err: `changed the apiVersion of the object to "v2" from "v1"`},
		"another kind":            {returned: strings.Replace(pod, `"Pod"`, `"Job"`, 1), want: whole, err: `changed the kind of the object to "Job" from "Pod"`},
		"a kind that may change":  {returned: strings.Replace(pod, `"Pod"`, `"Job"`, 1), want: short, compact: strings.Replace(pod, `"Pod"`, `"Job"`, 1)},
		"too large": {
			returned: strings.Replace(pod, `1.50`, `"`+strings.Repeat("x", 10<<20)+`"`, 1), want: whole,
			err: fmt.Sprintf("at most %d are allowed", item.MaxBytes),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ValidateReturnedObject([]byte(tc.returned), tc.want)
			wantError(t, err, tc.err)
			if err == nil && string(got) != tc.compact {
				t.Errorf("object is %s, want %s", got, tc.compact)
			}
		})
	}
}

func TestValidateItemRefs(t *testing.T) {
	t.Parallel()
	good := item.Ref{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"}
	with := func(edit func(*item.Ref)) []item.Ref {
		bad := good
		edit(&bad)
		return []item.Ref{good, bad}
	}
	for name, tc := range map[string]struct {
		refs []item.Ref
		err  string
	}{
		"none":                 {nil, ""},
		"good ones":            {[]item.Ref{good, {Resource: "persistentvolumes", Name: "pv:1"}}, ""},
		"no name":              {with(func(r *item.Ref) { r.Name = "" }), "named additional item 2"},
		"no resource":          {with(func(r *item.Ref) { r.Resource = "" }), "it has no resource"},
		"a way out of the URL": {with(func(r *item.Ref) { r.Name = "../../secrets/x" }), "../../secrets/x"},
		"dots":                 {with(func(r *item.Ref) { r.Namespace = ".." }), "cannot exist"},
		"slash in the group":   {with(func(r *item.Ref) { r.Group = "apps/v1" }), "cannot exist"},
		"a very long name":     {with(func(r *item.Ref) { r.Name = strings.Repeat("x", 254) }), "longer than a name can be"},
		"as many as may be":    {make10k(good, item.MaxRefs), ""},
		"too many":             {make10k(good, item.MaxRefs+1), "named 10001 additional items for one object; at most 10000 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantError(t, ValidateItemRefs("additional item", tc.refs), tc.err)
		})
	}
}

func make10k(ref item.Ref, n int) []item.Ref {
	refs := make([]item.Ref, n)
	for i := range refs {
		refs[i] = ref
	}
	return refs
}

func TestResolveResource(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ref  item.Ref
		want string
	}{
		"the plural":        {item.Ref{Resource: "pods"}, "pods"},
		"the singular":      {item.Ref{Resource: "pod"}, "pods"},
		"the kind":          {item.Ref{Resource: "Pod"}, "pods"},
		"without its group": {item.Ref{Resource: "deployments"}, "deployments.apps"},
		"with its group":    {item.Ref{Group: "apps", Resource: "deployments"}, "deployments.apps"},
		"unknown resource":  {item.Ref{Group: "example.org", Resource: "widgets"}, "widgets.example.org"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ResolveResource(tc.ref, names); got != schema.ParseGroupResource(tc.want) {
				t.Errorf("resource is %s, want %s", got, tc.want)
			}
		})
	}
}
