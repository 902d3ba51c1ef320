// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun_test

import (
	"cmp"
	"context"
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
	"github.com/grapnel-dev/grapnel/controllers/hookrun"
	"github.com/grapnel-dev/grapnel/internal/executor"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var cluster suite.Cluster

var (
	_ = BeforeSuite(func() { Expect(cluster.Start()).To(Succeed()) })
	_ = AfterSuite(func() { Expect(cluster.Stop()).To(Succeed()) })
)

func TestController(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "HookRun controller")
}

// execute is what an action of a test does.
type execute func(ctx context.Context, call executor.Call) (executor.Answer, error)

// actions is a Catalog with one action for every name, and a record of its calls.
type actions struct {
	do execute
	// missing is the error for an action that does not exist.
	missing error
	// plugin provides the actions; "example" by default.
	plugin string
	// loading, if set, is closed when loading the plugins was attempted.
	loading chan struct{}
	// resumes means that calls continue without the operator. stopped receives the calls
	// that were stopped.
	resumes bool
	stopped chan executor.Call
	// withdrawn means that the Plugin no longer provides the actions.
	withdrawn bool
	// stuck means that stopping a call takes until the operator ends.
	stuck bool
	// ended returns the result of a call that ended while no operator was running.
	ended execute

	mu    sync.Mutex
	calls []executor.Call
}

// Executor implements hookrun.Catalog.
func (a *actions) Executor(plugin, kind, action string) (executor.Executor, error) {
	if a.withdrawn {
		return nil, fmt.Errorf("resolving: %w", pluginclient.ErrNoSuchAction)
	}
	if a.missing != nil {
		return nil, a.missing
	}
	one := bound{actions: a, id: plugin + " " + kind + " " + action}
	if a.resumes {
		return resuming{one}, nil
	}
	return one, nil
}

// ResumableExecutor implements hookrun.Catalog.
func (a *actions) ResumableExecutor(string) executor.Resumable {
	if !a.resumes {
		return nil
	}
	return resuming{bound{actions: a}}
}

// LoadAttempted implements hookrun.Catalog.
func (a *actions) LoadAttempted(string) <-chan struct{} {
	if a.loading != nil {
		return a.loading
	}
	tried := make(chan struct{})
	close(tried)
	return tried
}

type bound struct {
	actions *actions
	id      string
}

// Execute implements executor.Executor.
func (b bound) Execute(ctx context.Context, call executor.Call) (executor.Answer, error) {
	if want := cmp.Or(b.actions.plugin, "example") + " " + call.ActionKind() + " " + call.Action; b.id != want {
		return executor.Answer{}, fmt.Errorf("called %q, want %q", b.id, want)
	}
	b.actions.mu.Lock()
	b.actions.calls = append(b.actions.calls, call)
	b.actions.mu.Unlock()
	return b.actions.do(ctx, call)
}

// resuming is an executor whose calls continue without the operator.
type resuming struct{ bound }

// CollectResult implements executor.Resumable.
func (r resuming) CollectResult(ctx context.Context, call executor.Call, _ time.Time) (executor.Answer, bool, error) {
	if r.actions.ended == nil {
		return executor.Answer{}, false, nil
	}
	answer, err := r.actions.ended(ctx, call)
	return answer, executor.ErrorKindOf(err) != executor.Timeout, err
}

// Stop implements executor.Resumable.
func (r resuming) Stop(ctx context.Context, call executor.Call) error {
	if r.actions.stopped != nil {
		r.actions.stopped <- call
	}
	if r.actions.stuck {
		<-ctx.Done()
		return executor.NewError(executor.Unreachable, call, "stopping failed", ctx.Err())
	}
	return nil
}

// made returns the attempt numbers of the calls so far.
func (a *actions) made() []int32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var numbers []int32
	for _, call := range a.calls {
		numbers = append(numbers, call.Attempt)
	}
	return numbers
}

func (a *actions) call(i int) executor.Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[i]
}

// operator starts an operator with these actions.
func operator(t testing.TB, env *suite.Env, do *actions, options ...func(*hookrun.Reconciler)) (stop func(), logs *runlog.Store) {
	t.Helper()
	logs, err := runlog.New(t.TempDir(), redact.New(), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	return env.StartManager(func(mgr ctrl.Manager) error {
		metrics, err := hookrun.NewMetrics(prometheus.NewRegistry())
		if err != nil {
			return err
		}
		r := &hookrun.Reconciler{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Catalog: do,
			Recorder: mgr.GetEventRecorder("grapnel"), Logs: logs, Metrics: metrics,
		}
		for _, option := range options {
			option(r)
		}
		return r.SetupWithManager(mgr)
	}), logs
}

// createBackup creates the Backup that is the parent of the HookRuns.
func createBackup(env *suite.Env) *v1alpha1.Backup {
	return suite.Create(env, &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "nightly-"},
		Spec:       v1alpha1.BackupSpec{StorageLocation: "main"},
	})
}

// plan creates a HookRun for a Backup, as the controller of the Backup does.
func plan(env *suite.Env, backup *v1alpha1.Backup, edits ...func(*v1alpha1.HookRun)) *v1alpha1.HookRun {
	run := &v1alpha1.HookRun{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "run-", Finalizers: []string{v1alpha1.FinalizerHookRun},
			Labels: map[string]string{v1alpha1.LabelParentUID: string(backup.UID), v1alpha1.LabelHook: string(v1alpha1.HookPreBackup)},
		},
		Spec: v1alpha1.HookRunSpec{
			Hook: v1alpha1.HookPreBackup, ActionName: "example.io/freeze",
			PluginRef:     v1alpha1.PluginReference{Name: "example"},
			ParentRef:     v1alpha1.ParentReference{Kind: "Backup", Name: backup.Name, UID: string(backup.UID)},
			Timeout:       metav1.Duration{Duration: time.Minute},
			FailurePolicy: v1alpha1.FailurePolicyFail, OnInterruption: v1alpha1.InterruptionPolicyRetry,
			DesiredState: v1alpha1.HookDesiredStateRun,
		},
	}
	for _, edit := range edits {
		edit(run)
	}
	run.Labels[v1alpha1.LabelHook] = string(run.Spec.Hook)
	return suite.Create(env, run)
}

// waitForPhase waits until the HookRun has a phase, and updates run.
func waitForPhase(env *suite.Env, run *v1alpha1.HookRun, phase v1alpha1.HookRunPhase) {
	suite.WaitFor(env, run, func(run *v1alpha1.HookRun) string {
		if run.Status.Phase == phase && run.Status.ObservedGeneration == run.Generation {
			return ""
		}
		return fmt.Sprintf("the HookRun is %q (%s), want %s", run.Status.Phase, run.Status.Message, phase)
	})
}

// awaitRemoved waits until the leftovers of a finished HookRun are removed.
func awaitRemoved(env *suite.Env, run *v1alpha1.HookRun) {
	suite.WaitFor(env, run, func(run *v1alpha1.HookRun) string {
		if run.Status.CompletionTimestamp == nil || run.Status.Removing {
			return fmt.Sprintf("the HookRun is %q, status.removing = %t", run.Status.Phase, run.Status.Removing)
		}
		return ""
	})
}

func desire(state v1alpha1.HookDesiredState) func(*v1alpha1.HookRun) {
	return func(run *v1alpha1.HookRun) { run.Spec.DesiredState = state }
}
