// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// newItemActions returns the item actions of plugins for one run.
func (j *Runner) newItemActions(req RunRequest) ([]itemaction.RestorePluginAction, error) {
	if len(req.ItemActions) == 0 {
		return nil, nil
	}
	object, err := velero.Object{
		Kind: "Restore",
		Metadata: velero.Metadata{
			Name: req.Name, Namespace: req.Namespace, UID: types.UID(req.UID), Labels: req.Labels, Annotations: req.Annotations,
		},
		Spec: req.Spec, BackupName: req.BackupName, OperationTimeout: req.OperationTimeout, Phase: velero.PhaseInProgress, Start: req.Start,
	}.ToJSON()
	if err != nil {
		return nil, err
	}
	var actions []itemaction.RestorePluginAction
	for _, spec := range req.ItemActions {
		actions = append(actions, pluginclient.NewRestoreItemAction(spec, pluginclient.RestoreRun{Key: req.UID, Restore: object}, j.Logs.Redactor()))
	}
	return actions, nil
}
