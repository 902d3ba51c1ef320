// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// Resource is one of Grapnel's kinds.
type Resource struct {
	// Name is the plural.
	Name, Kind string
}

// KnownResources returns all kinds of Grapnel, in the order of their names.
func KnownResources() []Resource {
	return []Resource{
		{"asyncoperations", "AsyncOperation"},
		{"backuppreviews", "BackupPreview"},
		{"backups", "Backup"},
		{"backupstoragelocations", "BackupStorageLocation"},
		{"deletionruns", "DeletionRun"},
		{"downloadrequests", "DownloadRequest"},
		{"hookruns", "HookRun"},
		{"plugins", "Plugin"},
		{"restores", "Restore"},
		{"schedules", "Schedule"},
	}
}

// PolicyNames returns the names of the ValidatingAdmissionPolicies of config/policy; each has a binding of its name.
func PolicyNames() []string {
	return []string{
		"grapnel-asyncoperations", "grapnel-backups", "grapnel-downloadrequests", "grapnel-hookruns",
		"grapnel-no-exec", "grapnel-operator", "grapnel-seen-backups", "grapnel-status",
	}
}

// OperatorLabels returns the labels of the operator's Deployment and pods.
func OperatorLabels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "grapnel", "app.kubernetes.io/component": "controller-manager"}
}

// Observed is what was read, or why it could not be read.
type Observed[T any] struct {
	Value T
	Err   error
}

// Snapshot is an installation at one moment.
type Snapshot struct {
	// Namespace is that of the operator.
	Namespace string
	// ClientVersion is the version of the command line.
	ClientVersion string
	// ServerTime is the clock of the API server, and ClockSkew how far the clock of this machine is ahead of it.
	ServerTime Observed[time.Time]
	ClockSkew  time.Duration
	// LocalTime is the clock of this machine.
	LocalTime time.Time

	// Served are the resources that the API server serves, and Failed the group versions that it could not describe.
	Served []*metav1.APIResourceList
	Failed map[schema.GroupVersion]error

	Deployments Observed[appsv1.DeploymentList]
	Lease       Observed[coordinationv1.Lease]
	Policies    Observed[admissionv1.ValidatingAdmissionPolicyList]
	Bindings    Observed[admissionv1.ValidatingAdmissionPolicyBindingList]
	Downloads   Observed[corev1.Service]

	Locations       Observed[v1alpha1.BackupStorageLocationList]
	Plugins         Observed[v1alpha1.PluginList]
	Schedules       Observed[v1alpha1.ScheduleList]
	Backups         Observed[v1alpha1.BackupList]
	Restores        Observed[v1alpha1.RestoreList]
	DeletionRuns    Observed[v1alpha1.DeletionRunList]
	HookRuns        Observed[v1alpha1.HookRunList]
	AsyncOperations Observed[v1alpha1.AsyncOperationList]
}

// currentTime returns the current time, by the clock of the API server if it is known: the times of objects are the operator's.
func (s *Snapshot) currentTime() time.Time {
	if s.ServerTime.Err == nil && !s.ServerTime.Value.IsZero() {
		return s.ServerTime.Value
	}
	return s.LocalTime
}

// timeSince returns how long ago a time was, without fractions of seconds.
func (s *Snapshot) timeSince(at time.Time) time.Duration {
	return s.currentTime().Sub(at).Round(time.Second)
}
