// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

const (
	// maxRounds is how often an action that fails for an object receives it.
	maxRounds = 3
	// firstRoundBackoff is the wait before the second round. The one before the third is longer.
	firstRoundBackoff = 5 * time.Second
)

// actionPass is one call of CallActions.
type actionPass struct {
	runner  *Runner
	req     Request
	targets []*target
	// cleanedUp counts the successful clean-ups.
	cleanedUp int64
	// invalidItems describes objects that no action may receive; invalidRecorded has their entries.
	invalidItems    []string
	invalidRecorded bitset
}

// CallActions passes every archived object to the actions that apply to it, and removes
// nothing. A failure of an action is in the Result, and is no error; nor is an archive that
// cannot be read, or a backup whose owner is unknown. The error is that of ctx, the store,
// the scratch directory or Names. CallActions may be repeated; it then passes all objects again.
//
// Without actions it does nothing. Otherwise it reads the manifests and the archive, which
// takes its compressed size in the scratch directory, and about 100 bytes of memory for each object.
func (j *Runner) CallActions(ctx context.Context, store *storage.Store, req Request) (Result, error) {
	if len(req.Actions) == 0 {
		return Result{}, nil
	}
	log := j.loggerForRequest(req)
	ctx = logr.NewContext(ctx, log)
	result, err := j.surveyAndCallActions(ctx, store, req)
	if err != nil {
		log.Error(err, "Calling actions for the archived objects failed")
		return Result{}, err
	}
	for _, action := range result.Actions {
		log.Info("Called an action for the archived objects", "action", action.Name, "plugin", action.Plugin,
			"items", action.Items, "failed", action.Failed)
	}
	return result, nil
}

func (j *Runner) surveyAndCallActions(ctx context.Context, store *storage.Store, req Request) (Result, error) {
	own, err := j.resolveOwnership(ctx, store, req)
	if damaged := (*storage.CorruptError)(nil); errors.As(err, &damaged) {
		return newUnreadableResult(j.redactedLine(damaged.Error())), nil
	}
	if err != nil || !own.mayHaveArchive {
		var gone Result
		if err == nil && req.Complete {
			gone = newUnreadableResult("nothing of it is stored any more")
		}
		gone.NameConflict = own.nameConflict
		return gone, err
	}
	contents, err := j.fetchArchive(ctx, store, req.Name, own.digest)
	file := storage.FileName(req.Name, storage.Contents)
	switch {
	case errors.Is(err, objectstore.ErrNotExist) && own.mustHaveArchive:
		return newUnreadableResult("the archive " + file + " is missing"), nil
	case errors.Is(err, objectstore.ErrNotExist):
		return Result{}, nil // a backup that was never finished
	case err != nil:
		return Result{}, err
	}
	defer contents.close()
	found, err := surveyArchive(ctx, contents)
	if err != nil {
		return Result{}, err
	}
	if contents.digestMismatch && found.damage == nil {
		return newUnreadableResult("the archive " + file + " is not the one that the backup stored, and no action received its objects"), nil
	}
	r := &actionPass{runner: j, req: req}
	if err := r.runActionRounds(ctx, contents, found); err != nil {
		return Result{}, err
	}
	return r.newResult(found, file), nil
}

// newUnreadableResult returns the Result if no object can be passed to actions, with the reason.
func newUnreadableResult(why string) Result {
	return Result{Leftovers: AppendLeftovers(nil, "what item actions keep for any object of the backup: "+why)}
}

// runActionRounds executes the rounds.
func (r *actionPass) runActionRounds(ctx context.Context, contents *spool, found *archiveSurvey) error {
	known, err := r.loadResourceNames(ctx, found)
	if err != nil {
		return err
	}
	for _, spec := range r.req.Actions {
		spec.IgnoreFailure = true // its error then contains only the cause
		r.targets = append(r.targets, &target{spec: spec, pass: r, result: ActionResult{Name: spec.Name, Plugin: spec.Plugin}})
	}
	delays := wait.Backoff{Duration: firstRoundBackoff, Factor: 4, Steps: maxRounds}
	for round := range maxRounds {
		if round > 0 {
			if err := r.runner.waitBeforeRetry(ctx, delays.Step()); err != nil {
				return err
			}
		}
		if err := r.runActionRound(ctx, contents, found, known); err != nil {
			return err
		}
		if !slices.ContainsFunc(r.targets, (*target).needsAnotherRound) {
			return nil
		}
	}
	return nil
}

func (r *actionPass) loadResourceNames(ctx context.Context, found *archiveSurvey) (itemaction.ResourceResolver, error) {
	var served itemaction.ResourceResolver
	if r.runner.Names != nil {
		var err error
		if served, err = r.runner.Names(ctx); err != nil {
			return nil, fmt.Errorf("resolving the names of resources: %w", err)
		}
	}
	return newResourceNames(served, found.resources), nil
}

// runActionRound goes through the archive once, if an action needs it.
func (r *actionPass) runActionRound(ctx context.Context, contents *spool, found *archiveSurvey, known itemaction.ResourceResolver) error {
	for _, t := range r.targets {
		t.prepareRound(ctx, known)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !slices.ContainsFunc(r.targets, func(t *target) bool { return t.inRound }) {
		return nil
	}
	// The damage of the archive is already known.
	_, err := contents.walkArchiveEntries(ctx, func(at int64, entry archive.Entry) error {
		if !found.selectedEntries.hasBit(at) {
			return nil
		}
		return r.callActionsOn(ctx, at, &archivedItem{entry: entry, resource: toGroupResource(entry.Object)})
	})
	return err
}

// callActionsOn passes one object to the actions that apply to it.
func (r *actionPass) callActionsOn(ctx context.Context, at int64, item *archivedItem) error {
	for _, t := range r.targets {
		if !t.takeIfDue(at) || !t.action.AppliesTo(item.resource) {
			continue
		}
		if err := item.validateContent(); err != nil {
			r.recordInvalidItem(at, item, err)
			return nil
		}
		if !t.action.Matches(item.entry.Object.Namespace, item.itemLabels) {
			continue
		}
		if t.stopped {
			t.recordSkipped(at)
			continue
		}
		before := t.result.Items
		if err := t.callWithItem(ctx, at, item); err != nil {
			return err
		}
		if r.cleanedUp += t.result.Items - before; r.req.Progress != nil {
			r.req.Progress(r.cleanedUp)
		}
	}
	return nil
}

// recordInvalidItem records an object that no action may receive.
func (r *actionPass) recordInvalidItem(at int64, item *archivedItem, reason error) {
	if !r.invalidRecorded.hasBit(at) {
		r.invalidRecorded.setBit(at)
		r.invalidItems = AppendLeftovers(r.invalidItems, r.runner.redactedLine(fmt.Sprintf("what item actions keep for %s, which they did not receive: it %s", item.itemDisplayName(), reason)))
	}
}

// newResult collects the results of the actions.
func (r *actionPass) newResult(found *archiveSurvey, file string) Result {
	result := Result{Leftovers: r.invalidItems}
	for _, t := range r.targets {
		var one ActionResult
		one, result.Leftovers = t.resultWithLeftovers(result.Leftovers)
		result.Actions = append(result.Actions, one)
	}
	if found.damage != nil {
		result.Leftovers = AppendLeftovers(result.Leftovers, r.runner.redactedLine(fmt.Sprintf(
			"what item actions keep for objects other than the first %d, because the archive %s cannot be read to its end: %s",
			found.objectCount, file, found.damage)))
	}
	return result
}
