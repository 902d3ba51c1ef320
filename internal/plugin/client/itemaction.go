// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

const (
	// DefaultItemActionTimeout is the timeout of a call for one object.
	DefaultItemActionTimeout = 10 * time.Minute
	// MaxSelectorTimeout bounds AppliesTo, for which a whole run waits.
	MaxSelectorTimeout = time.Minute
)

// ItemActionSpec names an action of a plugin and how to call it. A is the client that calls
// it.
type ItemActionSpec[A SelectorProvider] struct {
	// Name is the registered name of the action, "example.io/annotate", and Plugin the name
	// of the Plugin that provides it.
	Name, Plugin string
	// Kind is the kind of the action, "BackupItemAction" or "AsyncRestoreItemAction";
	// empty if that does not matter.
	Kind string
	// Timeout of each call; zero means DefaultItemActionTimeout.
	Timeout time.Duration
	// Parameters are the user's configuration of the action.
	Parameters map[string]string
	// IgnoreFailure continues with a warning if the action does not return its selector, or
	// does not answer for an object. Otherwise that is an error of the run.
	IgnoreFailure bool
	// Resolve finds the process that currently provides the action.
	Resolve ResolveFunc[A]
}

// ItemAction is one action in one run. Except for ResolveSelector, which must come first, it
// is safe for concurrent use.
type ItemAction[A SelectorProvider] struct {
	spec     ItemActionSpec[A]
	key      string
	caller   *Caller[A]
	redactor *redact.Redactor
	breaker  CircuitBreaker

	// filter and resolver are set by ResolveSelector.
	filter   Filter
	resolver itemaction.ResourceResolver
}

// NewItemAction returns an action for the run with the key, which is the UID of its object.
// It makes no call.
func NewItemAction[A SelectorProvider](spec ItemActionSpec[A], key string, redactor *redact.Redactor) *ItemAction[A] {
	if spec.Timeout <= 0 {
		spec.Timeout = DefaultItemActionTimeout
	}
	return &ItemAction[A]{spec: spec, key: key, caller: NewCaller(spec.Resolve, redactor), redactor: redactor}
}

// Name returns that of the action.
func (a *ItemAction[A]) Name() string { return a.spec.Name }

// Plugin returns the name of the plugin.
func (a *ItemAction[A]) Plugin() string { return a.spec.Plugin }

// Kind returns the kind of the action, empty if the spec has none.
func (a *ItemAction[A]) Kind() string { return a.spec.Kind }

// ResourceResolver returns the resolver passed to ResolveSelector.
func (a *ItemAction[A]) ResourceResolver() itemaction.ResourceResolver { return a.resolver }

// ShouldIgnoreFailure reports whether the user configured the action to be optional.
func (a *ItemAction[A]) ShouldIgnoreFailure() bool { return a.spec.IgnoreFailure }

// AppliesTo reports whether the action may handle objects of a resource.
func (a *ItemAction[A]) AppliesTo(resource schema.GroupResource) bool {
	return a.filter.MatchesResource(resource)
}

// Matches reports whether the action handles an object of such a resource; see Filter.
func (a *ItemAction[A]) Matches(namespace string, labels func() map[string]string) bool {
	return a.filter.MatchesObject(namespace, labels)
}

// ResolveSelector requests the selector of the action. The error is an
// *itemaction.SkippedActionError if the action is optional.
func (a *ItemAction[A]) ResolveSelector(ctx context.Context, names itemaction.ResourceResolver) error {
	a.resolver = names
	err := a.requestSelector(ctx)
	switch {
	case err == nil:
		return nil
	case a.spec.IgnoreFailure && ctx.Err() == nil:
		return &itemaction.SkippedActionError{Reason: fmt.Sprintf("action %s was skipped: %s", a.spec.Name, a.WrapPluginError(err))}
	default:
		return fmt.Errorf("action %s cannot be used: %w; fix the plugin, or remove the action", a.spec.Name, a.WrapPluginError(err))
	}
}

func (a *ItemAction[A]) requestSelector(ctx context.Context) error {
	if err := hook.ValidateParameters(a.spec.Parameters); err != nil {
		return fmt.Errorf("cannot be called: %w", err)
	}
	selector, err := a.callAppliesTo(ctx)
	if err == nil {
		a.filter, err = NewFilter(selector, a.resolver)
	}
	if err != nil {
		return fmt.Errorf("AppliesTo failed: %w", err)
	}
	return nil
}

func (a *ItemAction[A]) callAppliesTo(ctx context.Context) (selector item.Selector, err error) {
	ctx, call, err := a.begin(ctx, "", min(a.spec.Timeout, MaxSelectorTimeout))
	if err != nil {
		return selector, err
	}
	defer call.End(&err)
	return call.Version.AppliesTo(ctx, call.ItemCall)
}

// OpenItemCall is one call of an item action, which makes exactly one gRPC call.
type OpenItemCall[A SelectorProvider] struct {
	ItemCall
	// Version is the client for the version that the plugin offers.
	Version A

	call   *Call[A]
	cancel context.CancelFunc
	// breaker, if set, records the result.
	breaker *CircuitBreaker
	start   CallStart
	runCtx  context.Context //nolint:containedctx // A call that the run ended does not count.
}

// BeginForItem opens a call for an object, which about names in the log. The gRPC call is made with
// the returned ctx. The error, and that of End, may be a *CallError, or a *CircuitOpenError of an
// action that is no longer called; it is for WrapPluginError.
func (a *ItemAction[A]) BeginForItem(ctx context.Context, about string) (context.Context, *OpenItemCall[A], error) {
	start, err := a.breaker.AllowCall()
	if err != nil {
		return nil, nil, err
	}
	callCtx, call, err := a.begin(ctx, about, a.spec.Timeout)
	if err != nil {
		a.breaker.recordUnlessEnded(ctx, start, err)
		return nil, nil, err
	}
	call.breaker, call.start, call.runCtx = &a.breaker, start, ctx
	return callCtx, call, nil
}

// begin opens a call with a timeout.
func (a *ItemAction[A]) begin(ctx context.Context, about string, timeout time.Duration) (context.Context, *OpenItemCall[A], error) {
	// For log lines of a plugin that does not know about calls, only this is certain.
	runLog := logr.FromContextOrDiscard(ctx).WithValues("plugin", a.spec.Plugin)
	log := runLog.WithValues("action", a.spec.Name)
	if about != "" {
		log = log.WithValues("item", about)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	call, err := a.caller.Begin(ctx, host.Call{Key: a.key, Log: log, RunLog: runLog})
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return ctx, &OpenItemCall[A]{
		ItemCall: ItemCall{Conn: call.Conn(), Action: a.spec.Name, CallID: call.ID(), Key: a.key, Parameters: a.spec.Parameters},
		Version:  call.Action, call: call, cancel: cancel,
	}, nil
}

// End ends a call as Call.End does.
func (c *OpenItemCall[A]) End(err *error) {
	defer c.cancel()
	c.call.End(err)
	if c.breaker != nil {
		c.breaker.recordUnlessEnded(c.runCtx, c.start, *err)
	}
}

// IsCircuitOpen reports whether the action is no longer called.
func (a *ItemAction[A]) IsCircuitOpen() bool {
	_, err := a.breaker.AllowCall()
	return err != nil
}

// IsUnanswered reports whether the error of a call for an item does not depend on the object:
// the action did not answer, or is no longer called.
func IsUnanswered(err error) bool {
	kind := executorErrorKind(err)
	return errors.As(err, new(*CircuitOpenError)) || kind == executor.Timeout || kind == executor.Unreachable
}

// executorErrorKind returns the kind of a call's error, and the zero value for success.
func executorErrorKind(err error) executor.ErrorKind {
	var failed *CallError
	if errors.As(err, &failed) {
		return failed.Kind
	}
	return ""
}

// WrapPluginError adds the name of the plugin to an error, in a text that can be shown.
func (a *ItemAction[A]) WrapPluginError(err error) error {
	return &pluginError{text: fmt.Sprintf("plugin %q: %s", a.spec.Plugin, a.RedactLine(err.Error())), err: err}
}

// RedactLine returns a text that is partly from the plugin as one line that can be shown.
func (a *ItemAction[A]) RedactLine(text string) string {
	return executor.OneLine(a.redactor.String(text))
}

// pluginError is an error whose text can be shown.
type pluginError struct {
	text string
	err  error
}

// Error returns the text.
func (e *pluginError) Error() string { return e.text }

// Unwrap returns the cause, whose text may contain anything.
func (e *pluginError) Unwrap() error { return e.err }
