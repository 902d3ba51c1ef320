// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a cluster with a Quiescer.
type world struct {
	*testing.T
	client.WithWatch
	*quiesce.Quiescer
	now time.Time
	// onPatch, onGet and onList are called before a request; their error is returned.
	onPatch, onGet func(client.Object) error
	onList         func(client.ObjectList, *client.ListOptions) error
	// onDisown is called before the patch that removes Grapnel from managedFields.
	onDisown func()
	// afterPatch is called after a successful patch.
	afterPatch     func(client.Object) error
	patches, lists int
	// page is the maximum number of objects in a list; 0 is no limit.
	page int
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{T: t, now: start}
	kinds := runtime.NewScheme() // the scheme with all kinds is slow
	if err := quiesce.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	w.WithWatch = fake.NewClientBuilder().WithScheme(kinds).WithObjects(objects...).
		WithTypeConverters(managedfields.NewDeducedTypeConverter()).
		WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{Patch: w.patch, List: w.list, Get: w.get}).Build()
	w.Quiescer = quiesce.New(w.WithWatch, quiesce.Options{OperatorNamespace: "grapnel-system", Now: func() time.Time { return w.now }})
	return w
}

func (w *world) patch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if data, err := p.Data(o); err != nil || strings.Contains(string(data), "managedFields") {
		if w.onDisown != nil {
			w.onDisown()
		}
		return c.Patch(ctx, o, p, opts...)
	}
	w.patches++
	if w.onPatch != nil {
		if err := w.onPatch(o); err != nil {
			return err
		}
	}
	if err := c.Patch(ctx, o, p, opts...); err != nil {
		return err
	}
	if w.afterPatch != nil {
		return w.afterPatch(o)
	}
	return nil
}

func (w *world) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if w.onGet != nil {
		if err := w.onGet(o); err != nil {
			return err
		}
	}
	return c.Get(ctx, key, o, opts...)
}

func (w *world) list(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
	w.lists++
	if w.onList != nil {
		if err := w.onList(l, (&client.ListOptions{}).ApplyOptions(opts)); err != nil {
			return err
		}
	}
	if err := c.List(ctx, l, opts...); err != nil || w.page == 0 {
		return err
	}
	return w.cut(l, (&client.ListOptions{}).ApplyOptions(opts))
}

// cut keeps one page of a list.
func (w *world) cut(l client.ObjectList, o *client.ListOptions) error {
	all, err := meta.ExtractList(l)
	if err != nil {
		return err
	}
	from, _ := strconv.Atoi(o.Continue)
	if to := from + w.page; to < len(all) {
		l.SetContinue(strconv.Itoa(to))
		all = all[:to]
	}
	return meta.SetList(l, all[from:])
}

// request returns a request of run "a" for namespace shop.
func request() quiesce.Request {
	return quiesce.Request{
		Key: "hook-run", Attempt: 1, Holder: "a", Namespaces: []string{"shop"}, MaxQuiesceDuration: time.Hour, Since: start,
	}
}

func of(holder string) quiesce.Request {
	r := request()
	r.Holder = holder
	return r
}

// until calls repeatedly until the call is done or fails.
func (w *world) until(call func(context.Context, quiesce.Request) (quiesce.Result, error), req quiesce.Request) (quiesce.Result, error) {
	w.Helper()
	for range 20 {
		result, err := call(w.Context(), req)
		if err != nil || result.RetryAfter == 0 {
			return result, err
		}
		w.now = w.now.Add(result.RetryAfter)
	}
	w.Fatal("not done after 20 calls")
	return quiesce.Result{}, nil
}

// done is like until, and fails the test on an error.
func (w *world) done(call func(context.Context, quiesce.Request) (quiesce.Result, error), req quiesce.Request) quiesce.Result {
	w.Helper()
	result, err := w.until(call, req)
	if err != nil {
		w.Fatalf("failed: %v", err)
	}
	return result
}

// all returns every workload, without the fields that each write changes.
func (w *world) all() []client.Object {
	w.Helper()
	var found []client.Object
	for _, list := range []client.ObjectList{
		&batchv1.CronJobList{}, &batchv1.JobList{}, &appsv1.DeploymentList{},
		&appsv1.ReplicaSetList{}, &appsv1.DaemonSetList{}, &appsv1.StatefulSetList{},
	} {
		if err := w.List(w.Context(), list); err != nil {
			w.Fatal(err)
		}
		found = append(found, items(w.T, list)...)
	}
	for _, o := range found {
		o.SetResourceVersion("")
		o.SetManagedFields(nil)
	}
	return found
}

// same fails the test if workloads differ from before.
func (w *world) same(before []client.Object) {
	w.Helper()
	if diff := cmp.Diff(before, w.all(), cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("workloads (-before +after):\n%s", diff)
	}
}

// overdue unquiesces expired workloads at a time, as the controller does.
func (w *world) overdue(at time.Time) (quiesce.Result, error) {
	w.Helper()
	var refs []quiesce.Ref
	for _, o := range w.all() {
		if o.GetLabels()[quiesce.Label] == "true" {
			refs = append(refs, quiesce.Ref{Kind: kindOf(o), Namespace: o.GetNamespace(), Name: o.GetName()})
		}
	}
	return w.ReleaseExpired(w.Context(), at, nil, refs...)
}

func (w *world) replicas(name string) int32 {
	w.Helper()
	var d appsv1.Deployment
	if err := w.Get(w.Context(), types.NamespacedName{Namespace: "shop", Name: name}, &d); err != nil {
		w.Fatal(err)
	}
	return *d.Spec.Replicas
}

// scale sets the replicas as another writer does.
func (w *world) scale(name string, replicas int32, who string) {
	w.Helper()
	var d appsv1.Deployment
	if err := w.Get(w.Context(), types.NamespacedName{Namespace: "shop", Name: name}, &d); err != nil {
		w.Fatal(err)
	}
	d.Spec.Replicas = &replicas
	if err := w.Update(w.Context(), &d, client.FieldOwner(who)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) create(o client.Object) {
	w.Helper()
	if err := w.Create(w.Context(), o, client.FieldOwner("kubectl")); err != nil {
		w.Fatal(err)
	}
}

// outcomes returns the outcome for each workload.
func outcomes(r quiesce.Result) map[string]quiesce.Outcome {
	all := map[string]quiesce.Outcome{}
	for _, i := range r.Items {
		all[i.Ref.String()] = i.Outcome
	}
	return all
}

func expect(t *testing.T, r quiesce.Result, want map[string]quiesce.Outcome) {
	t.Helper()
	if diff := cmp.Diff(want, outcomes(r)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
}

// quiesced returns the outcomes for shop.
func quiesced() map[string]quiesce.Outcome {
	all := map[string]quiesce.Outcome{}
	for _, name := range []string{
		"CronJob shop/nightly", "Job shop/load", "Job shop/nightly-1", "Deployment shop/web",
		"ReplicaSet shop/old", "DaemonSet shop/agent", "DaemonSet shop/proxy", "StatefulSet shop/db",
	} {
		all[name] = quiesce.Quiesced
	}
	for _, name := range []string{"CronJob shop/weekly", "Deployment shop/idle", "Deployment shop/idle-too"} {
		all[name] = quiesce.AlreadyQuiesced
	}
	return all
}

// stopped returns the names of the quiesced workloads.
func (w *world) stopped() []string {
	w.Helper()
	var names []string
	for _, o := range w.all() {
		off := false
		switch o := o.(type) {
		case *batchv1.CronJob:
			off = *o.Spec.Suspend
		case *batchv1.Job:
			off = *o.Spec.Suspend
		case *appsv1.Deployment:
			off = *o.Spec.Replicas == 0
		case *appsv1.ReplicaSet:
			off = *o.Spec.Replicas == 0
		case *appsv1.StatefulSet:
			off = *o.Spec.Replicas == 0
		case *appsv1.DaemonSet:
			off = o.Spec.Template.Spec.NodeSelector[quiesce.NodeSelectorKey] != ""
		}
		if off {
			names = append(names, o.GetNamespace()+"/"+o.GetName())
		}
	}
	slices.Sort(names)
	return names
}
