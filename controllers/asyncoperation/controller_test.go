// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/asyncoperation"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

var _ = Describe("An operation", Label("operations"), func() {
	It("is polled from its start to its end", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		b := backup(env, func(b *v1alpha1.Backup) {
			b.Labels = map[string]string{"team": "shop"}
			b.Spec.IncludedNamespaces = []v1alpha1.NamePattern{"shop"}
			b.Spec.Parameters = map[string]v1alpha1.ParameterSet{
				"example.io/copy": {"speed": "slow"}, "example.io/other": {"token": "secret"},
			}
		})
		finish := make(chan struct{})
		p := &plugin{progress: func(context.Context, asked, int) (item.Progress, error) {
			select {
			case <-finish:
				return done, nil
			default:
				return half, nil
			}
		}}
		op := begin(env, b)
		operator(t, env, p)
		await(env, op, v1alpha1.AsyncOperationPhaseInProgress)
		wantProgress := &v1alpha1.AsyncOperationProgress{
			Completed: 100 << 20, Total: 200 << 20, Units: "bytes", Description: "copying", Summary: "50 % (100 of 200 MiB)",
		}
		if diff := cmp.Diff(wantProgress, op.Status.Progress); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
		if want := "Running: 50 % (100 of 200 MiB); copying"; op.Status.Message != want {
			t.Errorf("message is %q, want %q", op.Status.Message, want)
		}
		close(finish)
		await(env, op, v1alpha1.AsyncOperationPhaseCompleted)
		if !op.Ended() || op.Status.Duration == "" || !conditions.IsTrue(op, v1alpha1.ConditionReady) || !conditions.IsTrue(op, v1alpha1.ConditionSucceeded) {
			t.Errorf("the final status is %+v", op.Status)
		}
		expectQuestion(t, b, p)
	})

	It("polls the operation of a Restore", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		restore := suite.Create(env, &v1alpha1.Restore{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "back-"}, Spec: v1alpha1.RestoreSpec{BackupName: "nightly"},
		})
		op := begin(env, &v1alpha1.Backup{ObjectMeta: restore.ObjectMeta}, func(op *v1alpha1.AsyncOperation) {
			op.Spec.ParentRef.Kind, op.Spec.Kind = "Restore", v1alpha1.ActionKindRestoreItem
		})
		p := answers(done)
		operator(t, env, p)
		await(env, op, v1alpha1.AsyncOperationPhaseCompleted)
		if got := p.polls[0]; got.Kind != "RestoreItemAction" || !strings.Contains(string(got.Operation.Parent), `"kind":"Restore"`) {
			t.Errorf("the plugin was polled with %+v for %s", got, got.Operation.Parent)
		}
	})

	Context("reports failures and delays", func() {
		hangs := func(ctx context.Context, _ asked, _ int) (item.Progress, error) {
			<-ctx.Done()
			return item.Progress{}, ctx.Err()
		}
		short := func(op *v1alpha1.AsyncOperation) { op.Spec.Timeout.Duration = time.Second }
		stalls := func(op *v1alpha1.AsyncOperation) {
			op.Spec.StallTimeout = &metav1.Duration{Duration: 500 * time.Millisecond}
		}
		impatient := func(r *asyncoperation.Reconciler) {
			r.Operations.CancelTimeout, r.Limits.CallTimeout = time.Second, 200*time.Millisecond
		}
		stopped := item.Progress{Completed: true, Cancelled: true}
		lost := &pluginclient.UnknownOperationError{}
		goingOn := func(stop func(context.Context, asked) error) *plugin {
			p := answers(half)
			p.cancel = stop
			return p
		}
		for name, tc := range suite.SortedByName(map[string]struct {
			plugin         *plugin
			edit           func(*v1alpha1.AsyncOperation)
			phase          v1alpha1.AsyncOperationPhase
			reason, text   string
			event          string
			errors         bool
			neverCancelled bool
		}{
			"fails": {
				plugin: answers(half, item.Progress{Completed: true, Err: "the password hunter22\nis wrong"}), phase: "Failed", reason: "OperationFailed",
				text: "the password [REDACTED] is wrong", event: "Warning OperationFailed: the password", neverCancelled: true,
			},
			"fails to answer for a while": {
				plugin: answers(errBusy, fmt.Errorf("lost: %w", errBusy), half, errBusy, done), phase: "Completed", reason: "Completed",
				text: "Completed after", errors: true, neverCancelled: true,
			},
			"goes backwards": {plugin: answers(half, item.Progress{NCompleted: 1, NTotal: 2}, done), phase: "Completed", reason: "Completed", text: "Completed after", neverCancelled: true},
			"is lost": {
				plugin: answers(half, lost), phase: "Failed", reason: "OperationLost", text: "The plugin no longer knows the operation",
				event: "Warning OperationLost", errors: true, neverCancelled: true,
			},
			"is canceled": {
				plugin: stoppable(), edit: cancel, phase: "Cancelled", reason: "Cancelled", text: "Canceled after", event: "Normal Cancelled",
			},
			"takes too long": {
				plugin: stoppable(), edit: short, phase: "Failed", reason: "TimedOut",
				text: "Canceled because it took longer than 1s", event: "Warning TimedOut",
			},
			"stalls": {
				plugin: stoppable(), edit: stalls, phase: "Failed", reason: "OperationStalled",
				text: "Canceled because it made no progress for 500ms", event: "Warning OperationStalled",
			},
			"refuses": {
				plugin: goingOn(func(context.Context, asked) error { return errBusy }), edit: cancel, phase: "Failed", reason: "CancelRefused",
				text:  "Cancellation was requested because joe wants that, but the plugin refused; the operation may still be running: the service is busy",
				event: "Warning CancelRefused",
			},
			"never confirms": {
				plugin: goingOn(nil), edit: cancel, phase: "Failed", reason: "CancelUnconfirmed",
				text: "Cancellation was requested because joe wants that, but the plugin never confirmed the end", event: "Warning CancelUnconfirmed",
			},
			"hangs": {
				plugin: &plugin{progress: hangs, cancel: func(ctx context.Context, a asked) error { _, err := hangs(ctx, a, 0); return err }},
				edit:   short, phase: "Failed", reason: "CancelUnconfirmed",
				text:  "Cancellation was requested because it took longer than 1s, but the plugin could not be reached; the operation may still be running: it did not answer within 200ms",
				event: "Warning CancelUnconfirmed", errors: true,
			},
			"has no plugin": {
				plugin: &plugin{missing: func() error { return fmt.Errorf("the plugin %q is not loaded", "example") }}, edit: short, phase: "Failed",
				reason: "CancelUnconfirmed", text: `Cancellation was requested because it took longer than 1s, but the plugin could not be reached; the operation may still be running: the plugin "example" is not loaded`,
				errors: true, neverCancelled: true,
			},
			"has no action": {
				plugin: &plugin{missing: func() error { return fmt.Errorf("not provided: %w", pluginclient.ErrNoSuchAction) }}, edit: short, phase: "Failed",
				reason: "CancelUnconfirmed", text: "Cancellation was requested because it took longer than 1s", errors: true, neverCancelled: true,
			},
			"is done before its cancel": {
				plugin: onceCancelled(done), edit: cancel, phase: "Completed", reason: "Completed", text: "Completed after",
			},
			"is canceled elsewhere": {
				plugin: answers(stopped), phase: "Failed", reason: "OperationFailed", text: "The plugin reports a cancellation that was not requested", neverCancelled: true,
			},
		}) {
			It(name, func() {
				t := GinkgoTB()
				env := cluster.NewEnv(t)
				edit := func(*v1alpha1.AsyncOperation) {}
				if tc.edit != nil {
					edit = tc.edit
				}
				op := begin(env, backup(env), callResult(name), edit)
				operator(t, env, tc.plugin, impatient)
				await(env, op, tc.phase)
				if got := conditions.Get(op, v1alpha1.ConditionSucceeded).Reason; got != tc.reason || !strings.HasPrefix(op.Status.Message, tc.text) {
					t.Errorf("%s: %s, want %s: %s", got, op.Status.Message, tc.reason, tc.text)
				}
				if tc.event != "" {
					env.WaitForEvent(op, tc.event)
				}
				if (op.Status.TransientErrors > 0) != tc.errors {
					t.Errorf("got %d transient errors", op.Status.TransientErrors)
				}
				if _, cancels := tc.plugin.questions(name); (cancels == 0) != tc.neverCancelled {
					t.Errorf("Cancel was called %d times", cancels)
				}
			})
		}
	})
})

// expectQuestion checks what the plugin received with the first poll.
func expectQuestion(t testing.TB, b *v1alpha1.Backup, p *plugin) {
	t.Helper()
	got := p.polls[0]
	var subject struct {
		APIVersion, Kind string
		Metadata         metav1.ObjectMeta
		Spec             map[string]any
		Status           map[string]any
	}
	if err := json.Unmarshal(got.Operation.Parent, &subject); err != nil {
		t.Fatal(err)
	}
	got.Operation.Parent = nil
	want := asked{
		Plugin: "example", Kind: "AsyncBackupItemAction", Operation: pluginclient.OperationRef{OperationID: "job-1"},
		Call: pluginclient.ItemCall{Action: "example.io/copy", CallID: "call-1", Key: string(b.UID), Parameters: map[string]string{"speed": "slow"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("poll (-want +got):\n%s", diff)
	}
	if subject.APIVersion != "velero.io/v1" || subject.Kind != "Backup" || subject.Metadata.Name != b.Name ||
		subject.Metadata.UID != b.UID || subject.Metadata.Labels["team"] != "shop" || subject.Status["phase"] != "InProgress" {
		t.Errorf("the plugin sees %+v", subject)
	}
	if diff := cmp.Diff([]any{"shop"}, subject.Spec["includedNamespaces"]); diff != "" || subject.Spec["parameters"] != nil {
		t.Errorf("the plugin sees the spec %v", subject.Spec)
	}
}
