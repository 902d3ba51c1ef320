// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/restore"
)

const stampAnnotation = "grapnel.dev/restored"

// TestRestoreObjects_ForeignStamp restores over objects with an annotation that names this
// restore, which every client with write access can set.
func TestRestoreObjects_ForeignStamp(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, uid = "stamp-foreign", "uid-of-stamps"
	c.namespace(ns)
	// Stamps of other objects, restores and operators prove nothing either.
	other := configMap(t, ns, "other", "x")
	stampOf := func(req restore.Request) string {
		req.Archive = spool(t, []*unstructured.Unstructured{other})
		wantCounts(t, c.run(req), map[restore.Outcome]int{restore.Created: 1})
		stamp := c.get(other).GetAnnotations()[stampAnnotation]
		c.delete(other)
		return stamp
	}
	ofOther := stampOf(restore.Request{RestoreUID: uid})
	for name, tc := range map[string]struct {
		stamp string
		// policy and want are what happens to an object that exists and differs.
		policy restore.ExistingPolicy
		want   restore.Outcome
		value  string
		// unclaimed reports that the annotation does not name this restore.
		unclaimed bool
	}{
		"an unknown word":             {stamp: "boom " + uid, want: restore.Skipped, value: "now"},
		"an empty word":               {stamp: " " + uid, want: restore.Skipped, value: "now"},
		"a word that is no write":     {stamp: "failed " + uid, want: restore.Skipped, value: "now"},
		"a known word without proof":  {stamp: "created " + uid, want: restore.Skipped, value: "now"},
		"a proof that is no base64":   {stamp: "created " + uid + " *", want: restore.Skipped, value: "now"},
		"the stamp of another object": {stamp: ofOther, want: restore.Skipped, value: "now"},
		"words without end":           {stamp: "created " + uid + " a b c", want: restore.Skipped, value: "now"},
		"no words":                    {stamp: " ", want: restore.Skipped, value: "now", unclaimed: true},
		"another restore":             {stamp: "created another", want: restore.Skipped, value: "now", unclaimed: true},
		"policy update": {
			stamp: "updated " + uid, policy: restore.ExistingUpdate, want: restore.Updated, value: "then",
		},
		"policy recreate": {
			stamp: "recreated " + uid, policy: restore.ExistingRecreate, want: restore.Recreated, value: "then",
		},
	} {
		t.Run(name, func(t *testing.T) {
			claimed := configMap(t, ns, "claimed", "now")
			claimed.SetAnnotations(map[string]string{stampAnnotation: tc.stamp})
			c.create(claimed)
			t.Cleanup(func() { c.delete(claimed) })
			request := restore.Request{
				Archive:    spool(t, []*unstructured.Unstructured{configMap(t, ns, "claimed", "then")}),
				RestoreUID: uid, Policy: tc.policy,
			}
			result := c.run(request)
			wantCounts(t, result, map[restore.Outcome]int{tc.want: 1})
			var want []string
			if tc.want == restore.Skipped {
				want = append(want, "warning "+ns+`: configmaps "`+ns+`/claimed": it exists and differs`)
			}
			if !tc.unclaimed {
				want = append(want, "warning "+ns+`: configmaps "`+ns+`/claimed": its annotation grapnel.dev/restored names this restore, which did not set it`)
			}
			wantMessages(t, result, want...)
			if got := listOf(result)["v1/ConfigMap"]; len(got) != 1 || got[0] != ns+"/claimed("+string(tc.want)+")" {
				t.Errorf("the list of resources has %q", got)
			}
			if got := data(c.get(claimed))["key"]; got != tc.value {
				t.Errorf("the object has the value %q, want %q", got, tc.value)
			}
		})
	}
}

// TestRestoreObjects_StampOfAnotherKey resumes a restore after its key was replaced:
// objects that it wrote are treated like any existing object, and nothing is lost.
func TestRestoreObjects_StampOfAnotherKey(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "stamp-key"
	c.namespace(ns)
	request := restore.Request{Archive: spool(t, []*unstructured.Unstructured{configMap(t, ns, "c", "then")}), RestoreUID: "u"}
	wantCounts(t, c.run(request), map[restore.Outcome]int{restore.Created: 1})
	wantCounts(t, c.run(request), map[restore.Outcome]int{restore.Created: 1})
	request.StampKey = []byte("another key")
	result := c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Unchanged: 1})
	wantMessages(t, result, "warning "+ns+": |names this restore, which did not set it")
}

// TestRestoreObjects_ForeignStampOnNamespace does the same for a namespace.
func TestRestoreObjects_ForeignStampOnNamespace(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "stamp-namespace"
	namespace := obj(t, "v1", "Namespace", "", ns, "")
	namespace.SetAnnotations(map[string]string{stampAnnotation: "boom u"})
	c.create(namespace)
	result := c.run(restore.Request{Archive: spool(t, []*unstructured.Unstructured{configMap(t, ns, "c", "x")}), RestoreUID: "u"})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 1})
	wantMessages(t, result, `warning cluster: namespaces "stamp-namespace": |names this restore, which did not set it`)
}
