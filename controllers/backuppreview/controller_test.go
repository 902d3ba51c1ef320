// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backuppreview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/runner"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
)

var previewTime = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// newPreviewPlugin returns a Plugin that provides actions, written KIND NAME.
func newPreviewPlugin(actions ...string) v1alpha1.Plugin {
	p := v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "hooks", Generation: 1}}
	for _, action := range actions {
		kind, name, _ := strings.Cut(action, " ")
		p.Status.Actions = append(p.Status.Actions, v1alpha1.ProvidedAction{Kind: v1alpha1.ActionKind(kind), Name: name})
	}
	conditions.SetSummary(&p, conditions.Current, v1alpha1.ReasonLoaded, "The plugin runs")
	return p
}

func TestDecidePreview(t *testing.T) {
	main := location.Choice{Location: &v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Name: "main"}}}
	loading := v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "slow"}}
	outcome := func(found results.Results, err error) *runner.Outcome[previewResult] {
		return &runner.Outcome[previewResult]{
			Value: previewResult{ArchiveResult: backup.ArchiveResult{Items: 3, Results: found}, archiveBytes: 512}, Err: err,
		}
	}
	volumeWarning := results.Problem{Reason: results.ReasonDataNotCaptured, Message: "the data is not captured"}
	for name, tc := range map[string]struct {
		template v1alpha1.BackupTemplate
		seen     observedPreview
		start    bool
		phase    v1alpha1.RunPhase
		// message is a part of the message.
		message string
		// actions are written POINT NAME, and resources RESOURCE COUNT.
		actions, resources []string
	}{
		"starts":                {seen: observedPreview{location: main}, start: true, phase: "InProgress", message: "Reading the objects"},
		"waits for another one": {seen: observedPreview{location: main, busy: true}, phase: "New", message: "one is made at a time"},
		"waits for a Plugin": {
			seen: observedPreview{location: main, plugins: []v1alpha1.Plugin{loading}}, phase: "New", message: "Waiting for Plugin slow",
		},
		"waits for the location": {
			seen: observedPreview{location: location.Choice{Waiting: "Waiting until it has been checked"}}, phase: "New", message: "has been checked",
		},
		"the location is missing": {
			seen: observedPreview{location: location.Choice{Missing: "there is no location"}}, phase: "FailedValidation", message: "there is no location",
		},
		"the spec is invalid, and so is the location": {
			template: v1alpha1.BackupTemplate{Spec: v1alpha1.BackupSpec{OrderedResources: map[string]v1alpha1.OrderedNames{"pods": "a/b/c"}}},
			seen:     observedPreview{location: location.Choice{Problem: "it is read-only"}}, phase: "FailedValidation", message: "with 2 problems",
		},
		"actions in their order": {
			template: v1alpha1.BackupTemplate{Metadata: v1alpha1.TemplateMetadata{Annotations: map[string]v1alpha1.ParameterValue{"example.io/audit.postbackup": "skip"}}},
			seen: observedPreview{location: main, plugins: []v1alpha1.Plugin{newPreviewPlugin(
				"PostBackupAction example.io/freeze", "PreBackupAction example.io/freeze", "BackupItemAction example.io/snapshot", "PostBackupAction example.io/audit",
			)}},
			start: true, phase: "InProgress", message: "Reading",
			actions: []string{"PreBackup example.io/freeze", " example.io/snapshot", "PostBackup example.io/freeze owed", "PostBackup example.io/audit skipped"},
		},
		"reads": {seen: observedPreview{location: main, running: true}, phase: ""},
		"found objects": {
			seen: observedPreview{location: main, running: true, outcome: outcome(results.Results{
				Objects: results.ResourceSummaries{{Resource: "configmaps", Objects: 2, Bytes: 20}, {Resource: "secrets", Objects: 1, Bytes: 5}},
			}, nil)},
			phase: "Completed", message: "A Backup would archive 3 objects", resources: []string{"configmaps 2", "secrets 1"},
		},
		"found errors": {
			seen: observedPreview{location: main, running: true, outcome: outcome(results.Results{
				Errors: results.Problems{{Reason: "Forbidden", Message: "pods are forbidden"}}, ErrorCount: 1,
			}, nil)},
			phase: "PartiallyFailed", message: "3 objects, with 1 error: pods are forbidden",
		},
		"found volumes": {
			seen: observedPreview{location: main, running: true, outcome: outcome(results.Results{
				Warnings: results.Problems{volumeWarning}, WarningCount: 1,
			}, nil)},
			phase: "Completed", message: "with 1 warning: the data is not captured",
		},
		"found volumes whose data is required": {
			template: v1alpha1.BackupTemplate{Spec: v1alpha1.BackupSpec{Volumes: &v1alpha1.BackupVolumes{RequireCaptured: true}}},
			seen: observedPreview{location: main, running: true, outcome: outcome(results.Results{
				Warnings: results.Problems{volumeWarning}, WarningCount: 1,
			}, nil)},
			phase: "FailedValidation", message: "would fail validation: the data is not captured",
		},
		"failed": {
			seen:  observedPreview{location: main, running: true, outcome: outcome(results.Results{}, errors.New("the API server is gone"))},
			phase: "Failed", message: "Reading the objects failed: the API server is gone",
		},
		"crashed": {seen: observedPreview{location: main, crashed: true}, phase: "Failed", message: "The operator crashed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &v1alpha1.BackupPreview{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "preview"}}
			p.Spec.Template = tc.template
			tc.seen.redactor = redact.New()
			start := decidePreview(p, tc.seen, previewTime)
			if start != tc.start || p.Status.Phase != tc.phase || !strings.Contains(p.Status.Message, tc.message) {
				t.Errorf("start %v, %s: %q; want %v, %s: %q", start, p.Status.Phase, p.Status.Message, tc.start, tc.phase, tc.message)
			}
			if want := previewTime.Add(previewLifetime); !p.Status.ExpirationTimestamp.Time.Equal(want) {
				t.Errorf("it expires %s, want %s", p.Status.ExpirationTimestamp, want)
			}
			var actions, resources []string
			for _, a := range p.Status.Actions {
				text := string(a.Hook) + " " + a.ActionName
				if a.Owed {
					text += " owed"
				}
				if a.Skipped != "" {
					text += " skipped"
				}
				actions = append(actions, text)
			}
			for _, r := range p.Status.Resources {
				resources = append(resources, fmt.Sprint(r.Resource, " ", r.Objects))
			}
			if diff := cmp.Diff(tc.actions, actions); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.resources, resources); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}

// blockingEngine archives nothing until it is released or canceled.
type blockingEngine struct{ release, canceled chan struct{} }

// WriteArchive implements backup.ArchiveWriter.
func (e *blockingEngine) WriteArchive(ctx context.Context, _ backup.ArchiveRequest, w io.Writer) (backup.ArchiveResult, error) {
	select {
	case <-e.release:
		n, err := w.Write(make([]byte, 100))
		return backup.ArchiveResult{Items: n}, err
	case <-ctx.Done():
		close(e.canceled)
		return backup.ArchiveResult{}, ctx.Err()
	}
}

// noActions has no actions of plugins.
type noActions struct{}

func (noActions) BackupItemAction(string, string, string) pluginclient.ResolveFunc[pluginclient.BackupItemAction] {
	return nil
}

// previewTest has a Reconciler without a manager.
type previewTest struct {
	testing.TB
	*Reconciler
	engine *blockingEngine
	now    time.Time
}

func newPreviewTest(t *testing.T, names ...string) *previewTest {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	main := &v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "default", Generation: 1}}
	conditions.Set(main, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAvailable, "")
	objects := []client.Object{main}
	for _, name := range names {
		objects = append(objects, &v1alpha1.BackupPreview{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}})
	}
	test := &previewTest{TB: t, engine: &blockingEngine{release: make(chan struct{}), canceled: make(chan struct{})}, now: previewTime}
	test.Reconciler = &Reconciler{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.BackupPreview{}).Build(),
		Engine: test.engine, Redactor: redact.New(), Actions: noActions{}, Now: func() time.Time { return test.now },
		events: make(chan event.GenericEvent, 8),
	}
	test.previews = runner.New[previewResult](test.enqueuePreview)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- test.previews.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	return test
}

// reconcile reconciles a BackupPreview, and returns its phase; empty if it does not exist.
func (t *previewTest) reconcile(name string) v1alpha1.RunPhase {
	t.Helper()
	key := types.NamespacedName{Namespace: "ns", Name: name}
	if _, err := t.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	var p v1alpha1.BackupPreview
	if err := t.Client.Get(t.Context(), key, &p); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return p.Status.Phase
}

// awaitStart reconciles a BackupPreview until its objects are being read: the Runner may not have
// started.
func (t *previewTest) awaitStart(name string) {
	t.Helper()
	for t.active == nil {
		t.reconcile(name)
	}
}

func (t *previewTest) expectPhase(name string, want v1alpha1.RunPhase) {
	t.Helper()
	if got := t.reconcile(name); got != want {
		t.Errorf("%s is %q, want %q", name, got, want)
	}
}

// awaitEvent returns the name of the next BackupPreview that is reconciled by itself.
func (t *previewTest) awaitEvent() string {
	t.Helper()
	select {
	case e := <-t.events:
		return e.Object.GetName()
	case <-time.After(time.Minute):
		t.Fatal("nothing was enqueued")
	}
	return ""
}

func TestReconcilePreview(t *testing.T) {
	t.Run("one at a time", func(t *testing.T) {
		test := newPreviewTest(t, "a", "b")
		test.awaitStart("a")
		test.expectPhase("b", "New")
		test.expectPhase("a", "InProgress")
		close(test.engine.release)
		if got := test.awaitEvent(); got != "a" {
			t.Errorf("%s was enqueued", got)
		}
		test.expectPhase("a", "Completed")
		if got := test.awaitEvent(); got != "b" {
			t.Errorf("%s was enqueued", got)
		}
		test.expectPhase("b", "InProgress")
		test.awaitEvent()
		test.expectPhase("b", "Completed")
	})
	t.Run("deleted", func(t *testing.T) {
		test := newPreviewTest(t, "a", "b")
		test.awaitStart("a")
		test.expectPhase("b", "New")
		if err := test.Client.Delete(t.Context(), &v1alpha1.BackupPreview{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}); err != nil {
			t.Fatal(err)
		}
		test.expectPhase("a", "")
		select {
		case <-test.engine.canceled:
		case <-time.After(time.Minute):
			t.Fatal("the objects of the deleted BackupPreview are still being read")
		}
		test.awaitEvent()
		test.expectPhase("a", "")
		if got := test.awaitEvent(); got != "b" {
			t.Errorf("%s was enqueued", got)
		}
		if test.active != nil {
			t.Error("the deleted BackupPreview is still active")
		}
	})
	t.Run("replaced by one of the same name", func(t *testing.T) {
		test := newPreviewTest(t, "a", "b")
		test.awaitStart("a")
		old := &v1alpha1.BackupPreview{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
		if err := test.Client.Delete(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		if err := test.Client.Create(t.Context(), &v1alpha1.BackupPreview{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "another"}}); err != nil {
			t.Fatal(err)
		}
		// The old one may end before or after the new one is reconciled first.
		if test.reconcile("a") == v1alpha1.RunPhaseNew {
			if got := test.awaitEvent(); got != "a" {
				t.Errorf("%s was enqueued", got)
			}
			test.expectPhase("a", "InProgress")
		}
		if test.active == nil || test.active.uid != "another" {
			t.Errorf("the active one is %+v", test.active)
		}
	})
	t.Run("expired", func(t *testing.T) {
		test := newPreviewTest(t, "a")
		test.awaitStart("a")
		close(test.engine.release)
		test.awaitEvent()
		test.expectPhase("a", "Completed")
		test.now = previewTime.Add(previewLifetime)
		test.expectPhase("a", "")
	})
}
