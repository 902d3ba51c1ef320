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
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/itemaction/remote"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
)

const (
	// maxFailureTime is how much time calls of an action that failed may take altogether. One
	// that answers now and then must not hold up a deletion for ever.
	maxFailureTime = time.Hour
	// firstUnreachableBackoff is after the first call that did not reach the plugin, so that it can
	// start again. The next one is longer, and after the third the action is given up
	// for the round.
	firstUnreachableBackoff = 2 * time.Second
	// endOfEntries is more than the number of any entry.
	endOfEntries = math.MaxInt64
)

// target is one action in one deletion, over all rounds.
type target struct {
	spec   Spec
	pass   *actionPass
	action *remote.Action[adapter.DeleteItemAction] // nil until it said what concerns it
	result ActionResult
	// exhausted says that it is not called in any further round, and wasted is why.
	exhausted   bool
	failureTime time.Duration

	// dueEntries are the entries before from that it has to be shown in this round, in their
	// order; and all from from on.
	dueEntries []int64
	dueFrom    int64
	// inRound says whether it is called in this round, stopped that it was given up
	// meanwhile, and unreached how many calls in a row did not reach it.
	inRound, stopped bool
	unreachableCalls int
	// nextDueEntries and rest are due and from of the next round: all entries at first.
	nextDueEntries []int64
	nextDueFrom    int64
	// failed is how many calls failed in this round, details are the first of them in
	// words, and skipped how many objects were due after it was given up.
	failed, skipped int64
	details         []string
}

// needsAnotherRound reports whether another round may help.
func (t *target) needsAnotherRound() bool {
	return !t.exhausted && (t.action == nil || t.failed+t.skipped > 0)
}

// prepareRound gets ready for a round.
func (t *target) prepareRound(ctx context.Context, names itemaction.ResourceResolver) {
	t.inRound = false
	if !t.needsAnotherRound() || !t.resolveSelector(ctx, names) {
		return
	}
	t.dueEntries, t.dueFrom, t.nextDueEntries, t.nextDueFrom = t.nextDueEntries, t.nextDueFrom, nil, endOfEntries
	t.failed, t.skipped, t.details = 0, 0, nil
	t.inRound, t.stopped, t.unreachableCalls = true, false, 0
}

// resolveSelector asks the action what concerns it, unless that is known and it was not given up.
func (t *target) resolveSelector(ctx context.Context, names itemaction.ResourceResolver) (ok bool) {
	if t.action != nil && !t.stopped {
		return true
	}
	action := remote.New(t.spec, t.pass.req.Key, t.pass.runner.Logs.Redactor())
	if err := resolveActionSelector(ctx, action, names); err != nil {
		t.recordFailure(ctx, "Asking an action which objects concern it failed", "", t.pass.runner.redactedLine(err.Error()))
		return false
	}
	t.action = action
	return true
}

// resolveActionSelector is action.Choose, and turns a panic into an error.
func resolveActionSelector(ctx context.Context, action *remote.Action[adapter.DeleteItemAction], names itemaction.ResourceResolver) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("action %s was left out: it panicked: %v", action.Name(), p)
		}
	}()
	return action.ResolveSelector(ctx, names)
}

// takeIfDue reports whether the action has to be shown an entry. It is asked for each, in
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

// recordSkipped notes an entry that was due after the action was given up.
func (t *target) recordSkipped(at int64) {
	t.skipped++
	if at < t.dueFrom {
		t.nextDueEntries = append(t.nextDueEntries, at)
	} else if t.nextDueFrom == endOfEntries {
		t.nextDueFrom = at
	}
}

// callWithItem shows one object. The error is that of ctx.
func (t *target) callWithItem(ctx context.Context, at int64, item *archivedItem) error {
	began := t.pass.runner.currentTime()
	err := t.action.CallForItem(ctx, t.pass.runner.redactedLine(item.itemDisplayName()), func(
		ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, version adapter.DeleteItemAction,
	) error {
		return executeDeleteAction(ctx, conn, call, version, item.entry.Content, t.pass.req.Backup)
	})
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

// executeDeleteAction makes the call. What is gone already is no error, and a panic is one.
func executeDeleteAction(
	ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, version adapter.DeleteItemAction, object, backup []byte,
) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it panicked: %v", p)
		}
	}()
	err = version.Execute(ctx, conn, call, object, backup)
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

// handleCallFailure decides whether the action is called again in this round after a call that
// failed, and gives a plugin that ended the time to start again.
func (t *target) handleCallFailure(ctx context.Context, began time.Time, err error) error {
	var failed *caller.Error
	unreached := errors.As(err, &failed) && failed.Kind == executor.Unreachable
	t.stopped = t.action.IsCircuitOpen() || errors.Is(err, caller.ErrNoSuchAction)
	t.unreachableCalls++
	if !unreached {
		t.unreachableCalls = 0
	}
	if unreached && !t.stopped {
		if err := t.pass.runner.waitBeforeRetry(ctx, firstUnreachableBackoff<<(2*(t.unreachableCalls-1))); err != nil {
			return err
		}
	}
	t.failureTime += t.pass.runner.currentTime().Sub(began)
	if t.failureTime > maxFailureTime {
		t.stopped, t.exhausted = true, true
	}
	return ctx.Err()
}

// recordFailure keeps and logs why something failed.
func (t *target) recordFailure(ctx context.Context, message, about, reason string) {
	t.result.Message = t.pass.runner.redactedLine(reason) // what was put in front of a long answer counts
	log := logr.FromContextOrDiscard(ctx).WithValues("action", t.spec.Name, "plugin", t.spec.Plugin)
	if about != "" {
		log = log.WithValues("item", t.pass.runner.redactedLine(about))
	}
	log.Info(message, "reason", reason)
}

// resultWithLeftovers is what became of the action, and list with what it left behind.
func (t *target) resultWithLeftovers(list []string) (ActionResult, []string) {
	t.result.Failed = t.failed + t.skipped
	list = AppendLeftovers(list, t.details...)
	list = appendUnnamedLeftovers(list, t.failed-int64(len(t.details)))
	switch {
	case t.action == nil:
		list = AppendLeftovers(list, t.pass.runner.redactedLine(fmt.Sprintf("what item action %s keeps for any object of the backup: %s", t.spec.Name, t.result.Message)))
	case t.skipped > 0:
		list = AppendLeftovers(list, t.pass.runner.redactedLine(fmt.Sprintf("what item action %s keeps for %d objects that it was not shown, because it was given up: %s",
			t.spec.Name, t.skipped, t.result.Message)))
	}
	return t.result, list
}
