// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/internal/backoff"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
)

const (
	// maxFailureTime is the maximum total duration of an action's failed calls. An action that
	// only answers now and then must not hold up a deletion forever.
	maxFailureTime = time.Hour
	// firstUnreachableBackoff is the wait after the first call that did not reach the plugin,
	// which may restart. The next one is longer, and after the third the action is skipped
	// for the rest of the round.
	firstUnreachableBackoff = 2 * time.Second
	// endOfEntries is greater than the number of any entry.
	endOfEntries = math.MaxInt64
)

// target is one action in one deletion, over all rounds.
type target struct {
	spec   Spec
	pass   *actionPass
	action *pluginclient.ItemAction[pluginclient.DeleteItemAction] // nil until its selector is known
	result ActionResult
	// exhausted is set if it is not called in any further round; failureTime is the reason.
	exhausted   bool
	failureTime time.Duration

	// dueEntries are the entries before dueFrom that it must receive in this round, in order;
	// from dueFrom on it must receive all.
	dueEntries []int64
	dueFrom    int64
	// inRound is set if it takes part in this round, stopped if the operator gave up on it in
	// this round. unreachableCalls counts consecutive calls that did not reach it.
	inRound, stopped bool
	unreachableCalls int
	// nextDueEntries and nextDueFrom are the same for the next round: all entries at first.
	nextDueEntries []int64
	nextDueFrom    int64
	// failed is how many calls failed in this round, details describes the first of them, and
	// skipped is how many objects were due after the operator gave up on it.
	failed, skipped int64
	details         []string
}

// needsAnotherRound reports whether another round may help.
func (t *target) needsAnotherRound() bool {
	return !t.exhausted && (t.action == nil || t.failed+t.skipped > 0)
}

// prepareRound prepares a round.
func (t *target) prepareRound(ctx context.Context, names itemaction.ResourceResolver) {
	t.inRound = false
	if !t.needsAnotherRound() || !t.resolveSelector(ctx, names) {
		return
	}
	t.dueEntries, t.dueFrom, t.nextDueEntries, t.nextDueFrom = t.nextDueEntries, t.nextDueFrom, nil, endOfEntries
	t.failed, t.skipped, t.details = 0, 0, nil
	t.inRound, t.stopped, t.unreachableCalls = true, false, 0
}

// resolveSelector gets the selector of the action, unless it is known and the operator has not given up.
func (t *target) resolveSelector(ctx context.Context, names itemaction.ResourceResolver) (ok bool) {
	if t.action != nil && !t.stopped {
		return true
	}
	action := pluginclient.NewItemAction(t.spec, t.pass.req.Run.UID, t.pass.runner.Logs.Redactor())
	if err := resolveActionSelector(ctx, action, names); err != nil {
		t.recordFailure(ctx, "Asking an action which objects it applies to failed", "", t.pass.runner.redactedLine(err.Error()))
		return false
	}
	t.action = action
	return true
}

// resolveActionSelector calls action.ResolveSelector, and turns a panic into an error.
func resolveActionSelector(ctx context.Context, action *pluginclient.ItemAction[pluginclient.DeleteItemAction], names itemaction.ResourceResolver) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("action %s was left out: it panicked: %v", action.Name(), p)
		}
	}()
	return action.ResolveSelector(ctx, names)
}

// takeIfDue reports whether the action must receive an entry. It is called for each entry, in
// their order.
func (t *target) takeIfDue(at int64) bool {
	if !t.inRound || at >= t.dueFrom {
		return t.inRound
	}
	if len(t.dueEntries) == 0 || t.dueEntries[0] != at {
		return false
	}
	t.dueEntries = t.dueEntries[1:]
	return true
}

// recordSkipped records an entry that was due after the operator gave up on the action.
func (t *target) recordSkipped(at int64) {
	t.skipped++
	if at < t.dueFrom {
		t.nextDueEntries = append(t.nextDueEntries, at)
	} else if t.nextDueFrom == endOfEntries {
		t.nextDueFrom = at
	}
}

// callWithItem passes one object to the action. The error is that of ctx.
func (t *target) callWithItem(ctx context.Context, at int64, item *archivedItem) error {
	began := t.pass.runner.currentTime()
	err := t.executeDeleteAction(ctx, item)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		t.unreachableCalls = 0
		t.result.Items++
		return nil
	}
	t.nextDueEntries = append(t.nextDueEntries, at)
	t.failed++
	reason := t.action.WrapPluginError(err).Error()
	t.recordFailure(ctx, "Cleaning up after an object failed", item.itemDisplayName(), reason)
	if len(t.details) < MaxLeftovers {
		t.details = append(t.details, t.pass.runner.redactedLine(fmt.Sprintf("what item action %s keeps for %s: %s", t.spec.Name, item.itemDisplayName(), reason)))
	}
	return t.handleCallFailure(ctx, began, err)
}

// executeDeleteAction calls the action. NotFound is no error, and a panic is one.
func (t *target) executeDeleteAction(ctx context.Context, item *archivedItem) (err error) {
	ctx, call, err := t.action.BeginForItem(ctx, t.pass.runner.redactedLine(item.itemDisplayName()))
	if err != nil {
		return err
	}
	defer call.End(&err)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it panicked: %v", p)
		}
	}()
	err = call.Version.Execute(ctx, call.ItemCall, item.entry.Content, t.pass.req.Backup)
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

// handleCallFailure decides whether the action is called again in this round after a failed
// call, and gives a plugin that stopped the time to restart.
func (t *target) handleCallFailure(ctx context.Context, began time.Time, err error) error {
	var failed *pluginclient.CallError
	unreached := errors.As(err, &failed) && failed.Kind == executor.Unreachable
	t.stopped = t.action.IsCircuitOpen() || errors.Is(err, pluginclient.ErrNoSuchAction)
	t.unreachableCalls++
	if !unreached {
		t.unreachableCalls = 0
	}
	if unreached && !t.stopped {
		delays := wait.Backoff{Duration: firstUnreachableBackoff, Factor: 4}
		if err := t.pass.runner.waitBeforeRetry(ctx, backoff.Delay(delays, t.unreachableCalls)); err != nil {
			return err
		}
	}
	t.failureTime += t.pass.runner.currentTime().Sub(began)
	if t.failureTime > maxFailureTime {
		t.stopped, t.exhausted = true, true
	}
	return ctx.Err()
}

// recordFailure records and logs the reason of a failure.
func (t *target) recordFailure(ctx context.Context, message, about, reason string) {
	t.result.Message = t.pass.runner.redactedLine(reason) // what precedes a long answer counts
	log := logr.FromContextOrDiscard(ctx).WithValues("action", t.spec.Name, "plugin", t.spec.Plugin)
	if about != "" {
		log = log.WithValues("item", t.pass.runner.redactedLine(about))
	}
	log.Info(message, "reason", reason)
}

// resultWithLeftovers returns the result of the action, and list with what it left behind.
func (t *target) resultWithLeftovers(list []string) (ActionResult, []string) {
	t.result.Failed = t.failed + t.skipped
	list = AppendLeftovers(list, t.details...)
	list = appendUnnamedLeftovers(list, t.failed-int64(len(t.details)))
	switch {
	case t.action == nil:
		list = AppendLeftovers(list, t.pass.runner.redactedLine(fmt.Sprintf("what item action %s keeps for any object of the backup: %s", t.spec.Name, t.result.Message)))
	case t.skipped > 0:
		list = AppendLeftovers(list, t.pass.runner.redactedLine(fmt.Sprintf("what item action %s keeps for %d objects that it did not receive, because the operator gave up on it: %s",
			t.spec.Name, t.skipped, t.result.Message)))
	}
	return t.result, list
}
