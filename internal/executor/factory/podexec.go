// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/podexec"
)

// newPodExecExecutor returns the executor of an action that runs in pods.
func (b *Builder) newPodExecExecutor(a action) (executor.Executor, error) {
	from := a.plugin.Spec.Executor.PodExec
	selector, err := metav1.LabelSelectorAsSelector(&from.Selector)
	if err != nil {
		return nil, fmt.Errorf("the selector of pods: %w", err)
	}
	options := podexec.Options{
		Reader: podexec.ReaderFunc(b.listPods), CommandRunner: b.CommandRunner, Redactor: b.Redactor, Namespaces: b.targetPodNamespaces,
		Selector: selector, Container: from.Container, Command: a.commandOrDefault(from.Command),
		Target: podexec.Any, Parallel: int(from.Parallel), RequireAnswer: from.RequireAnswer,
	}
	if from.Target == v1alpha1.PodTargetEach {
		options.Target = podexec.Each
	}
	switch {
	case a.isCleanupAction():
		options.OnMissing = podexec.Undo
	case from.WhenMissing == v1alpha1.WhenMissingSkip:
		options.OnMissing = podexec.Skip
	}
	return podexec.New(options)
}

// targetPodNamespaces returns the namespaces in which a command may run. The operator's own
// namespace is never among them, because its pods may hold the operator's token.
func (b *Builder) targetPodNamespaces(ctx context.Context, call executor.Call) ([]string, error) {
	all, err := b.targetNamespaces(ctx, call)
	return slices.DeleteFunc(all, func(name string) bool { return name == b.Namespace }), err
}

// preActionKinds maps each kind of Post actions to the kind of the Pre actions that they undo.
var preActionKinds = map[v1alpha1.ActionKind]v1alpha1.ActionKind{
	v1alpha1.ActionKindPostBackup: v1alpha1.ActionKindPreBackup, v1alpha1.ActionKindPostRestore: v1alpha1.ActionKindPreRestore,
}

// isCleanupAction reports whether an action undoes another action of the Plugin.
func (a action) isCleanupAction() bool {
	pre, isPost := preActionKinds[a.Kind]
	return isPost && slices.ContainsFunc(a.plugin.Spec.Actions, func(other v1alpha1.PluginAction) bool {
		return other.Name == a.Name && other.Kind == pre
	})
}

// podPageSize is how many pods one request lists.
const podPageSize = 500

// listPods lists pods without a cache.
func (b *Builder) listPods(ctx context.Context, namespace string, selector labels.Selector) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	options := &client.ListOptions{Namespace: namespace, LabelSelector: selector, Limit: podPageSize}
	for {
		var page corev1.PodList
		if err := b.Client.List(ctx, &page, options); err != nil {
			return nil, fmt.Errorf("listing pods: %w", err)
		}
		pods = append(pods, page.Items...)
		if options.Continue = page.Continue; options.Continue == "" {
			return pods, nil
		}
	}
}
