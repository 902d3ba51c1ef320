// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

// driverWith returns a Driver of Backups with these objects. Creations fail with these errors
// first.
func driverWith(t *testing.T, fails []error, objects ...client.Object) *Driver[*v1alpha1.Backup] {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if len(fails) > 0 {
				err := fails[0]
				fails = fails[1:]
				return err
			}
			return c.Create(ctx, o, opts...)
		},
	}).Build()
	logs, err := runlog.New(t.TempDir(), redact.New(), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	return &Driver[*v1alpha1.Backup]{
		steps: runner.New[any](func(types.NamespacedName) {}),
		Kind:  BackupKind, New: func() *v1alpha1.Backup { return &v1alpha1.Backup{} },
		Dependencies: Dependencies{
			Client: c, Reader: c, Logs: logs, Now: func() time.Time { return noon },
			ServerTime: func(context.Context, string) (time.Time, error) { return noon, nil },
			Operations: OperationDefaults{Timeout: 4 * time.Hour, PollInterval: 10 * time.Second},
		},
	}
}

func seconds(n time.Duration) *metav1.Duration { return &metav1.Duration{Duration: n * time.Second} }

func move(item string) itemaction.Operation {
	return itemaction.Operation{
		Kind: "AsyncBackupItemAction", Action: "x/move", Plugin: "x", ID: "op-1",
		Resource:  schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"},
		Namespace: "shop", Name: item,
		PostItems: []itemaction.RelatedItem{{Resource: schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots"}, Namespace: "shop", Name: "s"}},
	}
}

// TestNewOperationRecorder checks that an AsyncOperation has everything that is known of its
// operation.
func TestNewOperationRecorder(t *testing.T) {
	for name, tc := range map[string]struct {
		policy  *v1alpha1.OperationPolicy
		timeout *metav1.Duration
		asked   time.Duration
		want    string
	}{
		"the operator's":         {want: "4h0m0s 10s none"},
		"the Plugin's":           {policy: &v1alpha1.OperationPolicy{Timeout: seconds(60), StallTimeout: seconds(5), PollInterval: seconds(2)}, want: "1m0s 2s 5s"},
		"the Backup's timeout":   {policy: &v1alpha1.OperationPolicy{Timeout: seconds(60)}, timeout: seconds(30), want: "30s 10s none"},
		"the action's interval":  {policy: &v1alpha1.OperationPolicy{PollInterval: seconds(2)}, asked: 1234567 * time.Microsecond, want: "4h0m0s 1.234s none"},
		"an interval too short":  {asked: time.Nanosecond, want: "4h0m0s 100ms none"},
		"an interval of a month": {asked: 720 * time.Hour, want: "4h0m0s 24h0m0s none"},
	} {
		t.Run(name, func(t *testing.T) {
			d, b := driverWith(t, nil), queued("nightly", 0)
			b.Spec.ItemOperationTimeout, b.Status.Attempts = tc.timeout, 2
			b.Status.ItemActions = []v1alpha1.PlannedItemAction{
				{Name: "x/move", Kind: v1alpha1.ActionKindBackupItem, Operation: &v1alpha1.OperationPolicy{Timeout: seconds(1)}},
				{Name: "x/move", Kind: v1alpha1.ActionKindAsyncBackupItem, Operation: tc.policy},
			}
			started := move("data")
			started.PollInterval = tc.asked
			record := d.NewOperationRecorder(newScope(BackupKind, b))
			for range 2 { // creating is idempotent
				if err := record(t.Context(), started); err != nil {
					t.Fatal(err)
				}
			}
			current, repeated, err := d.listOperations(t.Context(), b)
			if err != nil || len(current) != 1 || len(repeated) != 0 {
				t.Fatalf("%d operations, %d repeated (%v), want 1", len(current), len(repeated), err)
			}
			o := current[0]
			stall := "none"
			if o.Spec.StallTimeout != nil {
				stall = o.Spec.StallTimeout.Duration.String()
			}
			if got := fmt.Sprintf("%s %s %s", o.Spec.Timeout.Duration, o.Spec.PollInterval.Duration, stall); got != tc.want {
				t.Errorf("timeout, interval and stallTimeout are %s, want %s", got, tc.want)
			}
			item := v1alpha1.OperationItem{Version: "v1", Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data"}
			after := []v1alpha1.OperationItem{{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots", Namespace: "shop", Name: "s"}}
			if o.Spec.Item != item || !slices.Equal(o.Spec.PostOperationItems, after) || o.Spec.OperationID != "op-1" || o.Spec.Attempt != 2 || o.Spec.ParentRef.UID != string(b.UID) ||
				!strings.HasPrefix(o.Name, "nightly-data-") || len(o.Name) > maxChildNameLength {
				t.Errorf("recorded %s: %+v", o.Name, o.Spec)
			}
			if !metav1.IsControlledBy(&o, b) || !slices.Contains(o.Finalizers, v1alpha1.FinalizerAsyncOperation) {
				t.Error("the operation has no finalizer, or would outlive its Backup")
			}
		})
	}
}

// TestNewOperationRecorder_Names has an action that uses the same ID for all operations, which
// differ otherwise.
func TestNewOperationRecorder_Names(t *testing.T) {
	d, b := driverWith(t, nil), queued("nightly", 0)
	record := d.NewOperationRecorder(newScope(BackupKind, b))
	other := move("a")
	other.Action = "x/scan"
	second := move("a")
	second.ID = "op-2"
	for _, started := range []itemaction.Operation{move("a"), move("b"), other, second} {
		if err := record(t.Context(), started); err != nil {
			t.Fatal(err)
		}
	}
	b.Status.Attempts = 2
	if err := d.NewOperationRecorder(newScope(BackupKind, b))(t.Context(), move("a")); err != nil {
		t.Fatal(err)
	}
	if current, repeated, _ := d.listOperations(t.Context(), b); len(current) != 1 || len(repeated) != 4 {
		t.Errorf("%d operations of this attempt and %d of the last, want 1 and 4", len(current), len(repeated))
	}
}

func TestNewOperationRecorder_Retries(t *testing.T) {
	gr := schema.GroupResource{Resource: "asyncoperations"}
	for name, tc := range map[string]struct {
		fails []error
		want  string
	}{
		"a busy API server":       {fails: []error{apierrors.NewTooManyRequestsError("busy"), errors.New("connection refused")}},
		"a terminating namespace": {fails: []error{apierrors.NewForbidden(gr, "o", errors.New("it is being terminated"))}, want: "being terminated"},
	} {
		t.Run(name, func(t *testing.T) {
			d := driverWith(t, tc.fails)
			err := d.NewOperationRecorder(newScope(BackupKind, queued("nightly", 0)))(t.Context(), move("data"))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	t.Run("until the context ends", func(t *testing.T) {
		d := driverWith(t, slices.Repeat([]error{errors.New("connection refused")}, 1000))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := d.NewOperationRecorder(newScope(BackupKind, queued("nightly", 0)))(ctx, move("data"))
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("error %v, want the last one", err)
		}
	})
}

// TestSplitByAttempt_Restore checks that operations of objects that an earlier attempt restored are
// kept.
func TestSplitByAttempt_Restore(t *testing.T) {
	of := func(item string, attempt int32) v1alpha1.AsyncOperation {
		o := v1alpha1.AsyncOperation{}
		o.Name, o.Spec.Attempt, o.Spec.Item.Name = fmt.Sprintf("%s-%d", item, attempt), attempt, item
		return o
	}
	current, repeated := RestoreKind.splitByAttempt([]v1alpha1.AsyncOperation{of("a", 1), of("b", 1), of("b", 2), of("c", 2)}, 2)
	names := func(all []v1alpha1.AsyncOperation) (names []string) {
		for _, o := range all {
			names = append(names, o.Name)
		}
		return names
	}
	if got := fmt.Sprint(names(current), names(repeated)); got != "[a-1 b-2 c-2] [b-1]" {
		t.Errorf("current and repeated are %s", got)
	}
}

// standing returns an operation of the Backup queued("nightly", 0).
func standing(name string, phase v1alpha1.AsyncOperationPhase) *v1alpha1.AsyncOperation {
	o := &v1alpha1.AsyncOperation{}
	o.Namespace, o.Name = "ns", name
	o.Labels = map[string]string{v1alpha1.LabelParentUID: "uid-nightly"}
	o.Spec.Attempt, o.Spec.Item.Name, o.Status.Phase = 1, name, phase
	switch phase {
	case v1alpha1.AsyncOperationPhaseCompleted, v1alpha1.AsyncOperationPhaseFailed, v1alpha1.AsyncOperationPhaseCancelled:
		at := v1alpha1.NewMicroTime(noon)
		o.Status.CompletionTimestamp = &at
	default:
	}
	return o
}

// TestAwaitOperations checks the status of a run while operations are running.
func TestAwaitOperations(t *testing.T) {
	const (
		running   = v1alpha1.AsyncOperationPhaseInProgress
		completed = v1alpha1.AsyncOperationPhaseCompleted
		failed    = v1alpha1.AsyncOperationPhaseFailed
	)
	for name, tc := range map[string]struct {
		phases  []v1alpha1.AsyncOperationPhase
		started int
		change  func(*Scope[*v1alpha1.Backup])

		done      bool
		phase     v1alpha1.RunPhase
		condition metav1.ConditionStatus
		says      string
		cancelled int
	}{
		"none":           {done: true},
		"one is running": {phases: []v1alpha1.AsyncOperationPhase{running, completed}, started: 2, phase: v1alpha1.RunPhaseWaitingForPluginOperations, condition: metav1.ConditionUnknown, says: "1 of 2 operations done"},
		"one failed":     {phases: []v1alpha1.AsyncOperationPhase{running, failed}, started: 2, phase: v1alpha1.RunPhaseWaitingForPluginOperationsPartiallyFailed, condition: metav1.ConditionUnknown, says: "1 failed"},
		"all completed":  {phases: []v1alpha1.AsyncOperationPhase{completed}, started: 1, done: true, condition: metav1.ConditionTrue, says: "1 of 1 operation done"},
		"all ended":      {phases: []v1alpha1.AsyncOperationPhase{completed, failed}, started: 2, done: true, condition: metav1.ConditionFalse, says: "1 failed"},
		"one was deleted without its finalizer": {
			phases: []v1alpha1.AsyncOperationPhase{completed}, started: 2, done: true, condition: metav1.ConditionFalse, says: "1 AsyncOperation deleted without finalizer",
		},
		"the Backup is canceled": {
			phases: []v1alpha1.AsyncOperationPhase{running, completed}, started: 2,
			change: func(s *Scope[*v1alpha1.Backup]) { s.Object.Spec.DesiredState = v1alpha1.DesiredStateCancel },
			phase:  v1alpha1.RunPhaseWaitingForPluginOperations, condition: metav1.ConditionUnknown, says: "1 of 2", cancelled: 1,
		},
		"the archive failed": {
			phases: []v1alpha1.AsyncOperationPhase{running}, change: func(s *Scope[*v1alpha1.Backup]) { s.WorkFailed = true },
			phase: v1alpha1.RunPhaseWaitingForPluginOperations, condition: metav1.ConditionUnknown, says: "0 of 1", cancelled: 1,
		},
		"an earlier attempt's": {
			phases: []v1alpha1.AsyncOperationPhase{running}, change: func(s *Scope[*v1alpha1.Backup]) { s.Object.Status.Attempts = 2 },
			done: true, cancelled: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			for i, phase := range tc.phases {
				objects = append(objects, standing(fmt.Sprint("o", i), phase))
			}
			d, b := driverWith(t, nil, objects...), queued("nightly", 0)
			b.Status.Attempts = 1
			s := newScope(BackupKind, b)
			if tc.started > 0 {
				s.MarkItemsProcessed(tc.started)
			}
			if tc.change != nil {
				tc.change(s)
			}
			done, err := d.AwaitOperations(t.Context(), s)
			if err != nil || done != tc.done {
				t.Fatalf("done: %v (%v), want %v", done, err, tc.done)
			}
			if _, isOpen := d.Logs.OpenLogger(runlog.Run{UID: string(b.UID)}, runlog.Main, new(runlog.Budget)); isOpen == done {
				t.Errorf("after this operator took over, the log for lines of the operations is open: %v", isOpen)
			}
			if b.GetPhase() != tc.phase {
				t.Errorf("phase %s, want %s", b.GetPhase(), tc.phase)
			}
			if c := conditions.Get(b, v1alpha1.ConditionOperationsSucceeded); tc.condition == "" && c != nil ||
				tc.condition != "" && (c == nil || c.Status != tc.condition || !strings.Contains(c.Message, tc.says)) {
				t.Errorf("the condition is %+v, want %s: %s", c, tc.condition, tc.says)
			}
			if got := cancelledAfter(t, d, s); got != tc.cancelled {
				t.Errorf("%d operations are to be canceled, want %d", got, tc.cancelled)
			}
		})
	}
}

// cancelledAfter calls the functions that follow the status write, and returns how many
// operations are to be canceled then.
func cancelledAfter(t *testing.T, d *Driver[*v1alpha1.Backup], s *Scope[*v1alpha1.Backup]) (n int) {
	t.Helper()
	for _, f := range s.afterUpdate {
		if err := f(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var list v1alpha1.AsyncOperationList
	if err := d.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		if o.Spec.DesiredState == v1alpha1.DesiredStateCancel && o.Spec.CancelReason != "" {
			n++
		}
	}
	return n
}
