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

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

const (
	// rounds is how often an object is shown to an action that fails with it.
	rounds = 3
	// firstRoundPause is before the second round. The one before the third is longer.
	firstRoundPause = 5 * time.Second
)

// run is one call of CallActions.
type run struct {
	job     *Job
	req     Request
	targets []*target
	// done is how many clean-ups were made.
	done int64
	// bad are objects that no action may see, in words, and seen which of them are there.
	bad  []string
	seen bits
}

// CallActions shows every archived object to the actions that it concerns, and removes
// nothing. What an action does wrong is in the Result, and no error; nor is an archive that
// can not be read, or a backup of which nobody can say whose it is. The error is that of
// ctx, the store, the scratch folder or Names. It may be repeated; all is shown again then.
//
// Without actions it does nothing. Otherwise it reads the manifests and the archive, which
// takes its compressed size in the scratch folder, and about 100 bytes of memory for each object.
func (j *Job) CallActions(ctx context.Context, store *backupstore.Store, req Request) (Result, error) {
	if len(req.Actions) == 0 {
		return Result{}, nil
	}
	log := j.log(req)
	ctx = logr.NewContext(ctx, log)
	result, err := j.callActions(ctx, store, req)
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

func (j *Job) callActions(ctx context.Context, store *backupstore.Store, req Request) (Result, error) {
	own, err := j.own(ctx, store, req)
	if damaged := (*backupstore.CorruptError)(nil); errors.As(err, &damaged) {
		return unseen(j.line(damaged.Error())), nil
	}
	if err != nil || !own.there {
		var gone Result
		if err == nil && req.Complete {
			gone = unseen("nothing of it is stored any more")
		}
		gone.Taken = own.taken
		return gone, err
	}
	contents, err := j.fetch(ctx, store, req.Name, own.digest)
	file := backupstore.FileName(req.Name, backupstore.Contents)
	switch {
	case errors.Is(err, objectstore.ErrNotExist) && own.complete:
		return unseen("the archive " + file + " is missing"), nil
	case errors.Is(err, objectstore.ErrNotExist):
		return Result{}, nil // a backup that was never finished
	case err != nil:
		return Result{}, err
	}
	defer contents.close()
	found, err := surveyOf(ctx, contents)
	if err != nil {
		return Result{}, err
	}
	if contents.differs && found.damage == nil {
		return unseen("the archive " + file + " is not the one that the backup stored, and no action was shown its objects"), nil
	}
	r := &run{job: j, req: req}
	if err := r.showAll(ctx, contents, found); err != nil {
		return Result{}, err
	}
	return r.result(found, file), nil
}

// unseen is the Result if no object can be shown, and why.
func unseen(why string) Result {
	return Result{LeftBehind: AddLeft(nil, "what item actions keep for any object of the backup: "+why)}
}

// showAll makes the rounds.
func (r *run) showAll(ctx context.Context, contents *spool, found *survey) error {
	known, err := r.names(ctx, found)
	if err != nil {
		return err
	}
	for _, spec := range r.req.Actions {
		spec.Ignore = true // its error then says no more than what it was
		r.targets = append(r.targets, &target{spec: spec, run: r, result: ActionResult{Name: spec.Name, Plugin: spec.Plugin}})
	}
	for round := range rounds {
		if round > 0 {
			if err := r.job.wait(ctx, firstRoundPause<<(2*(round-1))); err != nil {
				return err
			}
		}
		if err := r.round(ctx, contents, found, known); err != nil {
			return err
		}
		if !slices.ContainsFunc(r.targets, (*target).unfinished) {
			return nil
		}
	}
	return nil
}

func (r *run) names(ctx context.Context, found *survey) (itemaction.Names, error) {
	var served itemaction.Names
	if r.job.Names != nil {
		var err error
		if served, err = r.job.Names(ctx); err != nil {
			return nil, fmt.Errorf("finding out what actions mean by the names of resources: %w", err)
		}
	}
	return newNames(served, found.resources), nil
}

// round goes through the archive once, if that is of use.
func (r *run) round(ctx context.Context, contents *spool, found *survey, known itemaction.Names) error {
	for _, t := range r.targets {
		t.begin(ctx, known)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !slices.ContainsFunc(r.targets, func(t *target) bool { return t.takesPart }) {
		return nil
	}
	// Where the archive is damaged is known.
	_, err := contents.walk(ctx, func(at int64, entry archive.Entry) error {
		if !found.shown.has(at) {
			return nil
		}
		return r.show(ctx, at, &archived{entry: entry, resource: resourceOf(entry.Object)})
	})
	return err
}

// show shows one object to the actions that it concerns.
func (r *run) show(ctx context.Context, at int64, item *archived) error {
	for _, t := range r.targets {
		if !t.isDue(at) || !t.action.AppliesTo(item.resource) {
			continue
		}
		if err := item.check(); err != nil {
			r.refuse(at, item, err)
			return nil
		}
		if !t.action.Shown(item.entry.Object.Namespace, item.labels) {
			continue
		}
		if t.stopped {
			t.skip(at)
			continue
		}
		before := t.result.Items
		if err := t.show(ctx, at, item); err != nil {
			return err
		}
		if r.done += t.result.Items - before; r.req.Progress != nil {
			r.req.Progress(r.done)
		}
	}
	return nil
}

// refuse notes an object that no action may see.
func (r *run) refuse(at int64, item *archived, reason error) {
	if !r.seen.has(at) {
		r.seen.set(at)
		r.bad = AddLeft(r.bad, r.job.line(fmt.Sprintf("what item actions keep for %s, which they were not shown: it %s", item.about(), reason)))
	}
}

// result puts together what became of the actions.
func (r *run) result(found *survey, file string) Result {
	result := Result{LeftBehind: r.bad}
	for _, t := range r.targets {
		var one ActionResult
		one, result.LeftBehind = t.outcome(result.LeftBehind)
		result.Actions = append(result.Actions, one)
	}
	if found.damage != nil {
		result.LeftBehind = AddLeft(result.LeftBehind, r.job.line(fmt.Sprintf(
			"what item actions keep for other objects than the first %d, because the archive %s can not be read to its end: %s",
			found.objects, file, found.damage)))
	}
	return result
}
