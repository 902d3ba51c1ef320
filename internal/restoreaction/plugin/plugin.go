// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/grapnel-dev/grapnel/internal/itemaction/remote"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// Spec names an action of a plugin and says how it is called.
type Spec = remote.Spec[adapter.RestoreItemAction]

// Run is the restore that an action takes part in.
type Run struct {
	// Key is the UID of the Restore.
	Key string
	// Restore is the Restore as JSON, in the form of velero.io/v1.
	Restore []byte
}

// action is one action in one run.
type action struct {
	*remote.Action[adapter.RestoreItemAction]
	restore []byte
}

var _ restoreaction.External = (*action)(nil)

// New returns an action for one run. No call is made yet.
func New(spec Spec, run Run, redactor *redact.Redactor) restoreaction.External {
	return &action{Action: remote.New(spec, run.Key, redactor), restore: run.Restore}
}

// Concerns implements restoreaction.External.
func (a *action) Concerns(it *restoreaction.Item) bool {
	return a.Shown(it.Object.GetNamespace(), it.Object.GetLabels)
}

// Execute implements restoreaction.Action.
func (a *action) Execute(ctx context.Context, it *restoreaction.Item) (restoreaction.Result, error) {
	object, err := sent(it)
	if err != nil {
		return restoreaction.Result{}, err
	}
	archived, err := json.Marshal(it.Archived.Object)
	if err != nil {
		return restoreaction.Result{}, fmt.Errorf("encoding the archived object: %w", err)
	}
	answer, err := a.call(ctx, it, adapter.RestoreItem{Object: object, Archived: archived, Restore: a.restore})
	switch {
	case err != nil && a.Ignored() && remote.Unanswered(err) && ctx.Err() == nil:
		return restoreaction.Result{Warnings: []string{
			fmt.Sprintf("restore action %s was ignored, and the object is restored without it: %s", a.Name(), a.Explain(err)),
		}}, nil
	case err != nil:
		return restoreaction.Result{}, a.Explain(err)
	}
	result, err := a.check(it, object, answer)
	if err != nil {
		return restoreaction.Result{}, a.Explain(a.Undo(ctx, about(it), a.operation(answer), err))
	}
	result.Operation = a.started(it, answer)
	return result, nil
}

// call shows an object to the action. An answer that comes with an error is none: it
// broke the contract, or the run ended meanwhile. What it started is cancelled.
func (a *action) call(ctx context.Context, it *restoreaction.Item, shown adapter.RestoreItem) (adapter.RestoreItemAnswer, error) {
	var answer adapter.RestoreItemAnswer
	err := a.Call(ctx, about(it), func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, version adapter.RestoreItemAction) error {
		var err error
		answer, err = version.Execute(ctx, conn, call, shown)
		return err
	})
	if err != nil {
		err = a.Undo(ctx, about(it), a.operation(answer), err)
	}
	return answer, err
}

// operation returns what an answer started, as the action is asked about it.
func (a *action) operation(answer adapter.RestoreItemAnswer) adapter.Operation {
	return adapter.Operation{ID: answer.OperationID, Subject: a.restore}
}

// started returns what an answer started, nil if nothing.
func (a *action) started(it *restoreaction.Item, answer adapter.RestoreItemAnswer) *restoreaction.Operation {
	if answer.OperationID == "" {
		return nil
	}
	op, shown := a.operation(answer), about(it)
	return &restoreaction.Operation{
		ID: answer.OperationID, PollInterval: answer.PollInterval,
		Cancel: func(ctx context.Context) error {
			if err := a.Cancel(ctx, shown, op); err != nil {
				return a.Explain(err)
			}
			return nil
		},
	}
}

// about names an object in the log, as it is called in the backup.
func about(it *restoreaction.Item) string {
	name := it.Archived.GetName()
	if namespace := it.Archived.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return it.Resource.GroupResource().String() + " " + name
}

// ready returns what asks the action whether the objects that it named are ready. An
// action that does not answer is asked again, until it is given up.
func (a *action) ready(about string) func(context.Context, []restoreaction.Ref) (bool, error) {
	return func(ctx context.Context, restored []restoreaction.Ref) (bool, error) {
		var refs []item.Ref
		for _, ref := range restored {
			refs = append(refs, item.Ref{
				Group: ref.Resource.Group, Resource: ref.Resource.Resource, Namespace: ref.Namespace, Name: ref.Name,
			})
		}
		var yes bool
		err := a.Call(ctx, about, func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, version adapter.RestoreItemAction) error {
			var err error
			yes, err = version.AdditionalItemsReady(ctx, conn, call, refs, a.restore)
			return err
		})
		switch {
		case err == nil:
			return yes, nil
		case remote.Unanswered(err) && !a.GivenUp():
			return false, nil
		case remote.Unanswered(err) && a.Ignored():
			logr.FromContextOrDiscard(ctx).Info("Not waiting for what an object needs, because the action is ignored",
				"action", a.Name(), "item", about, "reason", a.Explain(err).Error())
			return true, nil
		}
		return false, a.Explain(err)
	}
}
