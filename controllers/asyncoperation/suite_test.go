// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/asyncoperation"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

var cluster suite.Cluster

var (
	_ = BeforeSuite(func() { Expect(cluster.Start()).To(Succeed()) })
	_ = AfterSuite(func() { Expect(cluster.Stop()).To(Succeed()) })
)

func TestController(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "AsyncOperation controller")
}

// asked is a call that a plugin received.
type asked struct {
	Plugin, Kind string
	Call         pluginclient.ItemCall
	Operation    pluginclient.OperationRef
}

// plugin is the behavior of all plugins of a test, and a record of their calls.
type plugin struct {
	// progress answers the nth poll of an operation, starting at 0.
	progress func(ctx context.Context, a asked, n int) (item.Progress, error)
	// cancel answers a Cancel; by default it acknowledges.
	cancel func(ctx context.Context, a asked) error
	// missing is the error for an action that does not exist.
	missing func() error
	// loading, if set, is closed when loading the plugins was attempted.
	loading chan struct{}

	mu      sync.Mutex
	polls   []asked
	cancels []asked
	perID   map[string]int
}

// BackupItemAction implements asyncoperation.Actions.
func (p *plugin) BackupItemAction(plugin, kind, _ string) pluginclient.ResolveFunc[pluginclient.BackupItemAction] {
	return func() (pluginclient.Connection, pluginclient.BackupItemAction, error) {
		c := &direct{}
		return c, backupAction{action: action{p, plugin, kind, c}}, p.there()
	}
}

// RestoreItemAction implements asyncoperation.Actions.
func (p *plugin) RestoreItemAction(plugin, kind, _ string) pluginclient.ResolveFunc[pluginclient.RestoreItemAction] {
	return func() (pluginclient.Connection, pluginclient.RestoreItemAction, error) {
		c := &direct{}
		return c, restoreAction{action: action{p, plugin, kind, c}}, p.there()
	}
}

func (p *plugin) there() error {
	if p.missing != nil {
		return p.missing()
	}
	return nil
}

// LoadAttempted implements asyncoperation.Actions.
func (p *plugin) LoadAttempted(string) <-chan struct{} {
	if p.loading != nil {
		return p.loading
	}
	tried := make(chan struct{})
	close(tried)
	return tried
}

// questions returns how often Progress and Cancel were called for an operation.
func (p *plugin) questions(id string) (polls, cancels int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.cancels {
		if a.Operation.OperationID == id {
			cancels++
		}
	}
	return p.perID[id], cancels
}

// direct is a connection to an action of a test, for one call.
type direct struct {
	// log has the lines that the plugin logs during the call.
	log logr.Logger
}

// Begin implements pluginclient.Connection.
func (d *direct) Begin(_ context.Context, call host.Call) (host.OpenCall, error) {
	d.log = call.Log
	return plugintesting.Call{CallID: "call-1"}, nil
}

// action is an action of a plugin.
type action struct {
	*plugin
	name, kind string
	call       *direct
}

type (
	backupAction struct {
		pluginclient.BackupItemAction
		action
	}
	restoreAction struct {
		pluginclient.RestoreItemAction
		action
	}
)

// Progress implements pluginclient.Operations.
func (b backupAction) Progress(ctx context.Context, call pluginclient.ItemCall, op pluginclient.OperationRef) (item.Progress, error) {
	return b.poll(ctx, call, op)
}

// Cancel implements pluginclient.Operations.
func (b backupAction) Cancel(ctx context.Context, call pluginclient.ItemCall, op pluginclient.OperationRef) error {
	return b.stop(ctx, call, op)
}

// Progress implements pluginclient.Operations.
func (b restoreAction) Progress(ctx context.Context, call pluginclient.ItemCall, op pluginclient.OperationRef) (item.Progress, error) {
	return b.poll(ctx, call, op)
}

// Cancel implements pluginclient.Operations.
func (b restoreAction) Cancel(ctx context.Context, call pluginclient.ItemCall, op pluginclient.OperationRef) error {
	return b.stop(ctx, call, op)
}

func (a action) poll(ctx context.Context, call pluginclient.ItemCall, op pluginclient.OperationRef) (item.Progress, error) {
	a.call.log.Info("Reading the progress with hunter22")
	question := asked{Plugin: a.name, Kind: a.kind, Call: call, Operation: op}
	a.mu.Lock()
	if a.perID == nil {
		a.perID = map[string]int{}
	}
	n := a.perID[op.OperationID]
	a.perID[op.OperationID]++
	a.polls = append(a.polls, question)
	a.mu.Unlock()
	return a.progress(ctx, question, n)
}

func (a action) stop(ctx context.Context, call pluginclient.ItemCall, op pluginclient.OperationRef) error {
	a.call.log.Info("Stopping the copy")
	question := asked{Plugin: a.name, Kind: a.kind, Call: call, Operation: op}
	a.mu.Lock()
	a.cancels = append(a.cancels, question)
	a.mu.Unlock()
	if a.cancel == nil {
		return nil
	}
	return a.cancel(ctx, question)
}

// answers returns a plugin that gives these answers in order, and then repeats the last
// one.
func answers(list ...any) *plugin {
	return &plugin{progress: func(_ context.Context, _ asked, n int) (item.Progress, error) {
		switch answer := list[min(n, len(list)-1)].(type) {
		case item.Progress:
			return answer, nil
		case error:
			return item.Progress{}, answer
		default:
			return item.Progress{}, fmt.Errorf("a test gave %T", answer)
		}
	}}
}

// onceCancelled returns a plugin whose operations run until they are canceled, and then
// give this answer.
func onceCancelled(answer item.Progress) *plugin {
	p := &plugin{}
	p.progress = func(_ context.Context, a asked, _ int) (item.Progress, error) {
		if _, cancels := p.questions(a.Operation.OperationID); cancels > 0 {
			return answer, nil
		}
		return half, nil
	}
	return p
}

func stoppable() *plugin { return onceCancelled(item.Progress{Completed: true, Cancelled: true}) }

var (
	done    = item.Progress{Completed: true, NCompleted: 5, NTotal: 5, OperationUnits: "objects"}
	half    = item.Progress{NCompleted: 100 << 20, NTotal: 200 << 20, OperationUnits: "bytes", Description: "copying"}
	errBusy = errors.New("the service is busy")
)

// writable effectively removes the limit of writes.
func writable(r *asyncoperation.Reconciler) { r.Limits.WritesPerSecond = 10_000 }

// operator starts an operator with this plugin.
func operator(t testing.TB, env *suite.Env, p *plugin, options ...func(*asyncoperation.Reconciler)) (stop func()) {
	t.Helper()
	return env.StartManager(func(mgr ctrl.Manager) error {
		metrics, err := asyncoperation.NewMetrics(prometheus.NewRegistry())
		if err != nil {
			return err
		}
		logs, err := runlog.New(t.TempDir(), redact.New(), logr.Discard())
		if err != nil {
			return err
		}
		r := &asyncoperation.Reconciler{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Actions: p,
			Recorder: mgr.GetEventRecorder("grapnel"), Redactor: redact.New("hunter22"), Logs: logs, Metrics: metrics,
		}
		writable(r)
		for _, option := range options {
			option(r)
		}
		return r.SetupWithManager(mgr)
	})
}

// backup creates the Backup that is the parent of operations.
func backup(env *suite.Env, edits ...func(*v1alpha1.Backup)) *v1alpha1.Backup {
	b := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "nightly-"},
		Spec:       v1alpha1.BackupSpec{StorageLocation: "main"},
	}
	for _, edit := range edits {
		edit(b)
	}
	return suite.Create(env, b)
}

// conclude finishes a Backup, as its controller does.
func conclude(t testing.TB, env *suite.Env, b *v1alpha1.Backup) {
	t.Helper()
	at := metav1.Now()
	b.Status.CompletionTimestamp = &at
	if err := env.Client.Status().Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// begin creates an operation for a Backup, as the Backup's controller does.
func begin(env *suite.Env, b *v1alpha1.Backup, edits ...func(*v1alpha1.AsyncOperation)) *v1alpha1.AsyncOperation {
	op := &v1alpha1.AsyncOperation{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "copy-", Finalizers: []string{v1alpha1.FinalizerAsyncOperation},
			Labels: map[string]string{v1alpha1.LabelParentUID: string(b.UID)},
		},
		Spec: v1alpha1.AsyncOperationSpec{
			ParentRef: v1alpha1.ParentReference{Kind: "Backup", Name: b.Name, UID: string(b.UID)},
			Kind:      v1alpha1.ActionKindAsyncBackupItem, ActionName: "example.io/copy",
			PluginRef: v1alpha1.PluginReference{Name: "example"}, OperationID: "job-1",
			Item:    v1alpha1.OperationItem{Version: "v1", Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data"},
			Attempt: 1, Timeout: metav1.Duration{Duration: time.Hour}, PollInterval: metav1.Duration{Duration: 100 * time.Millisecond},
			DesiredState: v1alpha1.DesiredStateRun,
		},
	}
	for _, edit := range edits {
		edit(op)
	}
	return suite.Create(env, op)
}

func callResult(id string) func(*v1alpha1.AsyncOperation) {
	return func(op *v1alpha1.AsyncOperation) { op.Spec.OperationID = id }
}

func ofPlugin(name string) func(*v1alpha1.AsyncOperation) {
	return func(op *v1alpha1.AsyncOperation) { op.Spec.PluginRef.Name = name }
}

func cancel(op *v1alpha1.AsyncOperation) {
	op.Spec.DesiredState, op.Spec.CancelReason = v1alpha1.DesiredStateCancel, "joe wants that"
}

// await waits for a phase that is about the current generation, and stores the object in op.
func await(env *suite.Env, op *v1alpha1.AsyncOperation, phase v1alpha1.AsyncOperationPhase) {
	suite.WaitFor(env, op, func(op *v1alpha1.AsyncOperation) string {
		if op.Status.Phase == phase && op.Status.ObservedGeneration == op.Generation {
			return ""
		}
		return fmt.Sprintf("the operation is %q (%s), want %s", op.Status.Phase, op.Status.Message, phase)
	})
}
