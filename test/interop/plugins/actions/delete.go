// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package actions

import (
	"github.com/sirupsen/logrus"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
)

// DeleteAction is a DeleteItemAction.
type DeleteAction struct {
	name string
	log  logrus.FieldLogger
}

// NewDelete returns the action that is registered under a name.
func NewDelete(name string, log logrus.FieldLogger) *DeleteAction {
	return &DeleteAction{name: name, log: log}
}

// AppliesTo says which objects the action wants.
func (a *DeleteAction) AppliesTo() (velero.ResourceSelector, error) {
	return actionSelectors()[a.name], nil
}

// Execute does what the annotations of an object say, and logs its input.
func (a *DeleteAction) Execute(input *velero.DeleteItemActionExecuteInput) error {
	object, err := objectMetadata(input.Item)
	if err != nil {
		return err
	}
	if err := applyAnnotation(a.log, object); err != nil {
		return err
	}
	a.log.WithField("run", DescribeBackup("v1", input.Backup)).Info("Deleting what belongs to " + object.GetName())
	return nil
}
