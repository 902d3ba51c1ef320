// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// newItemActions returns the item actions of plugins for one run. All of them get the same
// Backup, in its state when the run begins and with the given phase.
func (j *Runner) newItemActions(req Request, phase string) ([]itemaction.BackupAction, error) {
	return newPluginActions(req, phase, pluginclient.NewBackupItemAction, j.Logs.Redactor())
}

// newPluginActions returns what newAction makes of the item actions of a backup.
func newPluginActions(
	req Request, phase string,
	newAction func(pluginclient.BackupItemActionSpec, pluginclient.BackupRun, *redact.Redactor) itemaction.BackupPluginAction,
	redactor *redact.Redactor,
) ([]itemaction.BackupAction, error) {
	if len(req.ItemActions) == 0 {
		return nil, nil
	}
	data, err := velero.Object{
		Kind: "Backup",
		Metadata: velero.Metadata{
			Name: req.Name, Namespace: req.Namespace, UID: types.UID(req.UID), Labels: req.Labels, Annotations: req.Annotations,
		},
		Spec: req.Spec, StorageLocation: req.StorageLocation, OperationTimeout: req.OperationTimeout, Phase: phase, Start: req.Start,
	}.ToJSON()
	if err != nil {
		return nil, err
	}
	run := pluginclient.BackupRun{Key: req.UID, Backup: data}
	var out []itemaction.BackupAction
	for _, spec := range req.ItemActions {
		out = append(out, newAction(spec, run, redactor))
	}
	return out, nil
}

// resultsFile is the results file: Velero's content, and which item actions were called for
// the objects of each kind.
type resultsFile struct {
	results.Results
	Actions map[string][]string `json:"actions,omitempty"`
}

// labelsToAdd returns the labels in want that have lacks, and a warning for each that
// exists with another value.
func labelsToAdd(have, want map[string]string) (labels map[string]string, warnings []string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		value, there := have[key]
		switch {
		case there && value != want[key]:
			warnings = append(warnings, fmt.Sprintf(
				"The Backup keeps its own label %s=%s: an item action requested the value %q", key, value, want[key]))
		case !there:
			if labels == nil {
				labels = map[string]string{}
			}
			labels[key] = want[key]
		}
	}
	return labels, warnings
}

// objectWithLabels returns an object as JSON with additional labels.
func objectWithLabels(object json.RawMessage, labels map[string]string) (json.RawMessage, error) {
	if len(labels) == 0 || len(object) == 0 {
		return object, nil
	}
	var whole, metadata map[string]json.RawMessage
	var all map[string]string
	err := json.Unmarshal(object, &whole)
	if err == nil && whole["metadata"] != nil {
		err = json.Unmarshal(whole["metadata"], &metadata)
	}
	if err == nil && metadata["labels"] != nil {
		err = json.Unmarshal(metadata["labels"], &all)
	}
	if err != nil {
		return nil, fmt.Errorf("adding labels to the stored Backup: %w", err)
	}
	if metadata == nil {
		metadata = map[string]json.RawMessage{}
	}
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels)
	if metadata["labels"], err = json.Marshal(all); err == nil {
		whole["metadata"], err = json.Marshal(metadata)
	}
	if err != nil {
		return nil, fmt.Errorf("adding labels to the stored Backup: %w", err)
	}
	return json.Marshal(whole)
}
