// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupSpec says what to back up, where to store it, and for how long.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.labelSelector) && has(self.orLabelSelectors) && size(self.orLabelSelectors) > 0)",message="labelSelector and orLabelSelectors exclude each other; set one of them"
// +kubebuilder:validation:XValidation:rule="has(self.importedFrom) == has(oldSelf.importedFrom) && (!has(self.importedFrom) || self.importedFrom == oldSelf.importedFrom)",message="importedFrom is immutable"
// +kubebuilder:validation:XValidation:rule="!has(self.importedFrom) || !has(self.deletionPolicy) || self.deletionPolicy != 'Delete'",message="the data of an imported backup is not destroyed with its object; create a DeletionRun with destroyForeign instead"
type BackupSpec struct {
	// includedNamespaces are the namespaces to archive, as names or globs.
	// Empty, or "*", means all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2048
	IncludedNamespaces []NamePattern `json:"includedNamespaces,omitempty"`

	// excludedNamespaces are left out, even if they are included above.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2048
	ExcludedNamespaces []NamePattern `json:"excludedNamespaces,omitempty"`

	// includedResources are the resources to archive, for example "pods",
	// "deployments.apps" or a short name. Empty, or "*", means all of them. Not
	// together with the scoped lists below.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	IncludedResources []NamePattern `json:"includedResources,omitempty"`

	// excludedResources are left out. Not together with the scoped lists below.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	ExcludedResources []NamePattern `json:"excludedResources,omitempty"`

	// includedClusterScopedResources are the cluster-scoped resources to archive.
	// Empty means those that archived objects need.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	IncludedClusterScopedResources []NamePattern `json:"includedClusterScopedResources,omitempty"`

	// excludedClusterScopedResources are left out; "*" leaves out all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	ExcludedClusterScopedResources []NamePattern `json:"excludedClusterScopedResources,omitempty"`

	// includedNamespaceScopedResources are the namespaced resources to archive.
	// Empty, or "*", means all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	IncludedNamespaceScopedResources []NamePattern `json:"includedNamespaceScopedResources,omitempty"`

	// excludedNamespaceScopedResources are left out; "*" leaves out all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	ExcludedNamespaceScopedResources []NamePattern `json:"excludedNamespaceScopedResources,omitempty"`

	// includeClusterResources determines which cluster-scoped objects are archived: all of
	// them (true), none (false), or those that archived objects need (unset; with all
	// namespaces included, all of them).
	// +optional
	// +nullable
	IncludeClusterResources *bool `json:"includeClusterResources,omitempty"`

	// labelSelector restricts the backup to objects with matching labels.
	// +optional
	// +nullable
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// orLabelSelectors restricts the backup to objects that match at least one
	// of these selectors. Not together with labelSelector.
	// +optional
	// +nullable
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	OrLabelSelectors []*metav1.LabelSelector `json:"orLabelSelectors,omitempty"`

	// orderedResources names objects that are archived first within their
	// resource: the key is a resource, the value a comma-separated list of
	// namespace/name, or of names for cluster-scoped objects.
	// +optional
	// +nullable
	// +kubebuilder:validation:MaxProperties=64
	OrderedResources map[string]OrderedNames `json:"orderedResources,omitempty"`

	// storageLocation is the BackupStorageLocation to store the backup in, in the
	// namespace of the Backup. Empty means the default location.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageLocation string `json:"storageLocation,omitempty"`

	// ttl is how long the backup is kept, for example "720h"; "0s" means until it is deleted.
	// Unset means the default of the operator (--default-backup-ttl) when the backup starts,
	// which status.defaultTTL has.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	TTL *metav1.Duration `json:"ttl,omitempty"`

	// itemOperationTimeout is how long an operation that an action starts on an object may
	// take. It overrides the timeout of the Plugin. When it expires, the operation is
	// canceled and has failed.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero; omit it for the default"
	ItemOperationTimeout *metav1.Duration `json:"itemOperationTimeout,omitempty"`

	// timeouts limit how long the backup may take. They can be changed while it runs.
	// +optional
	Timeouts *BackupTimeouts `json:"timeouts,omitempty"`

	// metadata is added to the stored backup.
	// +optional
	Metadata *BackupMetadata `json:"metadata,omitempty"`

	// parameters are passed to plugins: the key is the registered name of an action, the
	// value holds its parameters.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Parameters map[string]ParameterSet `json:"parameters,omitempty"`

	// desiredState is Run, or Cancel to stop the backup. Owed clean-up runs first. Cancel
	// cannot be reverted.
	// +optional
	// +default="Run"
	// +kubebuilder:validation:XValidation:rule="oldSelf == 'Run' || self == 'Cancel'",message="a canceled backup cannot be restarted; create a new Backup instead"
	DesiredState DesiredState `json:"desiredState,omitempty"`

	// deletionPolicy determines what happens to the stored data when this object is
	// deleted: Retain keeps it, Delete destroys it first. In a namespace that is being
	// deleted, Delete has the effect of Retain.
	// +optional
	// +default="Retain"
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// volumes determines how the data of PersistentVolumeClaims is captured by actions of
	// plugins.
	// +optional
	Volumes *BackupVolumes `json:"volumes,omitempty"`

	// importedFrom is set on objects that were found in a storage location. They are
	// catalog entries and never run. Creating one requests the import of a backup,
	// including a backup that was removed here before.
	// +optional
	ImportedFrom *ImportSource `json:"importedFrom,omitempty"`
}

// OrderedNames is a comma-separated list of objects.
// +kubebuilder:validation:MaxLength=16384
type OrderedNames string

// DeletionPolicy determines what happens to stored data when its object is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// The deletion policies.
const (
	DeletionPolicyRetain DeletionPolicy = "Retain"
	DeletionPolicyDelete DeletionPolicy = "Delete"
)

// BackupVolumes determines how the data of PersistentVolumeClaims is captured.
type BackupVolumes struct {
	// requireCaptured fails the validation of the Backup, before any PreBackup action runs, if
	// it would have a claim without data: no planned action captures the data of such a claim,
	// or the action says that it cannot.
	// +optional
	RequireCaptured bool `json:"requireCaptured,omitempty"`

	// group is the key of a label: the claims of a namespace that have the same value of it are
	// captured at one point in time, if the plugin and its driver can do that. The default is
	// grapnel.dev/volume-group.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	Group string `json:"group,omitempty"`
}

// VolumeCounts counts the PersistentVolumeClaims of a Backup.
type VolumeCounts struct {
	// claims is how many PersistentVolumeClaims are archived, or are missing because of an error.
	// +optional
	Claims int32 `json:"claims"`

	// captured is how many of them have captured data.
	// +optional
	Captured int32 `json:"captured"`

	// skipped is how many of them no action captures.
	// +optional
	Skipped int32 `json:"skipped"`
}

// BackupTimeouts are deadlines of a Backup. A Backup that exceeds one is Failed, with
// the reason DeadlineExceeded or StoreStalled, and its clean-up runs.
type BackupTimeouts struct {
	// archive is how long one attempt to archive the objects may take. Unset means as long
	// as the whole run.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero; omit it for the default"
	Archive *metav1.Duration `json:"archive,omitempty"`

	// run is how long the run may take from its recorded plan to its outcome. Unset means
	// the value of the operator's flag --default-run-timeout, plus the time that
	// operations may take.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero; omit it for the default"
	Run *metav1.Duration `json:"run,omitempty"`
}

// BackupMetadata is added to a stored backup.
type BackupMetadata struct {
	// labels are added to the stored backup.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]LabelValue `json:"labels,omitempty"`
}

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// ImportSource says where a catalog entry was found.
type ImportSource struct {
	// storageLocation is the BackupStorageLocation in which the backup was found.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageLocation string `json:"storageLocation,omitempty"`

	// backupUID is the UID of the Backup that wrote the backup, if it is known.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9-]{0,64}$`
	BackupUID string `json:"backupUID,omitempty"`

	// backupName is the name of the backup in its location. It is set if it differs from
	// the name of this object, because another Backup already had that name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	BackupName string `json:"backupName,omitempty"`
}

// BackupProgress counts objects. Both numbers may grow while the backup runs.
type BackupProgress struct {
	// totalItems is how many objects are known to be selected.
	// +optional
	TotalItems int64 `json:"totalItems,omitempty"`

	// itemsBackedUp is how many of them are in the archive.
	// +optional
	ItemsBackedUp int64 `json:"itemsBackedUp,omitempty"`
}

// BackupFiles names the stored files, as keys below the root of the location.
type BackupFiles struct {
	// archive is the tarball with the objects.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Archive string `json:"archive,omitempty"`

	// log is the log of the backup and its PreBackup actions.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Log string `json:"log,omitempty"`

	// results lists every warning and error by object.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Results string `json:"results,omitempty"`

	// postLog is the log of the PostBackup actions.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	PostLog string `json:"postLog,omitempty"`
}

// BackupStatus is the observed state of a Backup.
type BackupStatus struct {
	RunStatus `json:",inline"`

	// phase summarizes the conditions.
	// +optional
	// +kubebuilder:validation:Enum=New;FailedValidation;InProgress;FailedPreBackupActions;WaitingForPluginOperations;WaitingForPluginOperationsPartiallyFailed;Finalizing;FinalizingPartiallyFailed;Uploading;UploadingPartialFailure;Completed;PartiallyFailed;Failed;Cancelled
	Phase RunPhase `json:"phase,omitempty"`

	// formatVersion is the version of the archive's format.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	FormatVersion string `json:"formatVersion,omitempty"`

	// storageLocation is the BackupStorageLocation in use.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageLocation string `json:"storageLocation,omitempty"`

	// defaultTTL is how long the backup is kept because the operator's default said so when it
	// started. It has no effect while spec.ttl is set, and a later default does not change it.
	// Unset if spec.ttl was set, or if there was no default.
	// +optional
	// +nullable
	DefaultTTL *metav1.Duration `json:"defaultTTL,omitempty"`

	// expiration is when the backup may be removed.
	// +optional
	// +nullable
	Expiration *metav1.Time `json:"expiration,omitempty"`

	// progress counts objects while they are archived.
	// +optional
	Progress *BackupProgress `json:"progress,omitempty"`

	// preBackupActionsStatuses are the states of the PreBackup actions, in the order they
	// run. It is set only if there are any.
	// +optional
	// +nullable
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	PreBackupActionsStatuses *[]ActionStatus `json:"preBackupActionsStatuses,omitempty"`

	// postBackupActionsStatuses are the states of the PostBackup actions, in the order
	// they run. It is set only if there are any.
	// +optional
	// +nullable
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	PostBackupActionsStatuses *[]ActionStatus `json:"postBackupActionsStatuses,omitempty"`

	// volumes counts the PersistentVolumeClaims; unset if there are none.
	// +optional
	Volumes *VolumeCounts `json:"volumes,omitempty"`

	// files names the stored files.
	// +optional
	Files *BackupFiles `json:"files,omitempty"`
}

// Backup is one backup of objects of this cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=grapnel,shortName=gbk
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Items",type=integer,JSONPath=`.status.progress.itemsBackedUp`
// +kubebuilder:printcolumn:name="Of",type=integer,JSONPath=`.status.progress.totalItems`
// +kubebuilder:printcolumn:name="Errors",type=integer,JSONPath=`.status.errors`
// +kubebuilder:printcolumn:name="Warnings",type=integer,JSONPath=`.status.warnings`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Location",type=string,priority=1,JSONPath=`.status.storageLocation`
// +kubebuilder:printcolumn:name="Expires",type=string,priority=1,JSONPath=`.status.expiration`
// +kubebuilder:printcolumn:name="Imported-From",type=string,priority=1,JSONPath=`.spec.importedFrom.storageLocation`
// +kubebuilder:printcolumn:name="Data",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="DataAvailable")].reason`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 200",message="metadata.name must have at most 200 characters, because file names are derived from it"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.includedNamespaces) == has(oldSelf.spec.includedNamespaces) && (!has(self.spec.includedNamespaces) || self.spec.includedNamespaces == oldSelf.spec.includedNamespaces))",fieldPath=".spec.includedNamespaces",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.excludedNamespaces) == has(oldSelf.spec.excludedNamespaces) && (!has(self.spec.excludedNamespaces) || self.spec.excludedNamespaces == oldSelf.spec.excludedNamespaces))",fieldPath=".spec.excludedNamespaces",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.includedResources) == has(oldSelf.spec.includedResources) && (!has(self.spec.includedResources) || self.spec.includedResources == oldSelf.spec.includedResources))",fieldPath=".spec.includedResources",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.excludedResources) == has(oldSelf.spec.excludedResources) && (!has(self.spec.excludedResources) || self.spec.excludedResources == oldSelf.spec.excludedResources))",fieldPath=".spec.excludedResources",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.includedClusterScopedResources) == has(oldSelf.spec.includedClusterScopedResources) && (!has(self.spec.includedClusterScopedResources) || self.spec.includedClusterScopedResources == oldSelf.spec.includedClusterScopedResources))",fieldPath=".spec.includedClusterScopedResources",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.excludedClusterScopedResources) == has(oldSelf.spec.excludedClusterScopedResources) && (!has(self.spec.excludedClusterScopedResources) || self.spec.excludedClusterScopedResources == oldSelf.spec.excludedClusterScopedResources))",fieldPath=".spec.excludedClusterScopedResources",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.includedNamespaceScopedResources) == has(oldSelf.spec.includedNamespaceScopedResources) && (!has(self.spec.includedNamespaceScopedResources) || self.spec.includedNamespaceScopedResources == oldSelf.spec.includedNamespaceScopedResources))",fieldPath=".spec.includedNamespaceScopedResources",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.excludedNamespaceScopedResources) == has(oldSelf.spec.excludedNamespaceScopedResources) && (!has(self.spec.excludedNamespaceScopedResources) || self.spec.excludedNamespaceScopedResources == oldSelf.spec.excludedNamespaceScopedResources))",fieldPath=".spec.excludedNamespaceScopedResources",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.includeClusterResources) == has(oldSelf.spec.includeClusterResources) && (!has(self.spec.includeClusterResources) || self.spec.includeClusterResources == oldSelf.spec.includeClusterResources))",fieldPath=".spec.includeClusterResources",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.labelSelector) == has(oldSelf.spec.labelSelector) && (!has(self.spec.labelSelector) || self.spec.labelSelector == oldSelf.spec.labelSelector))",fieldPath=".spec.labelSelector",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.orLabelSelectors) == has(oldSelf.spec.orLabelSelectors) && (!has(self.spec.orLabelSelectors) || self.spec.orLabelSelectors == oldSelf.spec.orLabelSelectors))",fieldPath=".spec.orLabelSelectors",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.orderedResources) == has(oldSelf.spec.orderedResources) && (!has(self.spec.orderedResources) || self.spec.orderedResources == oldSelf.spec.orderedResources))",fieldPath=".spec.orderedResources",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.storageLocation) == has(oldSelf.spec.storageLocation) && (!has(self.spec.storageLocation) || self.spec.storageLocation == oldSelf.spec.storageLocation))",fieldPath=".spec.storageLocation",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.volumes) == has(oldSelf.spec.volumes) && (!has(self.spec.volumes) || self.spec.volumes == oldSelf.spec.volumes))",fieldPath=".spec.volumes",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.itemOperationTimeout) == has(oldSelf.spec.itemOperationTimeout) && (!has(self.spec.itemOperationTimeout) || self.spec.itemOperationTimeout == oldSelf.spec.itemOperationTimeout))",fieldPath=".spec.itemOperationTimeout",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.metadata) == has(oldSelf.spec.metadata) && (!has(self.spec.metadata) || self.spec.metadata == oldSelf.spec.metadata))",fieldPath=".spec.metadata",message="is immutable once the backup has started; create a new Backup instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.parameters) == has(oldSelf.spec.parameters) && (!has(self.spec.parameters) || self.spec.parameters == oldSelf.spec.parameters))",fieldPath=".spec.parameters",message="is immutable once the backup has started; create a new Backup instead"
type Backup struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what to back up.
	// +optional
	// +default={}
	Spec BackupSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state of the backup.
	// +optional
	// +default={"observedGeneration":-1}
	Status BackupStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the Backup.
func (b *Backup) GetConditions() []metav1.Condition { return b.Status.Conditions }

// SetConditions replaces the conditions of the Backup.
func (b *Backup) SetConditions(c []metav1.Condition) { b.Status.Conditions = c }

// ObservedGeneration returns a pointer to the observed generation of the Backup.
func (b *Backup) ObservedGeneration() *int64 { return &b.Status.ObservedGeneration }

// Run returns the part of the status that all runs share.
func (b *Backup) Run() *RunStatus { return &b.Status.RunStatus }

// StoredLabels returns the labels that a backup is stored with: those of the Backup, and
// those of spec.metadata, which take precedence.
func (b *Backup) StoredLabels() map[string]string {
	labels := maps.Clone(b.Labels)
	if b.Spec.Metadata == nil || len(b.Spec.Metadata.Labels) == 0 {
		return labels
	}
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range b.Spec.Metadata.Labels {
		labels[key] = string(value)
	}
	return labels
}

// TTL returns how long the backup is kept, from its start; 0 means until it is deleted.
func (b *Backup) TTL() time.Duration {
	switch {
	case b.Spec.TTL != nil:
		return b.Spec.TTL.Duration
	case b.Status.DefaultTTL != nil:
		return b.Status.DefaultTTL.Duration
	}
	return 0
}

// StoredName returns the name of the backup in its location.
func (b *Backup) StoredName() string {
	if from := b.Spec.ImportedFrom; from != nil && from.BackupName != "" {
		return from.BackupName
	}
	return b.Name
}

// Location returns the name of the BackupStorageLocation in which the backup is stored;
// empty if nothing has been stored yet.
func (b *Backup) Location() string {
	if from := b.Spec.ImportedFrom; from != nil {
		return from.StorageLocation // its status may not be filled in yet
	}
	return b.Status.StorageLocation
}

// RunTimeout returns how long the run may take; 0 if the spec does not set it.
func (b *Backup) RunTimeout() time.Duration {
	if t := b.Spec.Timeouts; t != nil && t.Run != nil {
		return t.Run.Duration
	}
	return 0
}

// WorkTimeout returns how long an attempt to archive the objects may take; 0 if the spec does
// not set it.
func (b *Backup) WorkTimeout() time.Duration {
	if t := b.Spec.Timeouts; t != nil && t.Archive != nil {
		return t.Archive.Duration
	}
	return 0
}

// OperationTimeout returns how long an operation on an object may take; 0 if the spec
// does not set it.
func (b *Backup) OperationTimeout() time.Duration {
	if t := b.Spec.ItemOperationTimeout; t != nil {
		return t.Duration
	}
	return 0
}

// GetPhase returns the phase.
func (b *Backup) GetPhase() RunPhase { return b.Status.Phase }

// SetPhase sets the phase.
func (b *Backup) SetPhase(phase RunPhase) { b.Status.Phase = phase }

// ActionsStatuses returns pointers to the lists of the Pre and Post actions.
func (b *Backup) ActionsStatuses() (pre, post **[]ActionStatus) {
	return &b.Status.PreBackupActionsStatuses, &b.Status.PostBackupActionsStatuses
}

// Desired returns the desired state of the run, and the parameters for plugins.
func (b *Backup) Desired() (DesiredState, map[string]ParameterSet) {
	return b.Spec.DesiredState, b.Spec.Parameters
}

// BackupList is a list of Backups.
//
// +kubebuilder:object:root=true
type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Backup `json:"items"`
}
