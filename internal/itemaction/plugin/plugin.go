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

// Execute implements itemaction.Action.
func (a *action) Execute(ctx context.Context, it itemaction.Item) (itemaction.Result, error) {
	var answer adapter.BackupItemAnswer
	about := it.Resource.GroupResource().String() + " " + it.Namespace + "/" + it.Name
	err := a.Call(ctx, about, func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, v adapter.BackupItemAction) error {
		var err error
		answer, err = v.Execute(ctx, conn, call, it.JSON, a.backup)
		return err
	})
	switch {
	case err != nil && a.Ignored() && remote.Unanswered(err) && ctx.Err() == nil:
		return itemaction.Result{Warnings: []string{
			fmt.Sprintf("item action %s was ignored, and the object is archived as it is: %s", a.Name(), a.Explain(err)),
		}}, nil
	case err != nil:
		return itemaction.Result{}, a.Explain(err)
	}
	result, err := a.check(it, answer)
	if err != nil {
		return itemaction.Result{}, a.Explain(err)
	}
	return result, nil
}
