// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "grapnel.dev", Version: "v1alpha1"}

// AddToScheme registers every kind of this package with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Backup{}, &BackupList{},
		&BackupStorageLocation{}, &BackupStorageLocationList{},
		&Plugin{}, &PluginList{},
		&HookRun{}, &HookRunList{},
		&AsyncOperation{}, &AsyncOperationList{},
		&Restore{}, &RestoreList{},
		&DeletionRun{}, &DeletionRunList{},
		&Schedule{}, &ScheduleList{},
		&DownloadRequest{}, &DownloadRequestList{},
		&BackupPreview{}, &BackupPreviewList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
