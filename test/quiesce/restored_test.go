// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"bytes"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore"
)

// archived archives all workloads of the namespace as they are now.
func (w *world) archived() *archive.Spool {
	w.Helper()
	var out bytes.Buffer
	writer, err := archive.NewWriter(&out, archive.WriterOptions{})
	if err != nil {
		w.Fatal(err)
	}
	for _, kind := range quiesce.WorkloadKinds() {
		all := &unstructured.UnstructuredList{}
		all.SetGroupVersionKind(groupOf(kind).WithKind(string(kind) + "List"))
		if err := w.List(w.Context(), all, client.InNamespace(w.ns)); err != nil {
			w.Fatal(err)
		}
		for _, o := range all.Items {
			data, err := o.MarshalJSON()
			if err != nil {
				w.Fatal(err)
			}
			id := archive.Identity{
				Group: groupOf(kind).Group, Version: "v1", Resource: strings.ToLower(string(kind)) + "s",
				Namespace: o.GetNamespace(), Name: o.GetName(), Preferred: true,
			}
			if err := writer.AddObject(archive.Item{Identity: id, JSON: bytes.TrimSpace(data)}); err != nil {
				w.Fatal(err)
			}
		}
	}
	if err := writer.Close(); err != nil {
		w.Fatal(err)
	}
	spool, err := archive.NewSpool(w.Context(), &out, archive.SpoolOptions{Dir: w.TempDir()})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = spool.Close() })
	return spool
}

// restores restores an archive as a Restore does, and returns the warnings about objects of the
// namespace.
func (w *world) restores(req restore.Request) []string {
	w.Helper()
	cluster, err := restore.NewCluster(plane.Config(), rawclient.ListOptions{}, rawclient.WriteOptions{})
	if err != nil {
		w.Fatal(err)
	}
	req.BackupName, req.RestoreName, req.RestoreUID = "nightly", "again", "uid-of-the-restore"
	result, err := restore.New(cluster, restore.Options{}).RestoreObjects(w.Context(), req)
	if err != nil || result.Counts[restore.Failed] > 0 {
		w.Fatalf("restored: %v, %v", result.Counts, err)
	}
	return result.Results.Warnings.OfNamespace(w.ns)
}

// from returns the request of a Restore that unquiesces a namespace.
func (w *world) from(ns string) quiesce.Request {
	req := w.request("uid-of-the-restore")
	req.Namespaces, req.Origin = []string{ns}, quiesce.OriginRestored
	return req
}

var _ = Describe("Quiesced workloads in a Restore", Label("hooks"), func() {
	It("are started by the action of the Restore only", func() {
		t := GinkgoTB()
		w := newWorld(t)
		w.shop()
		before := w.workloads(w.ns)
		source := w.request("a")
		source.MaxQuiesceDuration = 24 * time.Hour
		w.done(w.Quiesce, source)
		backup := w.archived()
		w.done(w.Unquiesce, source)

		w.ns = w.namespace()
		warnings := strings.Join(w.restores(restore.Request{Archive: backup, NamespaceMapping: map[string]string{source.Namespaces[0]: w.ns}}), "\n")
		if n := strings.Count(warnings, "was restored stopped"); n != 7 {
			t.Errorf("%d warnings, want one about each of the 7 that ran before:\n%s", n, warnings)
		}
		says(t, warnings, "web", "before that it had 3 replicas", "before that it ran on nodes", "before that it was not suspended")
		restored := w.workloads(w.ns)
		var refs []quiesce.Ref
		for name := range restored {
			kind, name, _ := strings.Cut(name, " ")
			refs = append(refs, quiesce.Ref{Kind: quiesce.WorkloadKind(kind), Namespace: w.ns, Name: name})
		}
		if len(refs) != len(before) {
			t.Errorf("%d workloads were restored, want %d", len(refs), len(before))
		}
		if result, err := w.ReleaseExpired(t.Context(), time.Now().Add(1000*time.Hour), nil, refs...); err != nil || len(result.Items) > 0 {
			t.Errorf("a deadline of the source unquiesces %v: %v", result.Items, err)
		}
		says(t, w.done(w.Quiesce, w.request("b")).Message, "9 restored in their quiesced form")
		w.done(w.Unquiesce, w.request("b"))
		w.same(restored)
		w.awaitPods("", 0)

		says(t, w.done(w.Unquiesce, w.from(w.ns)).Message, "7 unquiesced, 2 quiesced before")
		got := w.workloads(w.ns)
		for _, all := range []map[string]any{before, got} {
			for _, o := range all {
				forget(o.(map[string]any))
			}
		}
		if diff := cmp.Diff(plain(w, before), plain(w, got)); diff != "" {
			t.Errorf("workloads (-before +restored):\n%s", diff)
		}
		w.awaitPods("", 9)
	})

	It("are not held by holders from the archive", func() {
		t := GinkgoTB()
		w := newWorld(t)
		web := deployment("web", 3)
		w.made(web)
		w.done(w.Quiesce, w.request("long ended"))
		backup := w.archived()
		w.done(w.Unquiesce, w.request("long ended"))
		w.kubectl("scale", "deployment/web", "--replicas=5")
		w.restores(restore.Request{Archive: backup, Policy: restore.ExistingUpdate})
		if w.read(web); *web.Spec.Replicas != 0 || web.Annotations[quiesce.Annotation] == "" {
			t.Fatalf("restored it has %d replicas and %v", *web.Spec.Replicas, web.Annotations)
		}
		late := quiesce.Ref{Kind: quiesce.Deployment, Namespace: w.ns, Name: "web"}
		if result, err := w.ReleaseExpired(t.Context(), time.Now().Add(1000*time.Hour), nil, late); err != nil || len(result.Items) > 0 {
			t.Errorf("a deadline unquiesces %v: %v", result.Items, err)
		}
		w.done(w.Quiesce, w.request("b"))
		w.done(w.Unquiesce, w.request("b"))
		if w.read(web); *web.Spec.Replicas != 0 {
			t.Errorf("another backup made it %d replicas", *web.Spec.Replicas)
		}
		w.done(w.Unquiesce, w.from(w.ns))
		if w.read(web); *web.Spec.Replicas != 3 || web.Annotations[quiesce.Annotation] != "" {
			t.Errorf("unquiesced, it has %d replicas and %v", *web.Spec.Replicas, web.Annotations)
		}
	})

	It("are left alone when a user started them", func() {
		t := GinkgoTB()
		w := newWorld(t)
		w.made(deployment("web", 3), deployment("off", 3), deployment("left", 3))
		w.done(w.Quiesce, w.request("a"))
		backup := w.archived()
		source := w.ns
		w.ns = w.namespace()
		w.restores(restore.Request{Archive: backup, NamespaceMapping: map[string]string{source: w.ns}})
		w.kubectl("scale", "deployment/web", "--replicas=1")
		w.kubectl("scale", "deployment/off", "--replicas=1")
		w.kubectl("scale", "deployment/off", "--replicas=0")
		result := w.done(w.Unquiesce, w.from(w.ns))
		for name, want := range map[string]quiesce.Outcome{"web": quiesce.ChangedSince, "off": quiesce.ChangedSince, "left": quiesce.Restored} {
			if got := outcome(result, quiesce.Deployment, name); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		off := &appsv1.Deployment{ObjectMeta: named("off")}
		off.Namespace = w.ns
		if w.read(off); *off.Spec.Replicas != 0 {
			t.Errorf("what was stopped by hand has %d replicas", *off.Spec.Replicas)
		}
		web := &appsv1.Deployment{ObjectMeta: named("web")}
		web.Namespace = w.ns
		if w.read(web); *web.Spec.Replicas != 1 || web.Annotations[quiesce.Annotation] != "" || web.Labels[quiesce.Label] != "" {
			t.Errorf("it has %d replicas, %v and %v", *web.Spec.Replicas, web.Annotations, web.Labels)
		}
	})
})

// forget removes what every Restore adds, and what a Job derives from its own UID.
func forget(o map[string]any) {
	labels, _ := o["labels"].(map[string]string)
	annotations, _ := o["annotations"].(map[string]string)
	delete(annotations, "grapnel.dev/restored")
	delete(labels, "grapnel.dev/backup-name")
	delete(labels, "grapnel.dev/restore-name")
	spec, _ := o["spec"].(map[string]any)
	if _, isJob := spec["completionMode"]; isJob {
		delete(spec, "selector")
		unstructured.RemoveNestedField(spec, "template", "metadata")
	}
}
