// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupPreviewSpec says which Backup is previewed.
type BackupPreviewSpec struct {
	// template of the Backup. Its labels, annotations and spec determine which hooks would run and
	// which objects would be archived.
	// +optional
	// +default={}
	Template BackupTemplate `json:"template,omitempty,omitzero"`
}

// Reasons of a BackupPreview.
const (
	// ReasonPreviewing surfaces while the objects are read.
	ReasonPreviewing = "Previewing"
	// ReasonPreviewed surfaces when the preview is complete.
	ReasonPreviewed = "Previewed"
)

// PreviewedAction is an action that the Backup would call.
type PreviewedAction struct {
	// hook is the point at which the action would run; empty for an action that is called for
	// objects.
	// +optional
	Hook HookPoint `json:"hook,omitempty"`

	// actionName is the registered name of the action.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ActionName string `json:"actionName,omitempty"`

	// plugin is the name of the Plugin that provides the action; empty if it is unknown.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Plugin string `json:"plugin,omitempty"`

	// timeout is how long one attempt may take.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// retries is how often a failed attempt would be retried.
	// +optional
	Retries int32 `json:"retries,omitempty"`

	// owed marks clean-up that would run whatever happens, because the action ran before.
	// +optional
	Owed bool `json:"owed,omitempty"`

	// runOn lists the outcomes after which the action would run; empty for all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	RunOn []Outcome `json:"runOn,omitempty"`

	// runAfter is when a PostBackup action would run. Unset means BackupCompleted.
	// +optional
	RunAfter RunAfter `json:"runAfter,omitempty"`

	// skipped says why the action would not run; empty if it would.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Skipped string `json:"skipped,omitempty"`
}

// PreviewedResource counts the objects of a resource that the Backup would archive.
type PreviewedResource struct {
	// resource is, for example, configmaps or deployments.apps.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Resource string `json:"resource,omitempty"`

	// objects is how many would be archived.
	// +optional
	Objects int64 `json:"objects,omitempty"`

	// bytes is the size of these objects as JSON.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
}

// BackupPreviewStatus is the observed state of a BackupPreview.
type BackupPreviewStatus struct {
	// conditions are Ready, Reconciling and Stalled as in kstatus.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that the status is about; -1 until the operator
	// has reconciled the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is New until the preview begins and InProgress until it ends, then what is known of the
	// phase in which the Backup would end: FailedValidation, PartiallyFailed if objects cannot be
	// read, or Completed. Failed means that the preview failed.
	// +optional
	// +kubebuilder:validation:Enum=New;InProgress;Completed;PartiallyFailed;FailedValidation;Failed
	Phase RunPhase `json:"phase,omitempty"`

	// message says in one sentence what the preview waits for or found.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`

	// validationErrors lists everything that the validation of the Backup would reject.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=2048
	ValidationErrors []string `json:"validationErrors,omitempty"`

	// storageLocation is where the backup would be stored.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageLocation string `json:"storageLocation,omitempty"`

	// actions are those that would be called, in their order: those before the archive, those for
	// objects, and those after it. If there are more than 256, the others are left out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Actions []PreviewedAction `json:"actions,omitempty"`

	// resources are those of which objects would be archived. If there are more than 512, those with
	// the fewest objects are left out. Objects that actions would add are not counted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Resources []PreviewedResource `json:"resources,omitempty"`

	// objects is how many objects would be archived, of all resources.
	// +optional
	Objects int64 `json:"objects,omitempty"`

	// archiveBytes is how large the compressed archive would be.
	// +optional
	ArchiveBytes int64 `json:"archiveBytes,omitempty"`

	// errors is how many errors there would be, as far as is known.
	// +optional
	Errors int64 `json:"errors,omitempty"`

	// warnings is how many warnings there would be, as far as is known.
	// +optional
	Warnings int64 `json:"warnings,omitempty"`

	// problems are the first errors, at most 10, and the first warnings, at most 10.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Problems []Problem `json:"problems,omitempty"`

	// expirationTimestamp is when the BackupPreview is deleted.
	// +optional
	// +nullable
	ExpirationTimestamp *metav1.Time `json:"expirationTimestamp,omitempty"`
}

// BackupPreview is a dry run of a Backup: it says which hooks would run and which objects would be
// archived. It calls no action and stores nothing. It is deleted after ten minutes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=gbp
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.objects`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
type BackupPreview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which Backup is previewed.
	// +optional
	// +default={}
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a BackupPreview cannot be changed; create another one"
	Spec BackupPreviewSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state of the BackupPreview.
	// +optional
	// +default={"observedGeneration":-1}
	Status BackupPreviewStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the BackupPreview.
func (b *BackupPreview) GetConditions() []metav1.Condition { return b.Status.Conditions }

// SetConditions replaces the conditions of the BackupPreview.
func (b *BackupPreview) SetConditions(c []metav1.Condition) { b.Status.Conditions = c }

// ObservedGeneration returns a pointer to the observed generation of the BackupPreview.
func (b *BackupPreview) ObservedGeneration() *int64 { return &b.Status.ObservedGeneration }

// BackupPreviewList is a list of BackupPreviews.
//
// +kubebuilder:object:root=true
type BackupPreviewList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BackupPreview `json:"items"`
}
