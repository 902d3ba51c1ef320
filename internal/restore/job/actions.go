// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/plugin"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// actions returns the item actions of plugins for one run.
func (j *Job) actions(req Request) ([]restoreaction.External, error) {
	if len(req.ItemActions) == 0 {
		return nil, nil
	}
	object, err := veleroRestore(req)
	if err != nil {
		return nil, err
	}
	var actions []restoreaction.External
	for _, spec := range req.ItemActions {
		actions = append(actions, plugin.New(spec, plugin.Run{Key: req.UID, Restore: object}, j.Logs.Redactor()))
	}
	return actions, nil
}

// restoreObject is the velero.io/v1 Restore that the actions of plugins see.
type restoreObject struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        velero.Metadata            `json:"metadata"`
	Spec            map[string]json.RawMessage `json:"spec"`
	Status          restoreStatus              `json:"status"`
}

type restoreStatus struct {
	Phase          string      `json:"phase"`
	StartTimestamp metav1.Time `json:"startTimestamp"`
}

// Values that Velero's server fills in, and its plugins therefore count on.
const (
	defaultOperationTimeout = `"4h0m0s"`
	policyUpdate            = `"update"`
)

// veleroRestore returns the Restore for the actions of plugins.
func veleroRestore(req Request) ([]byte, error) {
	spec, err := velero.Pick(req.Spec, velero.RestoreFields())
	if err != nil {
		return nil, fmt.Errorf("reading the spec of the restore: %w", err)
	}
	name, err := json.Marshal(req.BackupName)
	if err != nil {
		return nil, fmt.Errorf("encoding the name of the backup: %w", err)
	}
	spec["backupName"] = name
	if _, said := spec["itemOperationTimeout"]; !said {
		spec["itemOperationTimeout"] = json.RawMessage(defaultOperationTimeout)
	}
	if req.Engine.Policy == restore.ExistingRecreate {
		// What exists may be changed: Velero has no other word for it.
		spec["existingResourcePolicy"] = json.RawMessage(policyUpdate)
	}
	start := metav1.NewTime(req.Start)
	data, err := json.Marshal(restoreObject{
		TypeMeta: velero.TypeOf("Restore"),
		Metadata: velero.Metadata{
			Name: req.Name, Namespace: req.Namespace, UID: types.UID(req.UID),
			Labels: req.Labels, Annotations: req.Annotations, CreationTimestamp: start,
		},
		Spec:   spec,
		Status: restoreStatus{Phase: velero.PhaseInProgress, StartTimestamp: start},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the restore for plugins: %w", err)
	}
	return data, nil
}
