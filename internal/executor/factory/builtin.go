// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

// eventActionUnquiesce is the action of the events of quiesced workloads.
const eventActionUnquiesce = "Unquiesce"

// newBuiltinExecutor returns the executor of a built-in action.
func (b *Builder) newBuiltinExecutor(a action) (executor.Executor, error) {
	from := a.plugin.Spec.Executor.Builtin.Quiesce
	if from == nil {
		return b.newPodHookExecutor(a)
	}
	run := &quiesceExecutor{builder: b}
	run.template.WaitForPods = true
	run.template.WhenManaged = quiesce.Policy(cmp.Or(from.WhenManaged, v1alpha1.WhenManagedFail))
	for _, kind := range from.Kinds {
		run.template.Kinds = append(run.template.Kinds, quiesce.WorkloadKind(kind))
	}
	run.template.MaxQuiesceDuration = v1alpha1.DefaultMaxQuiesceDuration
	if from.MaxQuiesceDuration != nil {
		run.template.MaxQuiesceDuration = from.MaxQuiesceDuration.Duration
	}
	if from.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(from.Selector)
		if err != nil {
			return nil, fmt.Errorf("the selector of workloads: %w", err)
		}
		run.template.Selector = selector
	}
	switch a.Kind {
	case v1alpha1.ActionKindPreBackup, v1alpha1.ActionKindPreRestore:
		run.quiesceFunc = b.Quiescer.Quiesce
	case v1alpha1.ActionKindPostBackup:
		run.quiesceFunc, run.template.OtherActions = b.Quiescer.Unquiesce, a.unpairedActionNames(v1alpha1.ActionKindPreBackup)
	case v1alpha1.ActionKindPostRestore:
		run.quiesceFunc, run.template.OtherActions = b.Quiescer.Unquiesce, a.unpairedActionNames(v1alpha1.ActionKindPreRestore)
		run.template.Origin = quiesce.OriginRestored
	default:
		return nil, fmt.Errorf("quiesce has no %s", a.Kind)
	}
	return run, nil
}

// unpairedActionNames returns the names of the Pre actions of the Plugin without a Post action. No
// other action restarts the workloads that those stopped.
func (a action) unpairedActionNames(pre v1alpha1.ActionKind) []string {
	var names []string
	for _, before := range a.plugin.Spec.Actions {
		paired := slices.ContainsFunc(a.plugin.Spec.Actions, func(after v1alpha1.PluginAction) bool {
			return after.Kind == a.Kind && after.Name == before.Name
		})
		if before.Kind == pre && !paired {
			names = append(names, string(before.Name))
		}
	}
	return names
}

// quiesceExecutor quiesces or unquiesces workloads. It is safe for concurrent use.
type quiesceExecutor struct {
	builder     *Builder
	template    quiesce.Request
	quiesceFunc func(context.Context, quiesce.Request) (quiesce.Result, error)
}

// Execute makes one attempt; see executor.Executor.
func (q *quiesceExecutor) Execute(ctx context.Context, call executor.Call) (executor.Answer, error) {
	req := q.template
	req.Key, req.Attempt, req.Outputs = call.Key, call.Attempt, call.Outputs[call.Action]
	subject, err := decodeParent(call)
	if err != nil {
		return executor.Answer{}, executor.NewError(executor.Invalid, call, err.Error(), err)
	}
	req.Holder, req.Action = string(subject.UID), call.Action
	if req.Origin == quiesce.OriginRestored && !isAfterProcessedRun(call, "Restore") {
		req.Origin = quiesce.OriginUnfinished
	}
	if req.Namespaces, err = q.builder.targetNamespaces(ctx, call); err != nil {
		return executor.Answer{}, executor.NewError(executor.Unreachable, call, q.builder.Redactor.String(err.Error()), err)
	}
	result, err := q.quiesceFunc(ctx, req)
	if result.Warning != "" && isAfterProcessedRun(call, "Backup") {
		q.builder.Recorder.Eventf(subject, nil, corev1.EventTypeWarning, v1alpha1.ReasonNotQuiesced, eventActionUnquiesce, "%s", result.Warning)
	}
	if result.Stopped != "" {
		q.builder.Recorder.Eventf(subject, nil, corev1.EventTypeWarning, v1alpha1.ReasonNotUnquiesced, eventActionUnquiesce, "%s", result.Stopped)
	}
	if failed := (*quiesce.Error)(nil); errors.As(err, &failed) {
		return executor.Answer{}, executor.NewError(failed.Kind, call, failed.Text, failed.Err)
	}
	if err != nil {
		return executor.Answer{}, executor.NewError(executor.Failed, call, q.builder.Redactor.String(err.Error()), err)
	}
	return executor.Answer{RetryAfter: result.RetryAfter, Message: result.Message, Outputs: result.Outputs}, nil
}

// isAfterProcessedRun reports whether the call follows a run of this kind that processed all its
// items: a Backup with an archive, or a Restore whose objects exist, with their data.
func isAfterProcessedRun(call executor.Call, kind string) bool {
	var subject struct {
		Kind   string `json:"kind"`
		Status struct {
			Phase v1alpha1.Outcome `json:"phase"`
		} `json:"status"`
	}
	if json.Unmarshal(call.Subject, &subject) != nil || subject.Kind != kind {
		return false
	}
	return subject.Status.Phase == v1alpha1.OutcomeCompleted || subject.Status.Phase == v1alpha1.OutcomePartiallyFailed
}

// decodeParent returns the holder of the workloads that a call quiesces: the Backup or Restore. The
// time limit of its holds counts from the quiesce of each workload, not from its start, because
// actions before may take long.
func decodeParent(call executor.Call) (*metav1.PartialObjectMetadata, error) {
	subject := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(call.Subject, subject); err != nil {
		return nil, fmt.Errorf("decoding the Backup or Restore of the call: %w", err)
	}
	return subject, nil
}
