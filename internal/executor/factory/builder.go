// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/job"
	"github.com/grapnel-dev/grapnel/internal/executor/podexec"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/executor/webhook"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// Builder builds executors. Every field is required. It is safe for concurrent use.
type Builder struct {
	// Client reads past any cache.
	Client client.WithWatch
	// Logs reads the logs of pods, and CommandRunner runs commands in them.
	Logs          job.Logs
	CommandRunner podexec.CommandRunner
	// Quiescer stops workloads.
	Quiescer *quiesce.Quiescer
	// Recorder emits warnings for Backups and Restores that no outcome of an action contains.
	Recorder events.EventRecorder
	// Namespace is the operator's namespace. Jobs run there unless a Plugin specifies another one,
	// and Secrets of webhooks are read there.
	Namespace string
	Redactor  *redact.Redactor
	Logger    logr.Logger
}

// action is one action of a Plugin that is being built.
type action struct {
	*v1alpha1.PluginAction
	plugin *v1alpha1.Plugin
}

// Build returns the actions of a Plugin; nil if it has a program that announces them. The
// error describes in one line what is wrong with the Plugin, without secrets.
func (b *Builder) Build(plugin *v1alpha1.Plugin) (*catalog.DeclaredActions, error) {
	of := &plugin.Spec.Executor
	var build func(action) (executor.Executor, error)
	switch {
	case of.Job != nil:
		build = b.newJobExecutor
	case of.PodExec != nil:
		build = b.newPodExecExecutor
	case of.Webhook != nil:
		build = b.newWebhookExecutor
	case of.Builtin != nil:
		build = b.newBuiltinExecutor
	default:
		return nil, nil
	}
	built := &catalog.DeclaredActions{Digest: executorDigest(&plugin.Spec), Executors: map[catalog.ActionID]executor.Executor{}}
	for i := range plugin.Spec.Actions {
		a := action{PluginAction: &plugin.Spec.Actions[i], plugin: plugin}
		run, err := build(a)
		if err != nil {
			return nil, fmt.Errorf("action %s(%s): %w", a.Kind, a.Name, err)
		}
		built.Executors[catalog.ActionID{Kind: string(a.Kind), Name: a.Name}] = run
		// A Job is found by the same labels for all actions, except for those from the call.
		if resumer, ok := run.(executor.Resumable); ok && built.Resumable == nil {
			built.Resumable = resumer
		}
	}
	return built, nil
}

// executorDigest changes whenever the behavior of the executors changes.
func executorDigest(spec *v1alpha1.PluginSpec) string {
	return jsonDigest(struct {
		Executor v1alpha1.Executor
		Actions  []v1alpha1.PluginAction
	}{spec.Executor, spec.Actions})
}

func jsonDigest(of any) string {
	encoded, err := json.Marshal(of)
	if err != nil {
		panic(err) // it came from JSON
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// targetNamespaces returns the namespaces that a call may touch.
func (b *Builder) targetNamespaces(ctx context.Context, call executor.Call) ([]string, error) {
	return TargetNamespaces(ctx, b.Client, call)
}

// permanentError is a problem with a Secret that lasts until a user fixes it.
type permanentError struct{ text string }

func (l *permanentError) Error() string { return l.text }

// Is marks the error for the webhook executor, which then fails the call as Invalid.
func (l *permanentError) Is(target error) bool { return target == webhook.ErrInvalidCredentials }

// getSecret reads a Secret in the operator's namespace.
func (b *Builder) getSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	var secret corev1.Secret
	err := b.Client.Get(ctx, types.NamespacedName{Namespace: b.Namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		return nil, &permanentError{fmt.Sprintf("there is no Secret %s in namespace %s", name, b.Namespace)}
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return &secret, nil
}

// secretValue returns a value of a Secret. An empty value is an error, because the call would
// have no credentials.
func secretValue(secret *corev1.Secret, key string) ([]byte, error) {
	value, there := secret.Data[key]
	switch {
	case !there:
		return nil, &permanentError{fmt.Sprintf("the Secret %s in namespace %s has no key %s", secret.Name, secret.Namespace, key)}
	case len(bytes.TrimSpace(value)) == 0:
		return nil, &permanentError{fmt.Sprintf("the key %s of the Secret %s in namespace %s is empty", key, secret.Name, secret.Namespace)}
	}
	return value, nil
}

// commandOrDefault returns the command of an action, or else that of the executor.
func (a action) commandOrDefault(executors []string) []string {
	if len(a.Command) > 0 {
		return a.Command
	}
	return executors
}
