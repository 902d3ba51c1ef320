// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// Target selects in how many of the matching pods the command runs.
type Target string

const (
	// Each selects all of them, including pods that appear while the command runs in others.
	Each Target = "each"
	// Any selects one of them: the first in which the command can be started. Ready pods come
	// first, then the order is by namespace and name.
	Any Target = "any"
)

// MissingPolicy decides what happens if no matching pod runs.
type MissingPolicy string

const (
	// Fail returns an error of kind Unreachable.
	Fail MissingPolicy = "Fail"
	// Skip returns an Answer that says so.
	Skip MissingPolicy = "Skip"
	// Undo is Skip for an action that undoes another one: owed clean-up is repeated until it
	// succeeds, and without a pod it never would. A pod that exists and will run, or is about to be
	// replaced, is an error of kind Unreachable: the effect may be in its volume. Pods with commands
	// of their own have an effect only if PodCommand.Undoes is set.
	Undo MissingPolicy = "Undo"
)

// MaxParallel is the largest value of Options.Parallel.
const MaxParallel = 64

// Reader reads pods, bypassing caches: a pod that started a moment ago must be found.
// Implementations are safe for concurrent use.
type Reader interface {
	// ListPods returns all pods of one namespace that match the selector. A namespace that does not
	// exist has none.
	ListPods(ctx context.Context, namespace string, selector labels.Selector) ([]corev1.Pod, error)
}

// ReaderFunc is a function that implements Reader.
type ReaderFunc func(ctx context.Context, namespace string, selector labels.Selector) ([]corev1.Pod, error)

// ListPods calls the function.
func (f ReaderFunc) ListPods(ctx context.Context, namespace string, selector labels.Selector) ([]corev1.Pod, error) {
	return f(ctx, namespace, selector)
}

// CommandRunner runs commands in containers. Implementations are safe for concurrent use.
type CommandRunner interface {
	// Exec runs a command, passes it stdin and writes its output, until the command or ctx ends. It
	// returns promptly when ctx ends, but the command may continue. The writers never fail, and may
	// be written to concurrently and after Exec has returned.
	//
	// The error is nil for exit code 0, an ExitError of k8s.io/client-go/util/exec for others, and
	// a *NotStartedError if the command was certainly not started. With any other error it is
	// unknown whether the command was started or ended.
	Exec(ctx context.Context, namespace, pod, container string, command []string,
		stdin io.Reader, stdout, stderr io.Writer) error
}

// NotStartedError means that a command was not started. Its text may contain anything and is for
// logs.
type NotStartedError struct {
	// Err is the cause.
	Err error
}

// Error returns the cause's text.
func (e *NotStartedError) Error() string { return "not started: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *NotStartedError) Unwrap() error { return e.Err }

// NamespacesFunc returns the names of the namespaces that the Backup or Restore of a call includes,
// in this cluster (for a Restore: after their mapping). Pods of other namespaces are not touched,
// so neither "" nor a pattern is allowed. An *executor.Error is returned as is; any other error
// becomes one of kind Unreachable.
type NamespacesFunc func(ctx context.Context, call executor.Call) ([]string, error)

// Options configure an Executor.
type Options struct {
	// Reader lists pods.
	Reader Reader
	// CommandRunner runs commands in them.
	CommandRunner CommandRunner
	// Selector matches pods by their labels. It must not be empty: a command in all pods is never
	// intended.
	Selector labels.Selector
	// Namespaces returns the namespaces of the pods.
	Namespaces NamespacesFunc
	// Container is the name of the container, which may be a sidecar among the init containers. If
	// empty, it is the one named by the annotation kubectl.kubernetes.io/default-container, or else
	// the first.
	Container string
	// Command is the program and its arguments. It is used as is: there is no shell, and nothing is
	// inserted.
	Command []string
	// Target is Each (the default) or Any.
	Target Target
	// Parallel is the number of pods in which the command runs at once with Each, at most
	// MaxParallel. With 1, the default, the pods follow one another by namespace and name.
	Parallel int
	// ParallelInNamespace, if above 0, limits how many of these pods are in one namespace, so that its
	// owners cannot hold up others.
	ParallelInNamespace int
	// OnMissing is Fail (the default), Skip or Undo.
	OnMissing MissingPolicy
	// CommandFor, if set, returns the command of a pod; nil if none runs in it. It replaces
	// Container, Command and RequireAnswer, makes Selector optional, and is only for Each.
	CommandFor func(pod *corev1.Pod) *PodCommand
	// MaxPods, if above 0, is in how many pods commands of CommandFor may run: with more, none is run.
	MaxPods int
	// OnOutcome, if set, is called at the end of a call for each command of CommandFor that was run or could
	// not be. While one waits for its container, the call does not fail, and the caller must remember which
	// others failed.
	OnOutcome func(pod *corev1.Pod, outcome PodOutcome)
	// RequireAnswer makes exit code 0 without an answer a failure; the package comment explains
	// why.
	RequireAnswer bool
	// Redactor knows the secrets to remove; nil knows none.
	Redactor *redact.Redactor
}

// Executor runs one action. It is safe for concurrent use.
type Executor struct {
	options Options
}

var _ executor.Executor = (*Executor)(nil)

// New returns an Executor, or an error that names the invalid option.
func New(options Options) (*Executor, error) {
	if options.Target == "" {
		options.Target = Each
	}
	if options.OnMissing == "" {
		options.OnMissing = Fail
	}
	if options.Parallel == 0 {
		options.Parallel = 1
	}
	if err := validateOptions(options); err != nil {
		return nil, err
	}
	options.Command = slices.Clone(options.Command)
	if options.CommandFor != nil && options.Selector == nil {
		options.Selector = labels.Everything()
	}
	return &Executor{options: options}, nil
}

func validateOptions(o Options) error { //nolint:gocyclo // A list of rules that do not depend on each other.
	switch {
	case o.Reader == nil || o.CommandRunner == nil || o.Namespaces == nil:
		return errors.New("podExec needs Reader, CommandRunner and Namespaces")
	case o.CommandFor != nil && (o.Target != Each || len(o.Command) > 0):
		return errors.New("podExec has commands of pods and a command or target of its own: remove one of them")
	case o.CommandFor == nil && (o.Selector == nil || o.Selector.Empty()):
		return errors.New("podExec has no selector: set one that matches the pods for the command")
	case o.CommandFor == nil && (len(o.Command) == 0 || o.Command[0] == ""):
		return errors.New("podExec has no command: set the program and its arguments")
	case o.Target != Each && o.Target != Any:
		return fmt.Errorf("podExec has the target %q: use %q or %q", o.Target, Each, Any)
	case o.OnMissing != Fail && o.OnMissing != Skip && o.OnMissing != Undo:
		return fmt.Errorf("podExec has the policy %q for missing pods: use %q, %q or %q", o.OnMissing, Fail, Skip, Undo)
	case o.Parallel < 1 || o.Parallel > MaxParallel:
		return fmt.Errorf("podExec cannot run in %d pods at once: use 1 to %d", o.Parallel, MaxParallel)
	}
	return nil
}

// Execute makes one attempt; see executor.Executor.
func (e *Executor) Execute(ctx context.Context, call executor.Call) (executor.Answer, error) {
	if err := validateCall(call); err != nil {
		return executor.Answer{}, executor.NewError(executor.Invalid, call, e.options.Redactor.String(err.Error()), err)
	}
	r := &invocation{Options: e.options, call: call, skipReasons: map[types.UID]string{}}
	err := r.runInPods(ctx)
	r.reportOutcomes()
	if err != nil {
		return executor.Answer{}, err
	}
	return r.combineResults()
}
