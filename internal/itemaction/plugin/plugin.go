// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/itemaction/remote"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// Spec names an action of a plugin and says how it is called.
type Spec = remote.Spec[adapter.BackupItemAction]

// Run is the backup that an action takes part in.
type Run struct {
	// Key is the UID of the Backup.
	Key string
	// Backup is the Backup as JSON, in the form of velero.io/v1.
	Backup []byte
}

// action is one action in one run.
type action struct {
	*remote.Action[adapter.BackupItemAction]
	backup []byte
}

var _ itemaction.External = (*action)(nil)

// New returns an action for one run. No call is made yet.
func New(spec Spec, run Run, redactor *redact.Redactor) itemaction.External {
	return &action{Action: remote.New(spec, run.Key, redactor), backup: run.Backup}
}

// Adds implements itemaction.Action: a plugin may have effects that nobody knows of.
func (a *action) Adds() []schema.GroupResource { return nil }

// Concerns implements itemaction.External.
func (a *action) Concerns(namespace string, labels func() map[string]string) bool {
	return a.Shown(namespace, labels)
}

// Execute implements itemaction.Action. With an error nothing that the action started
// goes on, or the error says that it may.
func (a *action) Execute(ctx context.Context, it itemaction.Item) (itemaction.Result, error) {
	about := it.Resource.GroupResource().String() + " " + it.Namespace + "/" + it.Name
	answer, err := a.ask(ctx, about, it)
	op := adapter.Operation{ID: answer.OperationID, Subject: a.backup}
	var result itemaction.Result
	if err == nil {
		result, err = a.check(it, answer)
	}
	if err != nil {
		err = a.Undo(ctx, about, op, err)
	}
	switch {
	case err != nil && a.Ignored() && remote.Unanswered(err) && ctx.Err() == nil:
		return itemaction.Result{Warnings: []string{
			fmt.Sprintf("item action %s was ignored, and the object is archived as it is: %s", a.Name(), a.Explain(err)),
		}}, nil
	case err != nil:
		return itemaction.Result{}, a.Explain(err)
	}
	if result.Operation != nil {
		result.Operation.Cancel = a.canceller(about, op)
	}
	return result, nil
}

// ask shows the action an object. The answer names an operation even with an error if
// the action told of one: it broke the contract in the same answer, or the run ended
// meanwhile.
func (a *action) ask(ctx context.Context, about string, it itemaction.Item) (adapter.BackupItemAnswer, error) {
	var answer adapter.BackupItemAnswer
	err := a.Call(ctx, about, func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, v adapter.BackupItemAction) error {
		var err error
		answer, err = v.Execute(ctx, conn, call, it.JSON, a.backup)
		return err
	})
	return answer, err
}

// canceller returns the Cancel of an operation that is about an object.
func (a *action) canceller(about string, op adapter.Operation) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := a.Cancel(ctx, about, op); err != nil {
			return a.Explain(err)
		}
		return nil
	}
}
