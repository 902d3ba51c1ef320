// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/plugin"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// newItemActions returns the item actions of plugins for one run.
func (j *Runner) newItemActions(req RunRequest) ([]restoreaction.PluginAction, error) {
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
	var actions []restoreaction.PluginAction
	for _, spec := range req.ItemActions {
		actions = append(actions, plugin.New(spec, plugin.RestoreRun{Key: req.UID, Restore: object}, j.Logs.Redactor()))
	}
	return actions, nil
}
