// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package actions

import (
	"github.com/sirupsen/logrus"
	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// BackupActionV1 is version 1 of a BackupItemAction.
type BackupActionV1 struct {
	name string
	log  logrus.FieldLogger
}

// NewBackupV1 returns the action that is registered under a name.
func NewBackupV1(name string, log logrus.FieldLogger) *BackupActionV1 {
	return &BackupActionV1{name: name, log: log}
}

// AppliesTo says which objects the action wants.
func (a *BackupActionV1) AppliesTo() (velero.ResourceSelector, error) {
	return actionSelectors()[a.name], nil
}

// Execute does with an object what its annotations say.
func (a *BackupActionV1) Execute(
	item runtime.Unstructured, backup *api.Backup,
) (runtime.Unstructured, []velero.ResourceIdentifier, error) {
	return executeBackup(a.name, a.log, item, DescribeBackup("v1", backup))
}

func executeBackup(
	name string, log logrus.FieldLogger, item runtime.Unstructured, run string,
) (runtime.Unstructured, []velero.ResourceIdentifier, error) {
	object, err := objectMetadata(item)
	if err != nil {
		return nil, nil, err
	}
	if err := applyAnnotation(log, object); err != nil {
		return nil, nil, err
	}
	more, err := additionalItems(object)
	if err != nil || object.GetAnnotations()[AnnotationDo] == DoNothing {
		return nil, more, err
	}
	changed, err := annotateCopy(item, name, run)
	return changed, more, err
}

// BackupActionV2 is version 2 of a BackupItemAction.
type BackupActionV2 struct {
	name string
	log  logrus.FieldLogger
	operations
}

// NewBackupV2 returns the action that is registered under a name.
func NewBackupV2(name string, log logrus.FieldLogger) *BackupActionV2 {
	return &BackupActionV2{name: name, log: log}
}

// Name is not called: Velero knows the name.
func (a *BackupActionV2) Name() string { return a.name }

// AppliesTo says which objects the action wants.
func (a *BackupActionV2) AppliesTo() (velero.ResourceSelector, error) {
	return actionSelectors()[a.name], nil
}

// Execute does with an object what its annotations say. The objects to be archived
// again after an operation are the object itself.
func (a *BackupActionV2) Execute(item runtime.Unstructured, backup *api.Backup) (
	runtime.Unstructured, []velero.ResourceIdentifier, string, []velero.ResourceIdentifier, error,
) {
	changed, more, err := executeBackup(a.name, a.log, item, DescribeBackup("v2", backup))
	if err != nil {
		return nil, nil, "", nil, err
	}
	object, err := objectMetadata(item)
	if err != nil || object.GetAnnotations()[AnnotationDo] != DoOperation {
		return changed, more, "", nil, err
	}
	self := velero.ResourceIdentifier{
		GroupResource: schema.GroupResource{Resource: "configmaps"}, Namespace: object.GetNamespace(), Name: object.GetName(),
	}
	return changed, more, a.startOperation(object), []velero.ResourceIdentifier{self}, nil
}

// Progress reports the progress of an operation.
func (a *BackupActionV2) Progress(operationID string, backup *api.Backup) (velero.OperationProgress, error) {
	return a.advanceOperation(operationID, DescribeBackup("v2", backup))
}

// Cancel ends an operation.
func (a *BackupActionV2) Cancel(operationID string, _ *api.Backup) error {
	return a.cancelOperation(operationID)
}
