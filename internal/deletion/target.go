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
	// maxWasted is how much time calls of an action that failed may take altogether. One
	// that answers now and then must not hold up a deletion for ever.
	maxWasted = time.Hour
	// firstPause is after the first call that did not reach the plugin, so that it can
	// start again. The next one is longer, and after the third the action is given up
	// for the round.
	firstPause = 2 * time.Second
	// none is more than the number of any entry.
	none = math.MaxInt64
)

// target is one action in one deletion, over all rounds.
type target struct {
	spec   Spec
	run    *run
	action *remote.Action[adapter.DeleteItemAction] // nil until it said what concerns it
	result ActionResult
	// over says that it is not called in any further round, and wasted is why.
	over   bool
	wasted time.Duration

	// due are the entries before from that it has to be shown in this round, in their
	// order; and all from from on.
	due  []int64
	from int64
	// takesPart says whether it is called in this round, stopped that it was given up
	// meanwhile, and unreached how many calls in a row did not reach it.
	takesPart, stopped bool
	unreached          int
	// again and rest are due and from of the next round: all entries at first.
	again []int64
	rest  int64
	// failed is how many calls failed in this round, details are the first of them in
	// words, and skipped how many objects were due after it was given up.
	failed, skipped int64
	details         []string
}

// unfinished reports whether another round may help.
func (t *target) unfinished() bool {
	return !t.over && (t.action == nil || t.failed+t.skipped > 0)
}

// begin gets ready for a round.
func (t *target) begin(ctx context.Context, names itemaction.Names) {
	t.takesPart = false
	if !t.unfinished() || !t.choose(ctx, names) {
		return
	}
	t.due, t.from, t.again, t.rest = t.again, t.rest, nil, none
	t.failed, t.skipped, t.details = 0, 0, nil
	t.takesPart, t.stopped, t.unreached = true, false, 0
}

// choose asks the action what concerns it, unless that is known and it was not given up.
func (t *target) choose(ctx context.Context, names itemaction.Names) (ok bool) {
	if t.action != nil && !t.stopped {
		return true
	}
	action := remote.New(t.spec, t.run.req.Key, t.run.job.Logs.Redactor())
	if err := chosen(ctx, action, names); err != nil {
		t.note(ctx, "Asking an action which objects concern it failed", "", t.run.job.line(err.Error()))
		return false
	}
	t.action = action
	return true
}

// chosen is action.Choose, and turns a panic into an error.
func chosen(ctx context.Context, action *remote.Action[adapter.DeleteItemAction], names itemaction.Names) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("action %s was left out: it panicked: %v", action.Name(), p)
		}
	}()
	return action.Choose(ctx, names)
}

// isDue reports whether the action has to be shown an entry. It is asked for each, in
// their order.
func (t *target) isDue(at int64) bool {
	if !t.takesPart || at >= t.from {
		return t.takesPart
	}
	if len(t.due) == 0 || t.due[0] != at {
		return false
	}
	t.due = t.due[1:]
	return true
}

// skip notes an entry that was due after the action was given up.
func (t *target) skip(at int64) {
	t.skipped++
	if at < t.from {
		t.again = append(t.again, at)
	} else if t.rest == none {
		t.rest = at
	}
}

// show shows one object. The error is that of ctx.
func (t *target) show(ctx context.Context, at int64, item *archived) error {
	began := t.run.job.now()
	err := t.action.Call(ctx, t.run.job.line(item.about()), func(
		ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, version adapter.DeleteItemAction,
	) error {
		return execute(ctx, conn, call, version, item.entry.Content, t.run.req.Backup)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		t.unreached = 0
		t.result.Items++
		return nil
	}
	t.again = append(t.again, at)
	t.failed++
	reason := t.action.Explain(err).Error()
	t.note(ctx, "Cleaning up after an object failed", item.about(), reason)
	if len(t.details) < MaxLeft {
		t.details = append(t.details, t.run.job.line(fmt.Sprintf("what item action %s keeps for %s: %s", t.spec.Name, item.about(), reason)))
	}
	return t.afterFailure(ctx, began, err)
}

// execute makes the call. What is gone already is no error, and a panic is one.
func execute(
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

// afterFailure decides whether the action is called again in this round after a call that
// failed, and gives a plugin that ended the time to start again.
func (t *target) afterFailure(ctx context.Context, began time.Time, err error) error {
	var failed *caller.Error
	unreached := errors.As(err, &failed) && failed.Kind == executor.Unreachable
	t.stopped = t.action.GivenUp() || errors.Is(err, caller.ErrNoSuchAction)
	t.unreached++
	if !unreached {
		t.unreached = 0
	}
	if unreached && !t.stopped {
		if err := t.run.job.wait(ctx, firstPause<<(2*(t.unreached-1))); err != nil {
			return err
		}
	}
	t.wasted += t.run.job.now().Sub(began)
	if t.wasted > maxWasted {
		t.stopped, t.over = true, true
	}
	return ctx.Err()
}

// note keeps and logs why something failed.
func (t *target) note(ctx context.Context, message, about, reason string) {
	t.result.Message = t.run.job.line(reason) // what was put in front of a long answer counts
	log := logr.FromContextOrDiscard(ctx).WithValues("action", t.spec.Name, "plugin", t.spec.Plugin)
	if about != "" {
		log = log.WithValues("item", t.run.job.line(about))
	}
	log.Info(message, "reason", reason)
}

// outcome is what became of the action, and list with what it left behind.
func (t *target) outcome(list []string) (ActionResult, []string) {
	t.result.Failed = t.failed + t.skipped
	list = AddLeft(list, t.details...)
	list = addUnnamed(list, t.failed-int64(len(t.details)))
	switch {
	case t.action == nil:
		list = AddLeft(list, t.run.job.line(fmt.Sprintf("what item action %s keeps for any object of the backup: %s", t.spec.Name, t.result.Message)))
	case t.skipped > 0:
		list = AddLeft(list, t.run.job.line(fmt.Sprintf("what item action %s keeps for %d objects that it was not shown, because it was given up: %s",
			t.spec.Name, t.skipped, t.result.Message)))
	}
	return t.result, list
}
