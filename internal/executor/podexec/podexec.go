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

// Target says in how many of the selected pods the command runs.
type Target string

const (
	// Each is all of them, also those that appear while the command runs in others.
	Each Target = "each"
	// Any is one of them: the first, ready ones first, then by namespace and name, in
	// which the command can be started.
	Any Target = "any"
)

// MissingPolicy says what it means that no selected pod runs.
type MissingPolicy string

const (
	// Fail makes it an error of kind Unreachable.
	Fail MissingPolicy = "Fail"
	// Skip makes it an Answer that says so.
	Skip MissingPolicy = "Skip"
	// Undo is Skip for an action that undoes what another one did: an owed action is
	// repeated until it ends well, and without a pod it never would. A pod that is there
	// and will run, or is about to be replaced, is an error of kind Unreachable: what was
	// done may be in its volume.
	Undo MissingPolicy = "Undo"
)

// MaxParallel is the largest value of Options.Parallel.
const MaxParallel = 64

// Reader reads pods, past any cache: a pod that started a moment ago must be seen.
// Implementations are safe for concurrent use.
type Reader interface {
	// ListPods returns all pods of one namespace that the selector finds, and none of a
	// namespace that does not exist.
	ListPods(ctx context.Context, namespace string, selector labels.Selector) ([]corev1.Pod, error)
}

// ReaderFunc is a function that is a Reader.
type ReaderFunc func(ctx context.Context, namespace string, selector labels.Selector) ([]corev1.Pod, error)

// ListPods calls the function.
func (f ReaderFunc) ListPods(ctx context.Context, namespace string, selector labels.Selector) ([]corev1.Pod, error) {
	return f(ctx, namespace, selector)
}

// CommandRunner runs commands in containers. Implementations are safe for concurrent use.
type CommandRunner interface {
	// Exec runs a command, hands it stdin and writes what it prints, until it ended or
	// ctx did; it returns promptly then, but the command may go on. The writers
	// never fail, may be written to concurrently, and also after Exec has returned.
	//
	// The error is nil for exit code 0, an ExitError of k8s.io/client-go/util/exec for
	// others, and a *NotStartedError if the command was certainly not started. With any
	// other error nobody knows whether it was started, or ended.
	Exec(ctx context.Context, namespace, pod, container string, command []string,
		stdin io.Reader, stdout, stderr io.Writer) error
}

// NotStartedError says that a command was not started. Its text may hold
// anything and is for logs.
type NotStartedError struct {
	// Err is why.
	Err error
}

// Error returns the cause's text.
func (e *NotStartedError) Error() string { return "not started: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *NotStartedError) Unwrap() error { return e.Err }

// NamespacesFunc returns the names of the namespaces that the Backup or Restore of a call
// includes, in this cluster (for a Restore: after their mapping). Pods of no others
// are touched; so neither "" nor a pattern may be among them. An *executor.Error is
// returned as it is, any other error becomes one of kind Unreachable.
type NamespacesFunc func(ctx context.Context, call executor.Call) ([]string, error)

// Options are what an Executor needs.
type Options struct {
	// Reader lists pods.
	Reader Reader
	// CommandRunner runs commands in them.
	CommandRunner CommandRunner
	// Selector finds pods by their labels. It must select something: a command that
	// runs in all pods is nobody's wish.
	Selector labels.Selector
	// Namespaces says where to look for pods.
	Namespaces NamespacesFunc
	// Container is the name of the container to run in, also of a sidecar among the init
	// containers. If it is "", it is the one that the annotation
	// kubectl.kubernetes.io/default-container names, or else the first.
	Container string
	// Command is the program and its arguments. It is used as it is: no shell, nothing
	// is put into it.
	Command []string
	// Target is Each (the default) or Any.
	Target Target
	// Parallel is in how many pods at once the command runs with Each, at most
	// MaxParallel. With 1, the default, it is one after the other by namespace and name.
	Parallel int
	// OnMissing is Fail (the default), Skip or Undo.
	OnMissing MissingPolicy
	// RequireAnswer makes exit code 0 without an answer a failure; see the package
	// comment for why.
	RequireAnswer bool
	// Redactor knows the secrets that nobody may read; nil knows none.
	Redactor *redact.Redactor
}

// Executor runs one action. It is safe for concurrent use.
type Executor struct {
	options Options
}

var _ executor.Executor = (*Executor)(nil)

// New returns an Executor, or an error that says which option is wrong.
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
	return &Executor{options: options}, nil
}

func validateOptions(o Options) error {
	switch {
	case o.Reader == nil || o.CommandRunner == nil || o.Namespaces == nil:
		return errors.New("podExec needs a reader, a stream and the namespaces of a call")
	case o.Selector == nil || o.Selector.Empty():
		return errors.New("podExec has no selector: say which pods the command is for")
	case len(o.Command) == 0 || o.Command[0] == "":
		return errors.New("podExec has no command: give the program and its arguments")
	case o.Target != Each && o.Target != Any:
		return fmt.Errorf("podExec has the target %q: use %q or %q", o.Target, Each, Any)
	case o.OnMissing != Fail && o.OnMissing != Skip && o.OnMissing != Undo:
		return fmt.Errorf("podExec cannot do %q when no pod is found: use %q, %q or %q", o.OnMissing, Fail, Skip, Undo)
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
	if err := r.runInPods(ctx); err != nil {
		return executor.Answer{}, err
	}
	return r.combineResults()
}
