// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DownloadTargetKind is what a DownloadRequest downloads.
// +kubebuilder:validation:Enum=BackupLog;BackupPostLog;BackupResults;BackupResourceList;BackupContents;RestoreLog;RestorePostLog;RestoreResults;RestoreResourceList
type DownloadTargetKind string

// The files that can be downloaded. The virtual subresource in parentheses is what the creator of the
// DownloadRequest must be allowed to get.
const (
	// DownloadBackupLog is the log of a Backup and its PreBackup actions, also while it runs
	// (backups/log).
	DownloadBackupLog DownloadTargetKind = "BackupLog"
	// DownloadBackupPostLog is the log of the PostBackup actions (backups/log).
	DownloadBackupPostLog DownloadTargetKind = "BackupPostLog"
	// DownloadBackupResults has all warnings and errors as JSON (backups/results).
	DownloadBackupResults DownloadTargetKind = "BackupResults"
	// DownloadBackupResourceList has the names of all archived objects as JSON (backups/results).
	DownloadBackupResourceList DownloadTargetKind = "BackupResourceList"
	// DownloadBackupContents is the archive, a compressed tarball (backups/archive). It holds all
	// objects, including Secrets.
	DownloadBackupContents DownloadTargetKind = "BackupContents"
	// DownloadRestoreLog is the log of a Restore and its PreRestore actions, also while it runs
	// (restores/log).
	DownloadRestoreLog DownloadTargetKind = "RestoreLog"
	// DownloadRestorePostLog is the log of the PostRestore actions (restores/log).
	DownloadRestorePostLog DownloadTargetKind = "RestorePostLog"
	// DownloadRestoreResults has all warnings and errors as JSON (restores/results).
	DownloadRestoreResults DownloadTargetKind = "RestoreResults"
	// DownloadRestoreResourceList has the outcome of each object as JSON (restores/results).
	DownloadRestoreResourceList DownloadTargetKind = "RestoreResourceList"
)

// DownloadTarget is a file of a Backup or Restore.
type DownloadTarget struct {
	// kind is the file.
	// +required
	Kind DownloadTargetKind `json:"kind,omitempty"`

	// name of the Backup or Restore, in the namespace of the DownloadRequest.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// DownloadRequestSpec says what is downloaded, and who may do it.
type DownloadRequestSpec struct {
	// target is the file to download.
	// +required
	Target DownloadTarget `json:"target,omitempty,omitzero"`

	// tokenHash is the SHA-256 of a token that the client generated, as 64 lower-case hexadecimal
	// digits. Only a client that sends the token gets the file. Generate a random token of at least 128
	// bits for each request.
	// +required
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	TokenHash string `json:"tokenHash,omitempty"`
}

// DownloadRequestPhase summarizes the conditions of a DownloadRequest in one word.
// +kubebuilder:validation:Enum=Ready;Failed
type DownloadRequestPhase string

// The phases of a DownloadRequest. It has none until the operator has reconciled it.
const (
	DownloadRequestPhaseReady  DownloadRequestPhase = "Ready"
	DownloadRequestPhaseFailed DownloadRequestPhase = "Failed"
)

// Reasons of a DownloadRequest.
const (
	// ReasonReadyToDownload surfaces when the file can be downloaded.
	ReasonReadyToDownload = "ReadyToDownload"
	// ReasonTargetNotFound surfaces when the Backup or Restore does not exist.
	ReasonTargetNotFound = "TargetNotFound"
	// ReasonDownloadsDisabled surfaces when the operator serves no downloads.
	ReasonDownloadsDisabled = "DownloadsDisabled"
)

// DownloadRequestStatus is the observed state of a DownloadRequest.
type DownloadRequestStatus struct {
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

	// phase summarizes the conditions.
	// +optional
	Phase DownloadRequestPhase `json:"phase,omitempty"`

	// message says in one sentence why there is nothing to download.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`

	// path is the path of the file on the operator's download server. A client reaches the server
	// through the Service grapnel-downloads, or at url.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path,omitempty"`

	// url is the base of path, if the operator has a URL of its own (--download-url). If it is empty, the
	// client uses the Service, through the API server.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	URL string `json:"url,omitempty"`

	// caBundle verifies the certificate of url, as PEM.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	CABundle string `json:"caBundle,omitempty"`

	// expirationTimestamp is when the DownloadRequest is deleted. A download that is in progress then
	// continues.
	// +optional
	// +nullable
	ExpirationTimestamp *metav1.Time `json:"expirationTimestamp,omitempty"`
}

// DownloadRequest lets the client that created it download one file of a Backup or Restore from the
// operator, from any kind of location, without credentials for the location. It is deleted after ten
// minutes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=gdl
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.target.kind`
// +kubebuilder:printcolumn:name="For",type=string,JSONPath=`.spec.target.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
type DownloadRequest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is downloaded, and who may do it.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a DownloadRequest cannot be changed; create another one"
	Spec DownloadRequestSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state of the DownloadRequest.
	// +optional
	// +default={"observedGeneration":-1}
	Status DownloadRequestStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the DownloadRequest.
func (d *DownloadRequest) GetConditions() []metav1.Condition { return d.Status.Conditions }

// SetConditions replaces the conditions of the DownloadRequest.
func (d *DownloadRequest) SetConditions(c []metav1.Condition) { d.Status.Conditions = c }

// ObservedGeneration returns a pointer to the observed generation of the DownloadRequest.
func (d *DownloadRequest) ObservedGeneration() *int64 { return &d.Status.ObservedGeneration }

// DownloadRequestList is a list of DownloadRequests.
//
// +kubebuilder:object:root=true
type DownloadRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DownloadRequest `json:"items"`
}
