// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

// remark changes the annotations of an object, as a restore or a user does.
func (w *world) remark(o client.Object, change func(map[string]string)) {
	w.Helper()
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		w.Fatal(err)
	}
	if o.GetAnnotations() == nil {
		o.SetAnnotations(map[string]string{})
	}
	change(o.GetAnnotations())
	if err := w.Update(w.Context(), o, client.FieldOwner("kubectl")); err != nil {
		w.Fatal(err)
	}
}

// TestUnquiesce_ChangedByUser: the change of a user has precedence, even if it sets the same number.
func TestUnquiesce_ChangedByUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"web", "api", "off"} {
		w.create(deployment(name, 3))
	}
	w.done(w.Quiesce, request())
	w.scale("api", 7, "kubectl")
	w.scale("off", 1, "kubectl")
	w.scale("off", 0, "kubectl-scale")
	result := w.done(w.Unquiesce, request())
	expect(t, result, map[string]quiesce.Outcome{
		"Deployment shop/web": quiesce.Restored, "Deployment shop/api": quiesce.ChangedSince, "Deployment shop/off": quiesce.ChangedSince,
	})
	says(t, result.Message, `Deployment shop/api was set to 7 replicas in the meantime, by "kubectl"`,
		`Deployment shop/off was set to 0 replicas in the meantime, by "kubectl-scale"`)
	says(t, result.Warning, "did not stay quiesced", `Deployment shop/api was set to 7 replicas in the meantime, by "kubectl"`)
	if strings.Contains(result.Warning, "shop/web") || strings.Contains(result.Warning, "shop/off") {
		t.Errorf("it warns of workloads that stayed quiesced: %s", result.Warning)
	}
	if again := w.done(w.Unquiesce, request()); again.Warning != "" {
		t.Errorf("called again, it warns of %s", again.Warning)
	}
	if w.replicas("web") != 3 || w.replicas("api") != 7 || w.replicas("off") != 0 {
		t.Errorf("replicas: %d, %d, %d", w.replicas("web"), w.replicas("api"), w.replicas("off"))
	}
	for _, o := range w.all() {
		if len(o.GetAnnotations()) > 0 || o.GetLabels()[quiesce.Label] != "" {
			t.Errorf("%s is still marked: %v %v", o.GetName(), o.GetAnnotations(), o.GetLabels())
		}
	}
}

// TestUnquiesce_FieldManagers: the previous managers own the field again, even if others write the workload
// at that moment.
func TestUnquiesce_FieldManagers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(deployment("web", 3))
	w.done(w.Quiesce, request())
	raced := false
	w.onDisown = func() {
		if !raced {
			raced = true
			w.remark(deployment("web", 0), func(a map[string]string) { a["note"] = "x" })
		}
	}
	w.done(w.Unquiesce, request())
	var web appsv1.Deployment
	if err := w.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, &web); err != nil {
		t.Fatal(err)
	}
	for _, entry := range web.ManagedFields {
		if fields := string(entry.FieldsV1.GetRawBytes()); entry.Manager != "kubectl" || !strings.Contains(fields, "f:replicas") {
			t.Errorf("%s has the entry %s", entry.Manager, fields)
		}
	}
	if !raced || len(web.ManagedFields) == 0 {
		t.Error("no concurrent write, or no manager of the field")
	}
}

// TestUnquiesce_ConcurrentQuiesce: a Backup that quiesces a workload at the moment when another
// Backup has unquiesced it can unquiesce it later, too.
func TestUnquiesce_ConcurrentQuiesce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(deployment("web", 3))
	w.done(w.Quiesce, of("a"))
	raced := false
	w.onDisown = func() {
		if !raced {
			raced = true
			w.done(w.Quiesce, of("b"))
		}
	}
	w.done(w.Unquiesce, of("a"))
	if got := w.replicas("web"); !raced || got != 0 {
		t.Fatalf("the other Backup (raced: %v) has it at %d replicas", raced, got)
	}
	w.done(w.Unquiesce, of("b"))
	if got := w.replicas("web"); got != 3 {
		t.Errorf("unquiesced, it has %d replicas, want 3", got)
	}
}

// TestUnquiesce_WorkloadRecreated: the managers of an object say nothing about another object of
// the same name.
func TestUnquiesce_WorkloadRecreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(deployment("web", 3))
	w.done(w.Quiesce, request())
	raced := false
	w.onDisown = func() {
		if raced {
			t.Error("another object was written")
			return
		}
		raced = true
		if err := w.Delete(t.Context(), deployment("web", 0)); err != nil {
			t.Fatal(err)
		}
		anew := deployment("web", 4)
		anew.UID = "uid-new"
		if err := w.Create(t.Context(), anew, client.FieldOwner(quiesce.FieldOwner)); err != nil {
			t.Fatal(err)
		}
	}
	w.done(w.Unquiesce, request())
	if !raced {
		t.Error("the object was not recreated")
	}
}

// TestUnquiesce_Warnings: every run that held a workload which a user started is warned, even if
// another write fails. Other runs are not warned.
func TestUnquiesce_Warnings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(deployment("web", 3))
	w.create(deployment("api", 3))
	w.done(w.Quiesce, of("a"))
	w.done(w.Quiesce, of("b"))
	w.scale("web", 1, "kubectl")
	w.onPatch = func(o client.Object) error {
		if o.GetName() == "api" {
			return errors.New("refused by the test")
		}
		return nil
	}
	result, err := w.Unquiesce(t.Context(), of("a"))
	if err == nil {
		t.Fatal("no error")
	}
	says(t, result.Warning, `Deployment shop/web was set to 1 replicas in the meantime, by "kubectl"`)
	w.onPatch = nil
	says(t, w.done(w.Unquiesce, of("b")).Warning, `Deployment shop/web was set to 1 replicas in the meantime, by "kubectl"`)
	if other := w.done(w.Unquiesce, of("c")); other.Warning != "" {
		t.Errorf("another run is warned: %s", other.Warning)
	}
}

// TestUnquiesce_MissingWorkloadOrState: neither a deleted workload nor a removed state is an error.
func TestUnquiesce_MissingWorkloadOrState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("web", 3), deployment("gone", 3), deployment("lost", 3), deployment("idle", 0))
	req := request()
	req.Outputs = w.done(w.Quiesce, req).Outputs
	if err := w.Delete(t.Context(), deployment("gone", 0)); err != nil {
		t.Fatal(err)
	}
	w.remark(deployment("lost", 0), func(a map[string]string) { delete(a, quiesce.Annotation) })
	result := w.done(w.Unquiesce, req)
	expect(t, result, map[string]quiesce.Outcome{
		"Deployment shop/web": quiesce.Restored, "Deployment shop/gone": quiesce.Gone,
		"Deployment shop/lost": quiesce.Lost, "Deployment shop/idle": quiesce.AlreadyQuiesced,
	})
	says(t, result.Message, "Deployment shop/gone was deleted", "Deployment shop/lost is quiesced, and its saved state was removed")
	says(t, result.Stopped, "Deployment shop/lost is quiesced", "by hand")
	if strings.Contains(result.Stopped, "shop/gone") || strings.Contains(result.Stopped, "shop/idle") {
		t.Errorf("it warns of what nothing can start: %s", result.Stopped)
	}
	w.scale("lost", 1, "kubectl")
	if again := w.done(w.Unquiesce, req); len(again.Items) != 1 {
		t.Errorf("called again, it reports %+v", again.Items)
	}
}

// TestUnquiesce_StaleAnnotation: kubectl rollout undo replaces all annotations by those of a ReplicaSet, which may
// include the state of an earlier quiesce. The holders in that state do not keep the workload down.
func TestUnquiesce_StaleAnnotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(deployment("web", 3))
	old := of("long ended")
	old.MaxQuiesceDuration = 0
	w.done(w.Quiesce, old)
	stale := deployment("web", 0)
	w.remark(stale, func(map[string]string) {})
	w.done(w.Unquiesce, old)
	undo := func() {
		w.remark(deployment("web", 0), func(a map[string]string) { a[quiesce.Annotation] = stale.Annotations[quiesce.Annotation] })
	}
	undo()
	w.scale("web", 5, "kubectl")
	req := request()
	req.Outputs = w.done(w.Quiesce, req).Outputs
	w.done(w.Unquiesce, req)
	if got := w.replicas("web"); got != 5 {
		t.Errorf("unquiesced, it has %d replicas, want 5", got)
	}
	w.done(w.Quiesce, req)
	undo()
	result := w.done(w.Unquiesce, req)
	expect(t, result, map[string]quiesce.Outcome{"Deployment shop/web": quiesce.Lost})
	says(t, result.Message, "its saved state was replaced", "by hand")
}

// TestUnquiesce_ChangedLabels: labels of namespaces and workloads change, and marks get lost.
func TestUnquiesce_ChangedLabels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shop()...)
	before := w.all()
	req := request()
	req.Namespaces = []string{"office", "shop"}
	req.Outputs = w.done(w.Quiesce, req).Outputs
	req.Namespaces = nil
	var web appsv1.Deployment
	if err := w.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, &web); err != nil {
		t.Fatal(err)
	}
	delete(web.Labels, quiesce.Label)
	if err := w.Update(t.Context(), &web); err != nil {
		t.Fatal(err)
	}
	w.done(w.Unquiesce, req)
	w.same(before)
}

// restored returns the objects that a restore creates in another cluster.
func (w *world) restored(namespace string) []client.Object {
	w.Helper()
	var made []client.Object
	for _, o := range w.all() {
		if o.GetNamespace() != "shop" || len(o.GetOwnerReferences()) > 0 {
			continue
		}
		o.SetNamespace(namespace)
		o.SetUID("restored-" + o.GetUID())
		made = append(made, o)
	}
	return made
}

func TestUnquiesce_RestoredWorkloads(t *testing.T) {
	t.Parallel()
	source := newWorld(t, shop()...)
	want := source.restored("shop-copy")
	source.done(source.Quiesce, request())
	// The hold expires in the source cluster; in this cluster no deadline applies.
	target := newWorld(t, append(source.restored("shop-copy"), deployment("busy", 2))...)
	stopped := target.stopped()
	if result, err := target.overdue(start.Add(100 * time.Hour)); err != nil || len(result.Items) > 0 {
		t.Fatalf("what was restored is overdue: %v, %v", result.Items, err)
	}
	backup := of("backup here")
	backup.Namespaces = []string{"shop", "shop-copy"}
	target.done(target.Quiesce, backup)
	target.done(target.Unquiesce, backup)
	if diff := cmp.Diff(stopped, target.stopped()); diff != "" {
		t.Fatalf("a backup changed what was restored:\n%s", diff)
	}
	target.done(target.Quiesce, backup)
	restore := of("restore")
	restore.Origin, restore.Namespaces = quiesce.OriginRestored, []string{"elsewhere"}
	if other := target.done(target.Unquiesce, restore); len(other.Items) > 0 {
		t.Errorf("a restore of other namespaces unquiesces %v", other.Items)
	}
	restore.Namespaces = []string{"shop", "shop-copy"}
	result := target.done(target.Unquiesce, restore)
	says(t, result.Message, "unquiesced", "1 still held by others")
	target.done(target.Unquiesce, backup)
	target.same(sorted(target, append(want, deployment("busy", 2))))
}

// sorted returns objects in the form of all.
func sorted(w *world, objects []client.Object) []client.Object {
	for _, o := range objects {
		o.SetResourceVersion("")
	}
	return newWorld(w.T, objects...).all()
}

// TestUnquiesce_PreRestore: a Restore unquiesces what it quiesced itself before it wrote.
func TestUnquiesce_PreRestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shop()...)
	before := w.all()
	restore := of("restore")
	w.done(w.Quiesce, restore)
	restore.Origin = quiesce.OriginRestored
	w.done(w.Unquiesce, restore)
	w.same(before)
}

// TestUnquiesce_PreRestoreOtherNamespace: what a Restore stopped is started in any namespace, and nothing else in
// namespaces that it no longer includes.
func TestUnquiesce_PreRestoreOtherNamespace(t *testing.T) {
	t.Parallel()
	source := newWorld(t, deployment("web", 3))
	source.done(source.Quiesce, request())
	w := newWorld(t, append(source.restored("copy"), deployment("web", 3), deployment("unlabelled", 2), deployment("shared", 1))...)
	stopped := w.stopped()
	backup := of("backup")
	backup.Selector = labels.SelectorFromSet(labels.Set{"app": "shared"})
	w.done(w.Quiesce, backup)
	restore := of("restore")
	restore.Outputs = w.done(w.Quiesce, restore).Outputs
	bare := deployment("unlabelled", 0)
	w.remark(bare, func(map[string]string) { delete(bare.Labels, quiesce.Label) })
	restore.Origin, restore.Namespaces = quiesce.OriginRestored, nil
	result := w.done(w.Unquiesce, restore)
	expect(t, result, map[string]quiesce.Outcome{
		"Deployment shop/web": quiesce.Restored, "Deployment shop/unlabelled": quiesce.Restored, "Deployment shop/shared": quiesce.StillHeld,
	})
	w.done(w.Unquiesce, backup)
	if diff := cmp.Diff(stopped, w.stopped()); diff != "" {
		t.Errorf("stopped (-want +got):\n%s", diff)
	}
}

// TestUnquiesce_UnreadableState: a tenant may write any annotation. No retry makes it readable, so
// the run reports what to do and does not wait.
func TestUnquiesce_UnreadableState(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"invalid JSON":      "secret words",
		"another version":   `{"v":7,"kind":"Deployment","uid":"secret words"}`,
		"no replicas":       `{"v":1,"kind":"Deployment","uid":"secret words","replicas":-1}`,
		"too many replicas": `{"v":1,"kind":"Deployment","uid":"secret words","replicas":99999999999}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deployment("web", 3), deployment("api", 2))
			req := request()
			req.Outputs = w.done(w.Quiesce, req).Outputs
			w.remark(deployment("web", 0), func(a map[string]string) { a[quiesce.Annotation] = value })
			result := w.done(w.Unquiesce, req)
			expect(t, result, map[string]quiesce.Outcome{"Deployment shop/web": quiesce.Lost, "Deployment shop/api": quiesce.Restored})
			says(t, result.Message, "1 unquiesced", "Deployment shop/web", "cannot be read", "by hand")
			says(t, result.Stopped, "Deployment shop/web has an annotation grapnel.dev/quiesced that cannot be read", "by hand")
			if strings.Contains(result.Message+result.Stopped, "secret words") {
				t.Error("the message shows what is in the annotation")
			}
			other := of("b")
			other.Namespaces = []string{"office"}
			if result := w.done(w.Unquiesce, other); len(result.Items) > 0 {
				t.Errorf("runs that it does not concern report it: %+v", result.Items)
			}
		})
	}
}

// TestUnquiesce_HostileOutputs: outputs are stored where users may change them.
func TestUnquiesce_HostileOutputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("web", 3))
	req := request()
	req.Outputs = map[string]string{quiesce.OutputWorkloads: "Secret/shop/key Deployment//x Deployment/shop/web/x / \x00 StatefulSet/shop/none"}
	result := w.done(w.Unquiesce, req)
	expect(t, result, map[string]quiesce.Outcome{"StatefulSet shop/none": quiesce.Gone})
}

func TestQuiesce_OutputLimits(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	for i := range 300 {
		objects = append(objects, deployment(strings.Repeat("x", 40)+string(rune('a'+i/26))+string(rune('a'+i%26)), 1))
	}
	w := newWorld(t, objects...)
	result := w.done(w.Quiesce, request())
	names := len(strings.Fields(result.Outputs[quiesce.OutputWorkloads]))
	var omitted int
	if err := json.Unmarshal([]byte(result.Outputs[quiesce.OutputOmitted]), &omitted); err != nil || names+omitted != 300 || names == 0 {
		t.Errorf("%d names, %d omitted (%v)", names, omitted, err)
	}
	if size := len(result.Outputs[quiesce.OutputWorkloads]); size > 4096 {
		t.Errorf("names have %d bytes", size)
	}
	if len(result.Message) > executor.MaxMessageLength {
		t.Errorf("message has %d bytes", len(result.Message))
	}
}

func TestQuiescer_ContextDone(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, end := context.WithDeadline(t.Context(), start.Add(-time.Hour*24*365*10))
	defer end()
	for kind, ctx := range map[executor.ErrorKind]context.Context{executor.Interrupted: cancelled, executor.Timeout: late} {
		w := newWorld(t, deployment("web", 3))
		w.onList = func(client.ObjectList, *client.ListOptions) error { return ctx.Err() }
		for _, call := range []func(context.Context, quiesce.Request) (quiesce.Result, error){w.Quiesce, w.Unquiesce} {
			_, err := call(ctx, request())
			if failed := new(quiesce.Error); !errors.As(err, &failed) || failed.Kind != kind || !errors.Is(err, ctx.Err()) {
				t.Errorf("%s: error is %v", kind, err)
			}
		}
		if w.patches > 0 {
			t.Errorf("%d writes", w.patches)
		}
	}
}
