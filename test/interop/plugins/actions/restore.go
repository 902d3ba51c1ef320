// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package actions

import (
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
)

// RestoreActionV1 is version 1 of a RestoreItemAction.
type RestoreActionV1 struct {
	name string
	log  logrus.FieldLogger
}

// NewRestoreV1 returns the action that is registered under a name.
func NewRestoreV1(name string, log logrus.FieldLogger) *RestoreActionV1 {
	return &RestoreActionV1{name: name, log: log}
}

// AppliesTo says which objects the action wants.
func (a *RestoreActionV1) AppliesTo() (velero.ResourceSelector, error) {
	return actionSelectors()[a.name], nil
}

// Execute does with an object what its annotations say.
func (a *RestoreActionV1) Execute(input *velero.RestoreItemActionExecuteInput) (*velero.RestoreItemActionExecuteOutput, error) {
	return executeRestore(a.name, a.log, input, DescribeRestore("v1", input.Restore))
}

// executeRestore stamps an object with what the action got about the restore and
// about the object in the backup.
func executeRestore(
	name string, log logrus.FieldLogger, input *velero.RestoreItemActionExecuteInput, run string,
) (*velero.RestoreItemActionExecuteOutput, error) {
	object, err := objectMetadata(input.Item)
	if err != nil {
		return nil, err
	}
	archived, err := objectMetadata(input.ItemFromBackup)
	if err != nil {
		return nil, err
	}
	if err := applyAnnotation(log, object); err != nil {
		return nil, err
	}
	output := velero.NewRestoreItemActionExecuteOutput(nil)
	if output.AdditionalItems, err = additionalItems(object); err != nil {
		return nil, err
	}
	do := object.GetAnnotations()[AnnotationDo]
	if do == DoSkip {
		return output.WithoutRestore(), nil
	}
	if do == DoNothing {
		return output, nil
	}
	output.UpdatedItem, err = annotateCopy(input.Item, name, run+" archived="+string(archived.GetUID()))
	return output, err
}

// RestoreActionV2 is version 2 of a RestoreItemAction.
type RestoreActionV2 struct {
	name string
	log  logrus.FieldLogger
	operations
}

// NewRestoreV2 returns the action that is registered under a name.
func NewRestoreV2(name string, log logrus.FieldLogger) *RestoreActionV2 {
	return &RestoreActionV2{name: name, log: log}
}

// Name is not called: Velero knows the name.
func (a *RestoreActionV2) Name() string { return a.name }

// AppliesTo says which objects the action wants.
func (a *RestoreActionV2) AppliesTo() (velero.ResourceSelector, error) {
	return actionSelectors()[a.name], nil
}

// Execute does with an object what its annotations say.
func (a *RestoreActionV2) Execute(input *velero.RestoreItemActionExecuteInput) (*velero.RestoreItemActionExecuteOutput, error) {
	output, err := executeRestore(a.name, a.log, input, DescribeRestore("v2", input.Restore))
	if err != nil {
		return nil, err
	}
	object, err := objectMetadata(input.Item)
	if err != nil {
		return nil, err
	}
	switch object.GetAnnotations()[AnnotationDo] {
	case DoWait:
		output.WaitForAdditionalItems, output.AdditionalItemsReadyTimeout = true, 90*time.Second
	case DoOperation:
		output.OperationID = a.startOperation(object)
	}
	return output, nil
}

// Progress reports the progress of an operation.
func (a *RestoreActionV2) Progress(operationID string, restore *api.Restore) (velero.OperationProgress, error) {
	return a.advanceOperation(operationID, DescribeRestore("v2", restore))
}

// Cancel ends an operation.
func (a *RestoreActionV2) Cancel(operationID string, _ *api.Restore) error {
	return a.cancelOperation(operationID)
}

// AreAdditionalItemsReady says that all objects are ready but those that are called
// "slow" and so on.
func (a *RestoreActionV2) AreAdditionalItemsReady(items []velero.ResourceIdentifier, _ *api.Restore) (bool, error) {
	for _, item := range items {
		if strings.HasPrefix(item.Name, "slow") {
			return false, nil
		}
	}
	return true, nil
}
