// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/runner"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// markLoading records that a new generation is being loaded. A broken plugin stays broken
// while it is retried, to avoid flapping conditions.
func (r *Reconciler) markLoading(ctx context.Context, plugin *v1alpha1.Plugin) error {
	ready := conditions.Get(plugin, v1alpha1.ConditionReady)
	if ready != nil && ready.ObservedGeneration == plugin.Generation {
		return nil
	}
	if ready != nil {
		earlier := plugin.DeepCopy()
		earlier.Generation = ready.ObservedGeneration
		r.loads.Cancel(loadTaskID(earlier), errPluginChanged) // the old load may hang, and the new one waits for it
		r.loads.Forget(loadTaskID(earlier))
	}
	if !plugin.DeletionTimestamp.IsZero() {
		return nil
	}
	before := plugin.DeepCopy()
	conditions.SetSummary(plugin, conditions.InProgress, v1alpha1.ReasonLoading, "The plugin is being started")
	return r.patchStatus(ctx, before, plugin)
}

// markCrashLooping records why a plugin that ended repeatedly is not loaded now.
func (r *Reconciler) markCrashLooping(ctx context.Context, plugin *v1alpha1.Plugin) error {
	if !conditions.IsTrue(plugin, v1alpha1.ConditionReady) || !r.backoff.isCrashLooping(plugin.Name, loadTaskID(plugin)) {
		return nil // the failed load is already recorded
	}
	loop := &catalog.LoadError{
		Reason:  string(host.ReasonCrashLoop),
		Message: "the process of the plugin ended several times by itself and is restarted later; see its output in the operator's log",
	}
	if of := plugin.Spec.Executor.GRPC; of != nil {
		loop.Reason = string(host.ReasonConnectBackOff)
		loop.Message = "the connection to " + of.Address + " was established and lost several times and is retried later; " +
			"check whether the server of the plugin restarts repeatedly"
	}
	return r.recordOutcome(ctx, plugin, runner.Outcome[catalog.Info]{Err: loop})
}

// recordOutcome writes the outcome of a load to the status. While the object is being
// deleted, its status only says why it still exists.
func (r *Reconciler) recordOutcome(ctx context.Context, plugin *v1alpha1.Plugin, outcome runner.Outcome[catalog.Info]) error {
	if !plugin.DeletionTimestamp.IsZero() {
		return nil
	}
	before := plugin.DeepCopy()
	found := outcome.Value
	if outcome.Err == nil || len(found.Actions) > 0 { // the actions of a refused plugin are known too
		plugin.Status.Actions, plugin.Status.Ignored = toProvidedActions(found), truncateList(found.Ignored)
		plugin.Status.Digest, plugin.Status.SDKVersion = found.Digest, found.SDKVersion
	}
	if outcome.Err != nil {
		reason, message := describeLoadError(outcome.Err)
		plugin.Status.Message = message
		conditions.SetSummary(plugin, conditions.StalledRetrying, reason, message)
	} else {
		plugin.Status.Message = cmp.Or(conflictingPlugins(found), postponedMessage(found))
		conditions.SetSummary(plugin, conditions.Current, v1alpha1.ReasonLoaded, loadedMessage(plugin))
	}
	setDuplicateCondition(plugin, outcome)
	if equality.Semantic.DeepEqual(before.Status, plugin.Status) {
		return nil
	}
	if err := r.patchStatus(ctx, before, plugin); err != nil {
		return err
	}
	if outcome.Err != nil {
		r.Recorder.Eventf(plugin, nil, corev1.EventTypeWarning, v1alpha1.ReasonLoadFailed, "Load", "%s", plugin.Status.Message)
	} else {
		r.Recorder.Eventf(plugin, nil, corev1.EventTypeNormal, v1alpha1.ReasonLoaded, "Load", "%s", loadedMessage(plugin))
	}
	if text := conflictingPlugins(found); text != "" && text != before.Status.Message {
		r.Recorder.Eventf(plugin, nil, corev1.EventTypeWarning, v1alpha1.ReasonDuplicateAction, "Load", "%s", text)
	}
	return nil
}

func loadedMessage(plugin *v1alpha1.Plugin) string {
	does := "has what it needs"
	switch of := &plugin.Spec.Executor; {
	case of.Process != nil:
		does = "runs"
	case of.GRPC != nil:
		does = "answers"
	}
	return fmt.Sprintf("The plugin %s and provides %d actions", does, len(plugin.Status.Actions)) + ignoredMessage(plugin.Status.Ignored)
}

// postponedMessage returns the message for a changed plugin that waits for its operations.
func postponedMessage(info catalog.Info) string {
	if !info.ReplacementPostponed {
		return ""
	}
	return "Its binary or configuration was changed; the running process is replaced when its operations have ended " +
		"(kubectl get asyncoperations) or are canceled"
}

// conflictingPlugins returns the message about other Plugins that register the same actions
// as one that is used.
func conflictingPlugins(info catalog.Info) string {
	if len(info.ConflictingPlugins) == 0 {
		return ""
	}
	first := info.ConflictingPlugins[0]
	text := fmt.Sprintf("Plugin %s registers %s too and is not used: remove one of the two", first.Plugin, first.Action)
	if more := len(info.ConflictingPlugins) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// setDuplicateCondition reports on both Plugins that they register the same action.
func setDuplicateCondition(plugin *v1alpha1.Plugin, outcome runner.Outcome[catalog.Info]) {
	message := conflictingPlugins(outcome.Value)
	if outcome.Err != nil {
		if reason, text := describeLoadError(outcome.Err); reason == v1alpha1.ReasonDuplicateAction {
			message = text
		}
	}
	if message == "" {
		meta.RemoveStatusCondition(&plugin.Status.Conditions, v1alpha1.ConditionDuplicateActions)
		return
	}
	conditions.Set(plugin, v1alpha1.ConditionDuplicateActions, metav1.ConditionTrue, v1alpha1.ReasonDuplicateAction, message)
}

// truncateList truncates a list to the maximum size in the status.
func truncateList(list []string) []string {
	const most, length = 64, 512
	var out []string
	for _, entry := range list[:min(len(list), most)] {
		out = append(out, text.Truncate(entry, length))
	}
	return out
}

func describeLoadError(err error) (reason, message string) {
	if loadErr, ok := errors.AsType[*catalog.LoadError](err); ok {
		return loadErr.Reason, loadErr.Message
	}
	return v1alpha1.ReasonLoadFailed, "The plugin could not be loaded because of an internal error; see the operator's log"
}

// toProvidedActions returns the actions that this version of the API knows, each in its
// newest version.
func toProvidedActions(info catalog.Info) []v1alpha1.ProvidedAction {
	known := map[v1alpha1.ActionKind]bool{
		v1alpha1.ActionKindPreBackup: true, v1alpha1.ActionKindPostBackup: true,
		v1alpha1.ActionKindPreRestore: true, v1alpha1.ActionKindPostRestore: true,
		v1alpha1.ActionKindBackupItem: true, v1alpha1.ActionKindItemBlock: true, v1alpha1.ActionKindRestoreItem: true,
		v1alpha1.ActionKindAsyncBackupItem: true, v1alpha1.ActionKindAsyncRestoreItem: true,
		v1alpha1.ActionKindDelete: true, v1alpha1.ActionKindDeleteItem: true, v1alpha1.ActionKindObjectStore: true,
	}
	var list []v1alpha1.ProvidedAction
	for _, action := range info.Actions {
		kind := v1alpha1.ActionKind(action.Kind)
		if !known[kind] {
			continue
		}
		if n := len(list); n > 0 && list[n-1].Kind == kind && list[n-1].Name == action.Name {
			list[n-1].Version = action.Version
			continue
		}
		list = append(list, v1alpha1.ProvidedAction{Name: action.Name, Kind: kind, Version: action.Version})
	}
	return list
}

// ignoredMessage names what a plugin provides for nothing; "" if there is nothing.
func ignoredMessage(ignored []string) string {
	const most = 3
	if len(ignored) == 0 {
		return ""
	}
	names := strings.Join(ignored[:min(len(ignored), most)], ", ")
	if more := len(ignored) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return "; Grapnel does not use " + text.Truncate(names, 512)
}

// markInUse records why a deleted Plugin still exists.
func (r *Reconciler) markInUse(ctx context.Context, plugin *v1alpha1.Plugin, users []string) error {
	before := plugin.DeepCopy()
	plugin.Status.Message = fmt.Sprintf("The Plugin is being deleted and still needed by %d runs, for example %s; annotate it with %s=true to abandon them and their owed clean-up",
		len(users), users[0], v1alpha1.AnnotationAbandonCleanup)
	conditions.Set(plugin, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonInUse, plugin.Status.Message)
	if equality.Semantic.DeepEqual(before.Status, plugin.Status) {
		return nil
	}
	return r.patchStatus(ctx, before, plugin)
}

func (r *Reconciler) patchStatus(ctx context.Context, before, plugin *v1alpha1.Plugin) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, plugin, patch); err != nil {
		return fmt.Errorf("writing the status of Plugin %s: %w", plugin.Name, err)
	}
	return nil
}
