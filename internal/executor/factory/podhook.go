// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/podexec"
	"github.com/grapnel-dev/grapnel/internal/podhook"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore/stamp"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// In how many pods commands of annotations run at once, and in how many of one namespace.
const (
	maxParallelHooks            = 16
	maxParallelHooksInNamespace = 8
)

// podHookExecutor runs the commands that pods have in Velero's annotations. It is safe for concurrent
// use.
//
// Such commands are often not idempotent: a file system that is frozen cannot be frozen again. So the
// progress of a call has the pods in which they ran, and the action after a backup runs them only in
// pods in which the action before it did, if that is known.
type podHookExecutor struct {
	builder *Builder
	// newCommands returns the commands of the pods for one call.
	newCommands func(podHookCall) (func(*corev1.Pod) *podexec.PodCommand, error)
	// selector, if set, matches the pods that may have commands.
	selector  labels.Selector
	onMissing podexec.MissingPolicy
	// maxTimeout is how long a command may take, whatever its annotations say: the action must have
	// time for others.
	maxTimeout time.Duration
}

// podHookCall is what the commands of a call depend on.
type podHookCall struct {
	subject podHookSubject
	// before has the pods in which the action before the backup may have started a command, if that is
	// known.
	before      podStates
	beforeKnown bool
	// stampKey is the key with which Restores prove what they created.
	stampKey []byte
}

// podHookSubject has the fields that are read from a Backup or Restore.
type podHookSubject struct {
	metav1.ObjectMeta `json:"metadata"`

	// Spec has the field names of a Backup.
	Spec   selection.Spec `json:"spec"`
	Status struct {
		CompletionTimestamp metav1.Time `json:"completionTimestamp"`
	} `json:"status"`
}

// newPodHookExecutor returns the executor of an action that runs the commands of Velero's annotations.
func (b *Builder) newPodHookExecutor(a action) (executor.Executor, error) {
	run := &podHookExecutor{builder: b, onMissing: podexec.Skip}
	if a.Timeout != nil {
		run.maxTimeout = a.Timeout.Duration / 2
	}
	switch a.Kind {
	case v1alpha1.ActionKindPreBackup:
		if !a.hasAction(v1alpha1.ActionKindPostBackup) {
			return nil, errors.New("veleroHooks needs a PostBackupAction of the same name: it runs the commands that undo those before the backup")
		}
		run.newCommands = newPreBackupCommands
	case v1alpha1.ActionKindPostBackup:
		run.newCommands = newPostBackupCommands
		if a.isCleanupAction() {
			run.onMissing = podexec.Undo
		}
	case v1alpha1.ActionKindPostRestore:
		run.newCommands = newPostRestoreCommands
		var err error
		// The label may be that of a later Restore, which found the pod.
		if run.selector, err = labels.Parse(v1alpha1.LabelRestoreName); err != nil {
			return nil, fmt.Errorf("selecting restored pods: %w", err)
		}
	default:
		return nil, fmt.Errorf("veleroHooks has no %s", a.Kind)
	}
	return run, nil
}

// hasAction reports whether the Plugin has an action of this kind with the same name.
func (a action) hasAction(kind v1alpha1.ActionKind) bool {
	return slices.ContainsFunc(a.plugin.Spec.Actions, func(other v1alpha1.PluginAction) bool { return other.Name == a.Name && other.Kind == kind })
}

// Execute makes one attempt; see executor.Executor.
func (e *podHookExecutor) Execute(ctx context.Context, call executor.Call) (executor.Answer, error) {
	var of podHookCall
	of.before, of.beforeKnown = parsePodStates(call.Outputs[call.Action])
	if err := json.Unmarshal(call.Subject, &of.subject); err != nil {
		return executor.Answer{}, executor.NewError(executor.Invalid, call, "decoding the Backup or Restore of the call failed", err)
	}
	if call.Point == executor.PointPostRestore {
		var err error
		if of.stampKey, err = e.builder.readStampKey(ctx); err != nil {
			return executor.Answer{}, executor.NewError(executor.Unreachable, call,
				"the Secret "+stamp.KeySecret+" with which Restores prove what they created could not be read", err)
		}
	}
	commands, err := e.newCommands(of)
	if err != nil {
		return executor.Answer{}, executor.NewError(executor.Invalid, call, e.builder.Redactor.String(err.Error()), err)
	}
	progress := parsePodHookProgress(call)
	earlier := podHookProgress{pods: maps.Clone(progress.pods), failed: progress.failed}
	run, err := podexec.New(podexec.Options{
		Reader: podexec.ReaderFunc(e.builder.listPods), CommandRunner: e.builder.CommandRunner, Redactor: e.builder.Redactor,
		Namespaces: e.builder.targetPodNamespaces, Selector: e.selector, Target: podexec.Each, OnMissing: e.onMissing,
		Parallel: maxParallelHooks, ParallelInNamespace: maxParallelHooksInNamespace, MaxPods: maxPods(call, earlier.pods),
		CommandFor: func(pod *corev1.Pod) *podexec.PodCommand {
			if earlier.pods.has(pod.UID, stateDone|stateFailed) {
				return nil
			}
			command := commands(pod)
			if command != nil {
				command.MaxTimeout, command.Tried = e.maxTimeout, earlier.pods.has(pod.UID, stateStarted)
			}
			return command
		},
		OnOutcome: func(pod *corev1.Pod, outcome podexec.PodOutcome) {
			outcome.Failed, outcome.Ignored = e.builder.Redactor.String(outcome.Failed), e.builder.Redactor.String(outcome.Ignored)
			progress.record(pod, outcome)
			logIgnoredAnnotations(ctx, call.Point, pod)
		},
	})
	if err != nil {
		return executor.Answer{}, executor.NewError(executor.Invalid, call, err.Error(), err)
	}
	answer, err := run.Execute(ctx, call)
	return addProgress(call, answer, err, earlier, progress)
}

// maxPods returns in how many pods a call may run commands: in as many as are remembered. The call after a
// backup has no limit: those before it have, and a pod must not stay frozen.
func maxPods(call executor.Call, earlier podStates) int {
	if call.Point == executor.PointPostBackup {
		return 0
	}
	return max(1, maxRecordedPods-earlier.count(stateDone|stateFailed))
}

// addProgress adds what later calls need to the result of a call, and what earlier calls did.
func addProgress(
	call executor.Call, answer executor.Answer, err error, earlier podHookProgress, progress *podHookProgress,
) (executor.Answer, error) {
	note := ""
	if earlier.failed != "" {
		note = "; failed earlier: " + earlier.failed
	}
	if answer.RetryAfter > 0 {
		answer.Message = executor.OneLine(answer.Message + note)
		answer.Progress = progress.toOutputs(call.Attempt)
		return answer, nil
	}
	failed := (*executor.Error)(nil)
	switch {
	case errors.As(err, &failed):
		failed = executor.NewError(failed.Kind, call, failed.Text+note, failed.Err)
	case earlier.failed != "":
		failed = executor.NewError(executor.Failed, call, answer.Message+note, nil)
	}
	if failed != nil {
		progress.endAttempt()
		failed.Progress = progress.toOutputs(call.Attempt)
		return executor.Answer{}, failed
	}
	if n := earlier.pods.count(stateDone); n > 0 {
		answer.Message = executor.OneLine(fmt.Sprintf("%s (%d in earlier calls)", answer.Message, n))
	}
	if progress.ignored != "" && !answer.Ignored {
		answer.Ignored, answer.Message = true, executor.OneLine(answer.Message+"; failed and ignored: "+progress.ignored)
	}
	if call.Point == executor.PointPreBackup {
		answer.Outputs = progress.pods.toOutputs()
	}
	return answer, nil
}

// logIgnoredAnnotations logs which annotations of a pod have no effect because their values are invalid.
func logIgnoredAnnotations(ctx context.Context, point string, pod *corev1.Pod) {
	hook := podhook.PreBackupHook(pod.Annotations)
	switch point {
	case executor.PointPostBackup:
		hook = podhook.PostBackupHook(pod.Annotations)
	case executor.PointPostRestore:
		hook = nil
		if restored := podhook.PostRestoreHook(pod.Annotations); restored != nil {
			hook = &restored.Hook
		}
	}
	if hook != nil && len(hook.Ignored) > 0 {
		logr.FromContextOrDiscard(ctx).Info("Ignoring annotations with invalid values", "pod", pod.Namespace+"/"+pod.Name,
			"annotations", strings.Join(hook.Ignored, ", "))
	}
}

// newPreBackupCommands returns the commands before a backup, in the pods that it selects.
func newPreBackupCommands(of podHookCall) (func(*corev1.Pod) *podexec.PodCommand, error) {
	selects, err := newPodSelector(of.subject.Spec)
	return func(pod *corev1.Pod) *podexec.PodCommand {
		if !selects(pod) {
			return nil
		}
		return toPodCommand(pod, podhook.PreBackupHook(pod.Annotations))
	}, err
}

// newPostBackupCommands returns the commands after a backup. A pod that has one before it gets the one
// after it only if the former was started, so that what replaces a pod is not thawed. If that is
// unknown, it gets it: a pod that stays frozen is worse than a command that fails.
func newPostBackupCommands(of podHookCall) (func(*corev1.Pod) *podexec.PodCommand, error) {
	selects, err := newPodSelector(of.subject.Spec)
	return func(pod *corev1.Pod) *podexec.PodCommand {
		hasPre := podhook.PreBackupHook(pod.Annotations) != nil
		if !selects(pod) || hasPre && of.beforeKnown && !of.before.has(pod.UID, stateStarted) {
			return nil
		}
		command := toPodCommand(pod, podhook.PostBackupHook(pod.Annotations))
		if command != nil {
			command.Undoes = hasPre
		}
		return command
	}, err
}

// readStampKey returns the key with which Restores prove what they created.
func (b *Builder) readStampKey(ctx context.Context) ([]byte, error) {
	secret, err := b.getSecret(ctx, stamp.KeySecret)
	if err != nil {
		return nil, err
	}
	return secretValue(secret, stamp.KeyEntry)
}

// newPostRestoreCommands returns the commands in the pods that a Restore created.
func newPostRestoreCommands(of podHookCall) (func(*corev1.Pod) *podexec.PodCommand, error) {
	restore := of.subject
	stamper := stamp.Stamper{UID: string(restore.UID), Key: of.stampKey}
	return func(pod *corev1.Pod) *podexec.PodCommand {
		// The label is no proof: a later Restore with the policy update labels pods that it found.
		target := rawclient.Target{Resource: podVersion, Namespace: pod.Namespace, Name: pod.Name}
		if outcome, own, _ := stamper.Parse(target, pod.Annotations[stamp.Annotation]); !own || outcome == "updated" {
			return nil
		}
		hook := podhook.PostRestoreHook(pod.Annotations)
		if hook == nil {
			return nil
		}
		command := toPodCommand(pod, &hook.Hook)
		command.Wait = &podexec.ContainerWait{Ready: hook.WaitForReady, Timeout: hook.WaitTimeout, Since: restore.waitStart()}
		return command
	}, nil
}

// waitStart is when commands begin to wait for their containers.
func (s podHookSubject) waitStart() time.Time {
	if at := s.Status.CompletionTimestamp.Time; !at.IsZero() {
		return at
	}
	return s.CreationTimestamp.Time
}

// toPodCommand converts a hook of a pod; nil if there is none.
func toPodCommand(pod *corev1.Pod, hook *podhook.Hook) *podexec.PodCommand {
	if hook == nil {
		return nil
	}
	command := &podexec.PodCommand{
		Container: hook.Container, Annotation: hook.Annotation, Command: hook.Command, Timeout: hook.Timeout,
		IgnoreFailure: hook.Continue, Problem: hook.Problem,
	}
	if command.Container == "" && len(pod.Spec.Containers) > 0 {
		command.Container = pod.Spec.Containers[0].Name // and not the default of kubectl
	}
	return command
}

// newPodSelector returns a function that reports whether a backup selects a pod of an included
// namespace.
func newPodSelector(spec selection.Spec) (func(*corev1.Pod) bool, error) {
	spec.IncludedNamespaces, spec.ExcludedNamespaces, spec.OrderedResources = nil, nil, nil // the namespaces are known
	chosen, err := selection.Compile(spec, podResolver{}, nil)
	if err != nil {
		return func(*corev1.Pod) bool { return false }, fmt.Errorf("determining which pods are included: %w", err)
	}
	included := chosen.ResourceInclusion(podResource, true) == selection.Included
	return func(pod *corev1.Pod) bool {
		return included && chosen.MatchesLabels(pod.Labels) && !selection.IsExcludedByLabel(pod.Labels)
	}, nil
}

var (
	podVersion  = corev1.SchemeGroupVersion.WithResource("pods")
	podResource = podVersion.GroupResource()
)

// podResolver is a cluster with no other resources than pods.
type podResolver struct{}

// Resolve implements selection.Resolver.
func (podResolver) Resolve(name string) (schema.GroupResource, bool) {
	switch strings.ToLower(name) {
	case "pods", "pod", "po":
		return podResource, true
	}
	return schema.GroupResource{}, false
}

// Scopes implements selection.Resolver.
func (podResolver) Scopes() map[schema.GroupResource]bool {
	return map[schema.GroupResource]bool{podResource: true}
}
