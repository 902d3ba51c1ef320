// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/hookrun"
	"github.com/grapnel-dev/grapnel/internal/executor"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("A HookRun", Label("hooks"), func() {
	It("is called once and reports its status, events and log", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		backup := createBackup(env)
		recorded := make(chan v1alpha1.HookRunStatus, 2)
		var key client.ObjectKey
		release := make(chan struct{})
		do := &actions{do: func(ctx context.Context, call executor.Call) (executor.Answer, error) {
			var now v1alpha1.HookRun
			if err := env.Client.Get(ctx, key, &now); err != nil {
				return executor.Answer{}, executor.NewError(executor.Failed, call, err.Error(), err)
			}
			recorded <- now.Status
			logr.FromContextOrDiscard(ctx).Info("Freezing the database")
			<-release
			return executor.Answer{Message: "frozen 3 databases", Outputs: map[string]string{"replicas": "3"}}, nil
		}}
		run := plan(env, backup, desire(v1alpha1.HookDesiredStateWait), func(run *v1alpha1.HookRun) {
			run.Spec.Parameters = v1alpha1.ParameterSet{"mode": "deep"}
		})
		key = client.ObjectKeyFromObject(run)
		_, logs := operator(t, env, do)
		waitForPhase(env, run, v1alpha1.HookRunPhasePending)
		suite.UpdateWithRetry(env, run, desire(v1alpha1.HookDesiredStateRun))
		waitForPhase(env, run, v1alpha1.HookRunPhaseInProgress)
		close(release)
		waitForPhase(env, run, v1alpha1.HookRunPhaseCompleted)

		if s := <-recorded; s.Phase != v1alpha1.HookRunPhaseInProgress || len(s.Attempts) != 1 || s.Attempts[0].CompletionTimestamp != nil {
			t.Errorf("status at the time of the call: %+v, want an open attempt", s)
		}
		if diff := cmp.Diff([]int32{1}, do.made()); diff != "" {
			t.Fatalf("calls (-want +got):\n%s", diff)
		}
		call := do.call(0)
		var told v1alpha1.Backup
		if err := json.Unmarshal(call.Subject, &told); err != nil || told.Name != backup.Name || told.Kind != "Backup" || told.APIVersion != "grapnel.dev/v1alpha1" {
			t.Errorf("the action received %s (%v), want Backup %s", call.Subject, err, backup.Name)
		}
		call.Subject = nil
		want := executor.Call{Point: "PreBackup", Action: "example.io/freeze", Key: string(run.UID), Attempt: 1, Parameters: map[string]string{"mode": "deep"}}
		if diff := cmp.Diff(want, call); diff != "" {
			t.Errorf("the call (-want +got):\n%s", diff)
		}
		if run.Status.Message != "frozen 3 databases" || run.Status.Outputs["replicas"] != "3" || run.Status.Duration == "" {
			t.Errorf("the status is %+v", run.Status)
		}
		env.WaitForEvent(run, "Normal Running: Running attempt 1")
		env.WaitForEvent(run, "Normal Completed: frozen 3 databases")
		checkLog(t, logs, string(backup.UID), runlog.Main, "Freezing the database")
		checkLog(t, logs, string(backup.UID), runlog.PostActions, "")
	})

	It("passes the outputs of the Pre action to clean-up", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		backup, other := createBackup(env), createBackup(env)
		do := &actions{do: func(ctx context.Context, call executor.Call) (executor.Answer, error) {
			logr.FromContextOrDiscard(ctx).Info("Working at " + call.Point)
			return executor.Answer{Outputs: map[string]string{"from": call.Point}}, nil
		}}
		_, logs := operator(t, env, do)
		waitForPhase(env, plan(env, other, func(run *v1alpha1.HookRun) { run.Spec.ActionName = "example.io/other" }), v1alpha1.HookRunPhaseCompleted)
		waitForPhase(env, plan(env, backup), v1alpha1.HookRunPhaseCompleted)
		post := plan(env, backup, func(run *v1alpha1.HookRun) { run.Spec.Hook = v1alpha1.HookPostBackup })
		waitForPhase(env, post, v1alpha1.HookRunPhaseCompleted)
		if got, want := do.call(2).Outputs, map[string]map[string]string{"example.io/freeze": {"from": "PreBackup"}}; !cmp.Equal(want, got) {
			t.Errorf("the PostBackup action received the outputs %v, want %v", got, want)
		}
		checkLog(t, logs, string(backup.UID), runlog.Main, "Working at PreBackup")
		checkLog(t, logs, string(backup.UID), runlog.PostActions, "Working at PostBackup")
	})

	It("makes one call per attempt", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		answers := make(chan func(call executor.Call) (executor.Answer, error), 3)
		answers <- func(executor.Call) (executor.Answer, error) {
			return executor.Answer{RetryAfter: executor.MinRetryAfter, Message: "half way"}, nil
		}
		answers <- func(call executor.Call) (executor.Answer, error) {
			return executor.Answer{}, executor.NewError(executor.Failed, call, "the database is busy", nil)
		}
		answers <- func(executor.Call) (executor.Answer, error) { return executor.Answer{}, nil }
		do := &actions{do: func(_ context.Context, call executor.Call) (executor.Answer, error) { return (<-answers)(call) }}
		run := plan(env, createBackup(env), func(run *v1alpha1.HookRun) { run.Spec.Retries = 1 })
		operator(t, env, do)
		waitForPhase(env, run, v1alpha1.HookRunPhaseCompleted)
		if diff := cmp.Diff([]int32{1, 1, 2}, do.made()); diff != "" {
			t.Errorf("the attempts of the calls (-want +got):\n%s", diff)
		}
		if len(run.Status.Attempts) != 2 || !strings.Contains(run.Status.Attempts[0].Message, "the database is busy") {
			t.Errorf("the attempts are %+v", run.Status.Attempts)
		}
		for _, text := range []string{"Normal CalledAgainLater: half way", "Warning Retrying: Attempt 1 failed and will be retried: the database is busy", "Normal Completed: Done"} {
			env.WaitForEvent(run, text)
		}
	})

	It("gives an action exactly its timeout", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		var given atomic.Int64
		do := &actions{do: func(ctx context.Context, call executor.Call) (executor.Answer, error) {
			deadline, _ := ctx.Deadline()
			given.Store(int64(time.Until(deadline)))
			<-ctx.Done()
			return executor.Answer{}, executor.NewError(executor.Timeout, call, "did not answer before its deadline", ctx.Err())
		}}
		run := plan(env, createBackup(env), func(run *v1alpha1.HookRun) { run.Spec.Timeout.Duration = 900 * time.Millisecond })
		operator(t, env, do)
		waitForPhase(env, run, v1alpha1.HookRunPhaseFailed)
		if got := time.Duration(given.Load()); got > 900*time.Millisecond || got <= 0 {
			t.Errorf("the action had %s, want its timeout", got)
		}
		env.WaitForEvent(run, "Warning TimedOut: did not answer before its deadline")
	})

	Context("reports a plugin that cannot be called", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			missing   error
			parentUID string
			phase     v1alpha1.HookRunPhase
			event     string
		}{
			"not loaded": {
				missing: errors.New("not loaded"), phase: v1alpha1.HookRunPhaseCompleted,
				event: "Warning FailureIgnored: ignored: Plugin example is not loaded; check it with kubectl get plugin example",
			},
			"without the action": {
				missing: fmt.Errorf("resolving: %w", pluginclient.ErrNoSuchAction), phase: v1alpha1.HookRunPhaseFailed,
				event: "Warning Invalid: Plugin example no longer provides the action",
			},
			"for another Backup of the same name": {
				parentUID: "another-uid", phase: v1alpha1.HookRunPhaseCompleted,
				event: "Warning FailureIgnored: ignored: reading the input of the action failed",
			},
		}) {
			It(name, func() {
				t := GinkgoTB()
				env := cluster.NewEnv(t)
				do := &actions{missing: tc.missing, do: func(context.Context, executor.Call) (executor.Answer, error) {
					return executor.Answer{Message: "called"}, nil
				}}
				run := plan(env, createBackup(env), func(run *v1alpha1.HookRun) {
					run.Spec.FailurePolicy = v1alpha1.FailurePolicyIgnore
					if tc.parentUID != "" {
						run.Spec.ParentRef.UID = tc.parentUID
					}
				})
				operator(t, env, do)
				waitForPhase(env, run, tc.phase)
				env.WaitForEvent(run, tc.event)
			})
		}
	})

	It("survives a panic inside a call", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		do := &actions{do: func(_ context.Context, call executor.Call) (executor.Answer, error) {
			if call.Action == "example.io/bad" {
				panic("password=hunter2")
			}
			return executor.Answer{}, nil
		}}
		backup := createBackup(env)
		bad := plan(env, backup, func(run *v1alpha1.HookRun) { run.Spec.ActionName = "example.io/bad" })
		operator(t, env, do)
		waitForPhase(env, bad, v1alpha1.HookRunPhaseFailed)
		if strings.Contains(bad.Status.Message, "hunter2") || bad.Status.Message == "" {
			t.Errorf("the message is %q", bad.Status.Message)
		}
		waitForPhase(env, plan(env, backup), v1alpha1.HookRunPhaseCompleted)
	})

	Context("does not call an action before the attempt is recorded", func() {
		for name, disturb := range suite.SortedByName(map[string]func(ctx context.Context, c client.Client, run *v1alpha1.HookRun) error{
			"conflict": func(ctx context.Context, c client.Client, run *v1alpha1.HookRun) error {
				patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`))
				return c.Patch(ctx, &v1alpha1.HookRun{ObjectMeta: metav1.ObjectMeta{Namespace: run.Namespace, Name: run.Name}}, patch)
			},
			"the API server failed": func(context.Context, client.Client, *v1alpha1.HookRun) error {
				return errors.New("the API server is unavailable")
			},
		}) {
			It(name, func() {
				t := GinkgoTB()
				env := cluster.NewEnv(t)
				do := &actions{do: func(context.Context, executor.Call) (executor.Answer, error) { return executor.Answer{}, nil }}
				run := plan(env, createBackup(env))
				var writes, callsThen atomic.Int32
				operator(t, env, do, func(r *hookrun.Reconciler) {
					r.Client = watched{Client: r.Client, before: func(ctx context.Context, obj client.Object) error {
						if writes.Add(1) > 1 {
							return nil
						}
						callsThen.Store(int32(len(do.made())))
						return disturb(ctx, env.Client, obj.(*v1alpha1.HookRun))
					}}
				})
				waitForPhase(env, run, v1alpha1.HookRunPhaseCompleted)
				if diff := cmp.Diff([]int32{1}, do.made()); diff != "" || callsThen.Load() != 0 || writes.Load() < 3 {
					t.Errorf("%d calls before the first write, %d writes, want at least 3; calls (-want +got):\n%s", callsThen.Load(), writes.Load(), diff)
				}
			})
		}
	})
})

func checkLog(t testing.TB, logs *runlog.Store, run string, stream runlog.Stream, want string) {
	t.Helper()
	reader, err := logs.OpenReader(run, stream)
	if err != nil {
		t.Fatal(err)
	}
	if reader == nil {
		if want != "" {
			t.Errorf("there is no log %s", stream)
		}
		return
	}
	content, err := io.ReadAll(reader)
	if err != nil || want == "" || !strings.Contains(string(content), want) {
		t.Errorf("the log %s is %q (%v), want %q in it", stream, content, err, want)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}

// watched is a client that reports each status before it writes it.
type watched struct {
	client.Client
	before func(ctx context.Context, obj client.Object) error
}

// Status implements client.Client.
func (w watched) Status() client.SubResourceWriter {
	return watchedStatus{SubResourceWriter: w.Client.Status(), before: w.before}
}

type watchedStatus struct {
	client.SubResourceWriter
	before func(ctx context.Context, obj client.Object) error
}

// Patch implements client.SubResourceWriter.
func (w watchedStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if err := w.before(ctx, obj); err != nil {
		return err
	}
	return w.SubResourceWriter.Patch(ctx, obj, patch, opts...)
}
