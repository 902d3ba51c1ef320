// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// deleteNow deletes without grace.
var deleteNow = metav1.DeleteOptions{GracePeriodSeconds: new(int64)}

// wants is an action of a request that answers by the names of objects.
func wants(answers map[string]itemaction.Result) *plugged {
	return &plugged{name: "wants", of: []string{"configmaps"}, execute: func(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
		return answers[item.Archived.GetName()], nil
	}}
}

func additional(refs ...itemaction.RelatedItem) itemaction.Result {
	return itemaction.Result{RelatedItems: refs}
}

// TestRestoreRelatedItems, before the objects that need them, by the namespace
// of the backup. Cycles of objects end, and missing objects are a warning.
func TestRestoreRelatedItems(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, mapped = "plug-needs", "plug-needs-mapped"
	acts := wants(map[string]itemaction.Result{
		"a": additional(ref("configmaps", ns, "b"), ref("secrets", ns, "s"), ref("namespaces", "", ns), ref("namespaces", "", "plug-needs-else")),
		"b": additional(ref("configmaps", ns, "c")),
		"c": additional(ref("configmaps", ns, "a"), ref("configmaps", ns, "c"), ref("secrets", ns, "s"), ref("secrets", mapped, "s"), ref("pods", ns, "none")),
	})
	picked := configMap(t, ns, "a", "x")
	picked.SetLabels(map[string]string{"pick": "me"})
	secret := obj(t, "v1", "Secret", ns, "s", `{"type":"Opaque"}`)
	result := c.run(restore.Request{
		Archive:          spool(t, []*unstructured.Unstructured{picked, configMap(t, ns, "b", "x"), configMap(t, ns, "c", "x"), configMap(t, ns, "d", "x"), secret}),
		Selection:        selection.Spec{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pick": "me"}}},
		NamespaceMapping: map[string]string{ns: mapped}, Actions: []itemaction.RestorePluginAction{acts}, RestoreUID: "u",
	})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 5})
	wantMessages(t, result,
		"warning "+mapped+`: configmaps "plug-needs-mapped/c": it needs secrets "plug-needs-mapped/s", which is not in the backup`,
		"warning "+mapped+`: configmaps "plug-needs-mapped/c": it needs pods "plug-needs/none", which is not in the backup`,
		"warning "+mapped+`: configmaps "plug-needs-mapped/a": it needs namespaces "plug-needs-else", which is not in the backup`,
		"warning "+mapped+`: configmaps "plug-needs-mapped/a": it needs namespaces "plug-needs", which is not in the backup`)
	wantSeen(t, acts, ns+"/a", ns+"/b", ns+"/c")
	var order []string
	for _, post := range c.wire.requests("POST", "/namespaces/"+mapped) {
		order = append(order, post[strings.LastIndex(post[:strings.IndexByte(post, '?')], "/")+1:strings.IndexByte(post, '?')])
	}
	if diff := cmp.Diff([]string{"secrets", "configmaps", "configmaps", "configmaps"}, order); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
}

// TestRestoreRelatedItems_ClusterScoped is found, as in a backup.
func TestRestoreRelatedItems_ClusterScoped(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, class = "plug-class", "plug-class-high"
	acts := wants(map[string]itemaction.Result{
		"a": additional(itemaction.RelatedItem{
			Resource: schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}, Namespace: ns, Name: class,
		}),
	})
	priority := obj(t, "scheduling.k8s.io/v1", "PriorityClass", "", class, `{"value":7}`)
	result := c.run(restore.Request{
		Archive:   spool(t, []*unstructured.Unstructured{configMap(t, ns, "a", "x"), priority}),
		Selection: selection.Spec{IncludedNamespaces: []string{ns}}, Actions: []itemaction.RestorePluginAction{acts}, RestoreUID: "u",
	})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 3})
	wantMessages(t, result)
}

// TestRestoreRelatedItems_LongChain, each of which needs the next one.
func TestRestoreRelatedItems_LongChain(t *testing.T) {
	c := newTarget(t, restore.Options{Workers: 2})
	const ns, size = "plug-chain", 250
	answers := map[string]itemaction.Result{}
	var objects []*unstructured.Unstructured
	for i := range size {
		answers[fmt.Sprintf("c-%03d", i)] = additional(ref("configmaps", ns, fmt.Sprintf("c-%03d", (i+1)%size)))
		objects = append(objects, configMap(t, ns, fmt.Sprintf("c-%03d", i), "x"))
	}
	acts := wants(answers)
	result := c.run(restore.Request{Archive: spool(t, objects), Actions: []itemaction.RestorePluginAction{acts}})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: size + 1})
	if n := len(slices.Compact(acts.seen())); n != size {
		t.Errorf("shown %d objects", n)
	}
	if text := messages(result); !strings.Contains(text, "more than 100 objects need one another in a row") {
		t.Errorf("messages:\n%s", text)
	}
}

// TestWaitUntilReady waits for what objects need until it is ready, but not forever.
func TestWaitUntilReady(t *testing.T) {
	const ns = "plug-ready"
	for name, tc := range map[string]struct {
		// yes is the number of the poll that returns true; err is returned before. There
		// are exactly that many polls, or any number if it is negative.
		yes     int64
		err     error
		timeout time.Duration
		polls   int64
		want    []string
	}{
		"at once":       {yes: 1, polls: 1},
		"after a while": {yes: 4, polls: 4},
		"never": {
			yes: 1 << 40, timeout: 20 * time.Millisecond, polls: -1,
			want: []string{`error plug-ready-never: configmaps "plug-ready-never/main": restore action wants: its related items were not ready after 20ms`},
		},
		"an error": {
			yes: 2, err: errors.New("lost it"), polls: 1,
			want: []string{`error plug-ready-an-error: configmaps "plug-ready-an-error/main": restore action wants: |did not wait for them: lost it`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			ns := ns + "-" + strings.ReplaceAll(name, " ", "-")
			there := []itemaction.RelatedItem{ref("secrets", ns, "s"), ref("secrets", ns, "exists")}
			var polls atomic.Int64
			result := additional(append(slices.Clone(there), ref("secrets", ns, "missing"), ref("secrets", ns, "bad"))...)
			result.ReadyTimeout = tc.timeout
			result.WaitForRelatedItems = true
			acts := wants(map[string]itemaction.Result{"main": result})
			acts.ready = func(_ *itemaction.RestoreItem, got []itemaction.RelatedItem) (bool, error) {
				if diff := cmp.Diff(there, got); diff != "" {
					t.Errorf("asked about (-want +got):\n%s", diff)
				}
				if c.has(configMap(t, ns, "main", "")) || !c.has(obj(t, "v1", "Secret", ns, "s", "")) {
					t.Error("the object does not wait for what it needs")
				}
				n := polls.Add(1)
				return n >= tc.yes, tc.err
			}
			c.namespace(ns)
			c.create(obj(t, "v1", "Secret", ns, "exists", `{"type":"Opaque"}`))
			made := c.run(restore.Request{
				Archive: spool(t, []*unstructured.Unstructured{
					configMap(t, ns, "main", "x"), obj(t, "v1", "Secret", ns, "s", `{"type":"Opaque"}`),
					obj(t, "v1", "Secret", ns, "exists", `{"type":"Opaque"}`), obj(t, "v1", "Secret", ns, "bad", `{"data":{"x":"no base64!"}}`),
				}),
				Actions: []itemaction.RestorePluginAction{acts},
			})
			if n := polls.Load(); tc.polls >= 0 && n != tc.polls {
				t.Errorf("asked %d times, want %d", n, tc.polls)
			}
			if made.Counts[restore.Created] != 2 || !c.has(configMap(t, ns, "main", "")) {
				t.Errorf("counts %v", made.Counts)
			}
			wantMessages(t, made, append(tc.want,
				"warning "+ns+`: |it needs secrets|missing", which is not in the backup`,
				"error "+ns+`: creating secrets "`+ns+`/bad"`)...)
		})
	}
}

// TestWaitUntilReady_SingleWorker: with a single worker, objects wait for one that is restored
// after them, and for objects of others.
func TestWaitUntilReady_SingleWorker(t *testing.T) {
	c := newTarget(t, restore.Options{Workers: 1})
	const ns, size = "plug-wait", 2 // each of which makes two wait, and four may
	answers := map[string]itemaction.Result{}
	objects := []*unstructured.Unstructured{configMap(t, ns, "z-last", "x"), obj(t, "v1", "Secret", ns, "s", `{"type":"Opaque"}`)}
	for i := range size {
		name := fmt.Sprintf("a-%d", i)
		result := additional(ref("secrets", ns, "s"))
		result.WaitForRelatedItems = true
		answers[name] = result
		objects = append(objects, configMap(t, ns, name, "x"), configMap(t, ns, fmt.Sprintf("b-%d", i), "x"))
		answers[fmt.Sprintf("b-%d", i)] = additional(ref("configmaps", ns, name))
	}
	acts := wants(answers)
	acts.ready = func(*itemaction.RestoreItem, []itemaction.RelatedItem) (bool, error) {
		return c.has(configMap(t, ns, "z-last", "")), nil
	}
	result := c.run(restore.Request{Archive: spool(t, objects), Actions: []itemaction.RestorePluginAction{acts}})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: len(objects) + 1})
	wantMessages(t, result)
}
