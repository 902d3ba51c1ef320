// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// at returns a time some seconds after noon.
func at(seconds float64) time.Time {
	return noon.Add(time.Duration(seconds * float64(time.Second)))
}

// timestamp returns a MicroTime some seconds after noon; nil if these are negative.
func timestamp(seconds float64) *v1alpha1.MicroTime {
	if seconds < 0 {
		return nil
	}
	t := v1alpha1.NewMicroTime(at(seconds))
	return &t
}

// open is the end of what has not ended.
const open = -1

// sample is a run with what belongs to it.
type sample struct {
	run        *v1alpha1.Backup
	hooks      []v1alpha1.HookRun
	operations []v1alpha1.AsyncOperation
	now        time.Time
}

func (s *sample) build() Timeline { return Build("Backup", s.run, s.hooks, s.operations, s.now) }

// newSample returns a Backup with stages that begin at some seconds after noon; the last one ends at end.
func newSample(phase v1alpha1.RunPhase, end float64, stages ...v1alpha1.RunStage) *sample {
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "shop-1", CreationTimestamp: metav1.NewTime(noon)}}
	b.Status.Phase = phase
	for i := range stages {
		next := timestamp(end)
		if i+1 < len(stages) {
			next = &stages[i+1].StartTimestamp
		}
		stages[i].CompletionTimestamp = next
	}
	b.Status.Timeline = stages
	return &sample{run: b, now: at(3600)}
}

func stage(name string, start float64) v1alpha1.RunStage {
	return v1alpha1.RunStage{Name: name, StartTimestamp: *timestamp(start)}
}

func newHookRun(hook v1alpha1.HookPoint, action string, phase v1alpha1.HookRunPhase, attempts ...v1alpha1.HookAttempt) v1alpha1.HookRun {
	h := v1alpha1.HookRun{Spec: v1alpha1.HookRunSpec{Hook: hook, ActionName: action}}
	for i := range attempts {
		attempts[i].Number = int32(i + 1)
	}
	h.Status.Phase, h.Status.Attempts, h.Status.Attempt = phase, attempts, int32(len(attempts))
	return h
}

func attempt(start, end float64, reason string) v1alpha1.HookAttempt {
	return v1alpha1.HookAttempt{StartTimestamp: *timestamp(start), CompletionTimestamp: timestamp(end), Reason: reason}
}

func newOperation(i int, phase v1alpha1.AsyncOperationPhase, start, end float64) v1alpha1.AsyncOperation {
	o := v1alpha1.AsyncOperation{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("operation-%03d", i), CreationTimestamp: metav1.NewTime(at(start))}}
	o.Spec.ActionName = "example.io/move"
	o.Spec.Item = v1alpha1.OperationItem{Resource: "persistentvolumeclaims", Namespace: "shop", Name: fmt.Sprintf("data-%d", i)}
	o.Status.Phase, o.Status.StartTimestamp, o.Status.CompletionTimestamp = phase, timestamp(start), timestamp(end)
	return o
}

// newSamples returns a sample of each kind of run that is drawn.
func newSamples() map[string]*sample {
	completed := newSample(v1alpha1.RunPhaseCompleted, 0.61, stage("Queued", 0), stage("Validating", 0.004), stage("RunningPreBackupActions", 0.03),
		stage("Archiving", 0.21), stage("Finalizing", 0.48), stage("RunningPostBackupActions", 0.5), stage("StoringLogs", 0.595))
	completed.hooks = []v1alpha1.HookRun{
		newHookRun(v1alpha1.HookPreBackup, "example.io/freeze", v1alpha1.HookRunPhaseCompleted, attempt(0.032, 0.2, "")),
		newHookRun(v1alpha1.HookPostBackup, "example.io/freeze", v1alpha1.HookRunPhaseCompleted, attempt(0.51, 0.59, "")),
	}
	failed := newSample(v1alpha1.RunPhaseFailedPreBackupActions, 95, stage("Queued", 0), stage("Validating", 12), stage("RunningPreBackupActions", 12.3),
		stage("Finalizing", 94.2), stage("StoringLogs", 94.5))
	failed.hooks = []v1alpha1.HookRun{
		newHookRun(v1alpha1.HookPreBackup, "example.io/freeze", v1alpha1.HookRunPhaseFailed,
			attempt(12.4, 42.4, v1alpha1.ReasonTimedOut), attempt(43.4, 43.41, v1alpha1.ReasonUnreachable), attempt(46, 94.1, v1alpha1.ReasonActionFailed)),
		newHookRun(v1alpha1.HookPreBackup, "example.io/notify", v1alpha1.HookRunPhaseFailed, attempt(12.4, 13, v1alpha1.ReasonInvalid)),
		newHookRun(v1alpha1.HookPostBackup, "example.io/thaw", v1alpha1.HookRunPhaseSkipped),
	}
	running := newSample(v1alpha1.RunPhaseInProgress, open, stage("Queued", 0), stage("WaitingForPlugins", 2), stage("Queued", 62), stage("Validating", 70),
		stage("RunningPreBackupActions", 71), stage("Archiving", 95))
	running.now = at(300)
	running.hooks = []v1alpha1.HookRun{
		newHookRun(v1alpha1.HookPreBackup, "example.io/freeze", v1alpha1.HookRunPhaseInProgress,
			attempt(71, 80, v1alpha1.ReasonInterrupted), attempt(80, open, "")),
		newHookRun(v1alpha1.HookPostBackup, "example.io/thaw", ""),
	}
	running.operations = []v1alpha1.AsyncOperation{
		newOperation(1, v1alpha1.AsyncOperationPhaseInProgress, 101, open), newOperation(0, v1alpha1.AsyncOperationPhaseCompleted, 99, 140),
	}
	many := newSample(v1alpha1.RunPhasePartiallyFailed, 4000, stage("Queued", 0), stage("Validating", 1), stage("Archiving", 1.5),
		stage("WaitingForPluginOperations", 320), stage("Finalizing", 3990))
	for i := range 200 {
		phase, end := v1alpha1.AsyncOperationPhaseCompleted, 500+float64(i)*17
		switch {
		case i%80 == 7:
			phase, end = v1alpha1.AsyncOperationPhaseFailed, 30+float64(i)
		case i%90 == 20:
			phase = v1alpha1.AsyncOperationPhaseCancelled
		}
		many.operations = append(many.operations, newOperation(i, phase, 10+float64(i), end))
	}
	return map[string]*sample{"completed": completed, "failed": failed, "running": running, "operations": many}
}
