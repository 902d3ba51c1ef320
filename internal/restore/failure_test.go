// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// TestRestoreObjects_RejectedObjects has an object for each way in which the API server rejects it.
func TestRestoreObjects_RejectedObjects(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, full = "refused", "refused-full"
	c.namespace(ns)
	c.namespace(full)
	c.create(obj(t, "v1", "ResourceQuota", full, "none", `{"spec":{"hard":{"configmaps":"0"}}}`))
	eventually(t, "the quota counts", func() bool {
		hard, _, _ := unstructured.NestedStringMap(c.get(obj(t, "v1", "ResourceQuota", full, "none", "")).Object, "status", "hard")
		return len(hard) > 0
	})
	const template = `"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"x"}]}}`
	deployment := obj(t, "apps/v1", "Deployment", ns, "web", `{"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},`+template+`}}`)
	c.create(deployment)
	c.create(obj(t, "v1", "Service", ns, "taken", `{"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":30079}]}}`))
	down := obj(t, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "refused-down", `{"webhooks":[{
		"name":"down.example.org","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/"},
		"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["podtemplates"]}]}]}`)
	c.create(down)
	t.Cleanup(func() {
		if err := c.of(down).Delete(context.Background(), down.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the webhook is called", func() bool {
		probe := obj(t, "v1", "PodTemplate", ns, "probe", `{`+template+`}`)
		_, err := c.of(probe).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{"All"}})
		return err != nil
	})

	s := spool(t, []*unstructured.Unstructured{
		configMap(t, ns, "good-1", "x"),
		obj(t, "v1", "Service", ns, "bad", `{"spec":{"ports":[{"port":70000}]}}`),
		obj(t, "apps/v1", "Deployment", ns, "web", `{"spec":{"replicas":0,"selector":{"matchLabels":{"c":"d"}},`+
			strings.ReplaceAll(template, `"a":"b"`, `"c":"d"`)+`}}`),
		configMap(t, full, "over", "x"),
		obj(t, "v1", "PodTemplate", ns, "unseen", `{`+template+`}`),
		obj(t, "v1", "Service", ns, "wants-taken", `{"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":30079}]}}`),
		obj(t, "example.org/v1", "Widget", ns, "one", ""),
		obj(t, "example.org/v1", "Widget", ns, "two", ""),
		obj(t, "v1", "Secret", ns, "good-2", `{"data":{"a":"Yg=="}}`),
		obj(t, "v1", "Event", ns, "never", ""),
	})
	result := c.run(restore.Request{Archive: s, Policy: restore.ExistingUpdate, PreserveNodePorts: true, RestoreUID: "u"})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2, restore.Failed: 7, restore.Skipped: 1})
	wantMessages(t, result,
		`error refused: |services "refused/bad"|Invalid value: 70000`,
		`error refused: |deployments.apps "refused/web"|field is immutable|existingResourcePolicy recreate`,
		`error refused-full: |configmaps "refused-full/over"|exceeded quota: none|raise the quota`,
		`error refused: |podtemplates "refused/unseen"|failed calling webhook "down.example.org"|fix it, or remove its configuration`,
		`error refused: |services "refused/wants-taken"|provided port is already allocated|preserveNodePorts`,
		`error run: |2 objects of widgets.example.org are not restored|the cluster does not serve them`,
	)
	if diff := cmp.Diff(map[string]int{"events describe the old cluster": 1}, result.SkipReasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// TestNameResolver_NotServed selects a kind that is not served by its plural, with the group or a prefix of it:
// an unknown name would silently select nothing.
func TestNameResolver_NotServed(t *testing.T) {
	c := newTarget(t, restore.Options{})
	s := spool(t, []*unstructured.Unstructured{
		widget(t, "unserved.example.org", "v1", "unserved", "w"), configMap(t, "unserved", "c", "x"),
	})
	for _, name := range []string{"widgets.unserved.example.org", "widgets.unserved"} {
		result := c.run(restore.Request{Archive: s, Selection: selection.Spec{IncludedResources: []string{name}}})
		wantCounts(t, result, map[restore.Outcome]int{restore.Failed: 1})
		wantMessages(t, result, "error run: 1 object of widgets.unserved.example.org is not restored: the cluster does not serve them")
	}
}

func TestReadArchivedObject_Damaged(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "damaged"
	good := configMap(t, ns, "good", "x")
	raw, err := good.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSpace(string(raw))
	files := map[string]string{"good": text}
	for name, change := range map[string][2]string{
		"other-name":         {`"name":"good"`, `"name":"good"`},
		"other-namespace":    {`"namespace":"damaged"`, `"namespace":"default"`},
		"other-group":        {`"apiVersion":"v1"`, `"apiVersion":"apps/v1"`},
		"no-kind":            {`"kind":"ConfigMap"`, `"kind":""`},
		"labels":             {`"metadata":{`, `"metadata":{"labels":"a",`},
		"annotations":        {`"metadata":{`, `"metadata":{"annotations":[],`},
		"no-metadata":        {`"metadata":{"name":"good","namespace":"damaged"}`, `"metadata":"x"`},
		"cut-off":            {`}}`, `}`},
		"other-served":       {`"apiVersion":"v1"`, `"apiVersion":"v7"`},
		"no-object":          {text, `"x"`},
		"name-is-no-string":  {`"name":"good"`, `"name":7`},
		"nothing-but-braces": {text, `{}`},
	} {
		changed := strings.Replace(text, change[0], change[1], 1)
		if name != "other-name" {
			changed = strings.Replace(changed, `"name":"good"`, fmt.Sprintf(`"name":%q`, name), 1)
		}
		files[name] = changed
	}
	result := c.run(restore.Request{Archive: rawSpool(t, ns, "configmaps", files)})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2, restore.Failed: len(files) - 1}) // with the namespace
	if !c.has(good) || result.Results.ErrorCount != len(files)-1 {
		t.Errorf("%d errors:\n%s", result.Results.ErrorCount, messages(result))
	}
	if posts := c.wire.requests("POST", "configmaps"); len(posts) != 1 {
		t.Errorf("POSTs: %v", posts)
	}
}

// TestEnsureNamespace_Terminating is waited for; if it stays, the objects in it fail with
// one error.
func TestEnsureNamespace_Terminating(t *testing.T) {
	for _, goes := range []bool{true, false} {
		t.Run(fmt.Sprintf("goes=%t", goes), func(t *testing.T) {
			opts := restore.Options{}
			if !goes {
				opts.WaitTimeout = time.Millisecond
			}
			c := newTarget(t, opts)
			ns := fmt.Sprintf("terminating-%t", goes)
			c.namespace(ns)
			held := configMap(t, ns, "held", "now")
			held.SetFinalizers([]string{"example.org/hold"})
			c.create(held)
			namespace := obj(t, "v1", "Namespace", "", ns, "")
			if err := c.of(namespace).Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "what is in the namespace is being deleted", func() bool { return c.get(held).GetDeletionTimestamp() != nil })
			objects := []*unstructured.Unstructured{configMap(t, ns, "held", "then"), configMap(t, ns, "other", "x"), configMap(t, "untouched", "a", "x")}
			done := make(chan restore.Result)
			go func() { done <- c.run(restore.Request{Archive: spool(t, objects), RestoreUID: "u-" + ns}) }()
			var result restore.Result
			if goes {
				eventually(t, "the engine waits", func() bool { return len(c.wire.requests("GET", "watch=true")) > 0 })
				unhold(c, held)
				result = <-done
				wantCounts(t, result, map[restore.Outcome]int{restore.Created: 5 - already(result)})
				wantMessages(t, result)
				return
			}
			result = <-done
			unhold(c, held)
			if result.Counts[restore.Failed] != 3 { // the Namespace and the objects in it
				t.Errorf("counts are %v", result.Counts)
			}
			wantMessages(t, result,
				"error cluster: |namespaces \""+ns+"\"|being deleted",
				"error "+ns+": 2 objects of configmaps are not restored: namespace "+ns+" does not exist|being deleted")
		})
	}
}

// already is 1 if the namespace of another subtest was there before.
func already(result restore.Result) int {
	if slices.Contains(listOf(result)["v1/Namespace"], "untouched(created)") {
		return 0
	}
	return 1
}

// lossy loses the replies to every n-th write, after the server has executed it.
func lossy(n int64) func(*http.Request, http.RoundTripper) (*http.Response, error) {
	var count atomic.Int64
	return func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err != nil || r.Method == http.MethodGet || count.Add(1)%n != 0 {
			return resp, err
		}
		_ = resp.Body.Close()
		return nil, errLost
	}
}

// errLost is like the error of a broken connection.
var errLost = fmt.Errorf("the answer is lost: %w", errTimeout{})

type errTimeout struct{}

func (errTimeout) Error() string { return "connection reset" }
func (errTimeout) Timeout() bool { return true }

func TestRestoreObjects_LostResponses(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "lost-answers"
	c.namespace(ns)
	var objects, old []*unstructured.Unstructured
	for i := range 40 {
		objects = append(objects, configMap(t, ns, fmt.Sprintf("c-%d", i), "then"))
		if i%2 == 0 {
			old = append(old, configMap(t, ns, fmt.Sprintf("c-%d", i), "now"))
		}
	}
	c.create(old...)
	c.wire.set(lossy(3)) //nolint:bodyclose // the transport closes it
	result := c.run(restore.Request{Archive: spool(t, objects), Policy: restore.ExistingUpdate, RestoreUID: "u"})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: len(objects) - len(old), restore.Updated: len(old)})
	wantMessages(t, result)
}

// TestRestoreObjects_TooManyRequests answers half of all requests with "later".
func TestRestoreObjects_TooManyRequests(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "busy"
	var count atomic.Int64
	c.wire.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if count.Add(1)%2 == 0 && strings.Contains(r.URL.Path, ns) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
		}
		return next.RoundTrip(r)
	})
	var objects []*unstructured.Unstructured
	for i := range 20 {
		objects = append(objects, configMap(t, ns, fmt.Sprintf("c-%d", i), "x"))
	}
	result := c.run(restore.Request{Archive: spool(t, objects)})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: len(objects) + 1})
	wantMessages(t, result)
}

func TestRestoreObjects_ServerUnavailable(t *testing.T) {
	c := newTarget(t, restore.Options{Workers: 4})
	const ns = "gone"
	c.namespace(ns)
	var objects []*unstructured.Unstructured
	for i := range 500 {
		objects = append(objects, configMap(t, ns, fmt.Sprintf("c-%d", i), "x"))
	}
	c.wire.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r.Method == http.MethodPost {
			return nil, errLost
		}
		return next.RoundTrip(r)
	})
	result, err := c.engine.RestoreObjects(t.Context(), restore.Request{Archive: spool(t, objects)})
	if err == nil || !strings.Contains(err.Error(), "no longer answers") {
		t.Errorf("the run ended with %v", err)
	}
	if posts := c.wire.requests("POST", "/"); len(posts) > 200 {
		t.Errorf("%d POSTs to a server that is unreachable", len(posts))
	}
	if result.Counts[restore.Created] > 0 {
		t.Errorf("created: %v", result.Counts)
	}
}

// TestRestoreObjects_Interrupted ends a restore after some writes, and continues it.
func TestRestoreObjects_Interrupted(t *testing.T) {
	errEnd := errors.New("the leader changed")
	for _, after := range []int64{1, 2, 7, 20, 33} {
		c := newTarget(t, restore.Options{Workers: 4})
		ns := fmt.Sprintf("interrupted-%d", after)
		c.namespace(ns + "-old")
		var objects []*unstructured.Unstructured
		for i := range 15 {
			objects = append(objects, configMap(t, ns, fmt.Sprintf("c-%d", i), "x"))
			objects = append(objects, configMap(t, ns+"-old", fmt.Sprintf("c-%d", i), "then"))
			c.create(configMap(t, ns+"-old", fmt.Sprintf("c-%d", i), "now"))
		}
		request := restore.Request{
			Archive: spool(t, objects), Policy: restore.ExistingUpdate, BackupName: "b", RestoreName: "r", RestoreUID: "u", StampKey: stampKey,
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		var writes atomic.Int64
		c.wire.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if r.Method != http.MethodGet && writes.Add(1) == after {
				cancel(errEnd)
			}
			return resp, err
		})
		first, err := c.engine.RestoreObjects(ctx, request)
		if !errors.Is(err, errEnd) && after < 31 {
			t.Errorf("after %d writes, the interrupted run ended with %v", after, err)
		}
		if first.Results.ErrorCount > 0 {
			t.Errorf("after %d writes, what was not done counts as failed:\n%s", after, messages(first))
		}
		c.wire.set(nil)
		result := c.run(request)
		wantCounts(t, result, map[restore.Outcome]int{restore.Created: 16, restore.Updated: 15})
		wantMessages(t, result)
		for _, o := range objects {
			if got := data(c.get(o))["key"]; got != data(o)["key"] {
				t.Errorf("after %d writes, %s/%s is %q", after, o.GetNamespace(), o.GetName(), got)
			}
		}
	}
}

// needy is an action for which objects need each other in a cycle.
type needy struct{ size int }

func (needy) Name() string                           { return "test/needy" }
func (needy) AppliesTo(gr schema.GroupResource) bool { return gr.Resource == "configmaps" }

func (a needy) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	var i int
	if _, err := fmt.Sscanf(item.Archived.GetName(), "c-%d", &i); err != nil {
		return itemaction.Result{}, err
	}
	if i == 3 {
		return itemaction.Result{}, errors.New("three is not for me")
	}
	return itemaction.Result{RelatedItems: []itemaction.RelatedItem{
		{Resource: schema.GroupResource{Resource: "configmaps"}, Namespace: item.Archived.GetNamespace(), Name: fmt.Sprintf("c-%d", (i+1)%a.size)},
		{Resource: schema.GroupResource{Resource: "configmaps"}, Namespace: item.Archived.GetNamespace(), Name: fmt.Sprintf("c-%d", (i+7)%a.size)},
	}}, nil
}

func TestRestoreRelatedItems_Cycle(t *testing.T) {
	const size = 40
	for round := range 5 {
		c := newTarget(t, restore.Options{
			Workers: 8, Actions: func() []itemaction.RestoreAction { return []itemaction.RestoreAction{needy{size}} },
		})
		ns := fmt.Sprintf("ring-%d", round)
		var objects []*unstructured.Unstructured
		for i := range size {
			objects = append(objects, configMap(t, ns, fmt.Sprintf("c-%d", i), "x"))
		}
		var seen collector
		result := c.run(restore.Request{Archive: spool(t, objects), Progress: seen.progress})
		wantCounts(t, result, map[restore.Outcome]int{restore.Created: size, restore.Failed: 1})
		wantMessages(t, result, "error "+ns+": |c-3|restore action test/needy: three is not for me")
		if posts := c.wire.requests("POST", "configmaps"); len(posts) != size-1 {
			t.Errorf("%d POSTs", len(posts))
		}
		if seen.total != size+1 || seen.done != size+1 {
			t.Errorf("progress ended at %d of %d", seen.done, seen.total)
		}
		// Existing objects need nothing before them: no single requests are necessary.
		again := c.run(restore.Request{Archive: spool(t, objects)})
		wantCounts(t, again, map[restore.Outcome]int{restore.Unchanged: size - 1, restore.Failed: 1})
		if posts := c.wire.requests("POST", "configmaps"); len(posts) != 0 {
			t.Errorf("%d POSTs of what exists", len(posts))
		}
	}
}
