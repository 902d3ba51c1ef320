// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExistingResourcePolicy determines what a restore does with an object that exists.
// +kubebuilder:validation:Enum=none;update;recreate
type ExistingResourcePolicy string

// The policies for existing objects.
const (
	// ExistingResourcePolicyNone leaves the object as it is; a difference is reported as a
	// warning.
	ExistingResourcePolicyNone ExistingResourcePolicy = "none"
	// ExistingResourcePolicyUpdate updates an object that differs.
	ExistingResourcePolicyUpdate ExistingResourcePolicy = "update"
	// ExistingResourcePolicyRecreate deletes an object that differs and creates it again.
	ExistingResourcePolicyRecreate ExistingResourcePolicy = "recreate"
)

// RestoreSpec says which backup to restore, and which parts of it.
//
// +kubebuilder:validation:XValidation:rule="has(self.backupName) != has(self.scheduleName)",message="set exactly one of backupName and scheduleName"
// +kubebuilder:validation:XValidation:rule="!(has(self.labelSelector) && has(self.orLabelSelectors) && size(self.orLabelSelectors) > 0)",message="labelSelector and orLabelSelectors exclude each other; set one of them"
type RestoreSpec struct {
	// backupName is the backup to restore.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	BackupName string `json:"backupName,omitempty"`

	// scheduleName restores the newest Completed backup of a Schedule.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ScheduleName string `json:"scheduleName,omitempty"`

	// storageLocation is the BackupStorageLocation of the backup. Empty means the location
	// of the Backup, or, if there is no such Backup object, the default location.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageLocation string `json:"storageLocation,omitempty"`

	// includedNamespaces are the namespaces to restore, by their names in the
	// backup, as names or globs. Empty, or "*", means all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2048
	IncludedNamespaces []NamePattern `json:"includedNamespaces,omitempty"`

	// excludedNamespaces are left out, even if they are included above.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2048
	ExcludedNamespaces []NamePattern `json:"excludedNamespaces,omitempty"`

	// includedResources are the resources to restore, for example "pods" or
	// "deployments.apps". Empty, or "*", means all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	IncludedResources []NamePattern `json:"includedResources,omitempty"`

	// excludedResources are left out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	ExcludedResources []NamePattern `json:"excludedResources,omitempty"`

	// includeClusterResources determines which cluster-scoped objects are restored: all of
	// them (true), none (false), or those that restored objects need (unset; with all
	// namespaces included, all of them).
	// +optional
	// +nullable
	IncludeClusterResources *bool `json:"includeClusterResources,omitempty"`

	// namespaceMapping restores a namespace of the backup, the key, into another
	// namespace, the value.
	// +optional
	// +kubebuilder:validation:MaxProperties=1024
	NamespaceMapping map[string]NamespaceName `json:"namespaceMapping,omitempty"`

	// labelSelector restricts the restore to objects with matching labels.
	// +optional
	// +nullable
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// orLabelSelectors restricts the restore to objects that match at least one
	// of these selectors. Not together with labelSelector.
	// +optional
	// +nullable
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	OrLabelSelectors []*metav1.LabelSelector `json:"orLabelSelectors,omitempty"`

	// existingResourcePolicy determines what happens to objects that already exist.
	// +optional
	// +default="none"
	ExistingResourcePolicy ExistingResourcePolicy `json:"existingResourcePolicy,omitempty"`

	// restoreStatus names the resources whose status is restored too. Unset means none.
	// The annotation velero.io/restore-status of an object takes precedence.
	// +optional
	RestoreStatus *RestoreStatusSpec `json:"restoreStatus,omitempty"`

	// preserveNodePorts keeps the node ports of Services. By default the cluster chooses
	// new ones unless a person had set them.
	// +optional
	// +nullable
	PreserveNodePorts *bool `json:"preserveNodePorts,omitempty"`

	// takeOver means that this cluster replaces the one that was backed up: Schedules are
	// restored running, and BackupStorageLocations writable, if they were. The default is
	// for copies and drills: Schedules are restored suspended and locations read-only, so
	// that two clusters do not write the same backups. takeOver does not change existing
	// Schedules and locations.
	// +optional
	TakeOver bool `json:"takeOver,omitempty"`

	// itemOperationTimeout is how long an operation that an action starts on an object may
	// take. It overrides the timeout of the Plugin. When it expires, the operation is
	// canceled and has failed.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero; omit it for the default"
	ItemOperationTimeout *metav1.Duration `json:"itemOperationTimeout,omitempty"`

	// timeouts limit how long the restore may take. They can be changed while it runs.
	// +optional
	Timeouts *RestoreTimeouts `json:"timeouts,omitempty"`

	// apiVersionPriorities lists the versions of resources to restore, if the feature
	// EnableAPIGroupVersions is enabled: one line for each resource, such as
	// "deployments.apps=v1,v1beta1". It takes precedence over the ConfigMap
	// enableapigroupversions.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	APIVersionPriorities string `json:"apiVersionPriorities,omitempty"`

	// resourceModifier refers to a ConfigMap with rules that change objects before they are
	// restored, in Velero's format of resource modifiers. The ConfigMap is in the namespace
	// of the Restore and has one key. An invalid rule fails the validation of the Restore.
	// +optional
	ResourceModifier *ConfigMapReference `json:"resourceModifier,omitempty"`

	// parameters are passed to plugins: the key is the registered name of an action, the
	// value holds its parameters.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Parameters map[string]ParameterSet `json:"parameters,omitempty"`

	// desiredState is Run, or Cancel to stop the restore. Owed clean-up runs first, and
	// restored objects stay. Cancel cannot be reverted.
	// +optional
	// +default="Run"
	// +kubebuilder:validation:XValidation:rule="oldSelf == 'Run' || self == 'Cancel'",message="a canceled restore cannot be restarted; create a new Restore instead"
	DesiredState DesiredState `json:"desiredState,omitempty"`

	// dryRun reports what would happen and writes nothing to the cluster. No
	// action runs.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// RestoreTimeouts are deadlines of a Restore. A Restore that exceeds one is Failed,
// with the reason DeadlineExceeded or StoreStalled, and its clean-up runs.
type RestoreTimeouts struct {
	// restore is how long one attempt to restore the objects may take. Unset means as long
	// as the whole run.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero; omit it for the default"
	Restore *metav1.Duration `json:"restore,omitempty"`

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

// ConfigMapReference refers to a ConfigMap in the same namespace.
type ConfigMapReference struct {
	// kind is ConfigMap. Velero's client writes it in lower case.
	// +optional
	// +default="ConfigMap"
	// +kubebuilder:validation:Enum=ConfigMap;configmap
	Kind string `json:"kind,omitempty"`

	// name is the name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
}

// NamespaceName is the name of a namespace.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
type NamespaceName string

// RestoreStatusSpec names resources.
type RestoreStatusSpec struct {
	// includedResources are the resources whose status is restored; "*" means all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	IncludedResources []NamePattern `json:"includedResources,omitempty"`

	// excludedResources are left out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	ExcludedResources []NamePattern `json:"excludedResources,omitempty"`
}

// RestoreProgress counts objects.
type RestoreProgress struct {
	// totalItems is how many objects of the backup are selected.
	// +optional
	TotalItems int64 `json:"totalItems,omitempty"`

	// itemsRestored is how many of them have been processed.
	// +optional
	ItemsRestored int64 `json:"itemsRestored,omitempty"`
}

// RestoreCounts counts objects by outcome. The resource list in the location has the
// outcome of each object.
type RestoreCounts struct {
	// created is how many objects did not exist and were created.
	// +optional
	Created int64 `json:"created,omitempty"`

	// updated is how many objects existed and were changed.
	// +optional
	Updated int64 `json:"updated,omitempty"`

	// recreated is how many objects existed and were replaced.
	// +optional
	Recreated int64 `json:"recreated,omitempty"`

	// unchanged is how many objects already existed as they are in the backup.
	// +optional
	Unchanged int64 `json:"unchanged,omitempty"`

	// skipped is how many objects were left out on purpose, or exist in a different form
	// and were left alone.
	// +optional
	Skipped int64 `json:"skipped,omitempty"`

	// failed is how many objects could not be restored.
	// +optional
	Failed int64 `json:"failed,omitempty"`
}

// RestoreFiles names the stored files, as keys below the root of the location.
type RestoreFiles struct {
	// log is the log of the restore and its PreRestore actions.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Log string `json:"log,omitempty"`

	// results lists every warning and error by object.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Results string `json:"results,omitempty"`

	// resourceList has the outcome of each object.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ResourceList string `json:"resourceList,omitempty"`

	// postLog is the log of the PostRestore actions.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	PostLog string `json:"postLog,omitempty"`
}

// RestoreStatus is the observed state of a Restore.
type RestoreStatus struct {
	RunStatus `json:",inline"`

	// phase summarizes the conditions.
	// +optional
	// +kubebuilder:validation:Enum=New;FailedValidation;InProgress;FailedPreRestoreActions;WaitingForPluginOperations;WaitingForPluginOperationsPartiallyFailed;Finalizing;FinalizingPartiallyFailed;Completed;PartiallyFailed;Failed;Cancelled
	Phase RunPhase `json:"phase,omitempty"`

	// backupName is the backup that is restored.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	BackupName string `json:"backupName,omitempty"`

	// storageLocation is the BackupStorageLocation of the backup.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageLocation string `json:"storageLocation,omitempty"`

	// backupNamespaces are the namespaces in the backup, by their names in it. If they are
	// unknown or too many, they are the namespaces that the backup was to include, as
	// names or globs. An empty entry stands for no namespace. Actions of the Restore reach
	// only these namespaces.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	// +kubebuilder:validation:items:MaxLength=253
	BackupNamespaces []string `json:"backupNamespaces,omitempty"`

	// backupExcludedNamespaces are the namespaces that the backup was to exclude, as names
	// or globs. They are set only where backupNamespaces lists what the backup was to
	// include.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	// +kubebuilder:validation:items:MaxLength=253
	BackupExcludedNamespaces []string `json:"backupExcludedNamespaces,omitempty"`

	// backupOutputs are the outputs of the backup's PreBackup actions, by registered name.
	// They are passed to the actions of the Restore.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	BackupOutputs map[string]ParameterSet `json:"backupOutputs,omitempty"`

	// progress counts objects while they are restored.
	// +optional
	Progress *RestoreProgress `json:"progress,omitempty"`

	// counts counts the objects by outcome.
	// +optional
	Counts *RestoreCounts `json:"counts,omitempty"`

	// preRestoreActionsStatuses are the states of the PreRestore actions, in the order
	// they run. It is set only if there are any.
	// +optional
	// +nullable
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	PreRestoreActionsStatuses *[]ActionStatus `json:"preRestoreActionsStatuses,omitempty"`

	// postRestoreActionsStatuses are the states of the PostRestore actions, in the order
	// they run. It is set only if there are any.
	// +optional
	// +nullable
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	PostRestoreActionsStatuses *[]ActionStatus `json:"postRestoreActionsStatuses,omitempty"`

	// files names the stored files.
	// +optional
	Files *RestoreFiles `json:"files,omitempty"`
}

// Restore restores objects of one backup.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=grapnel,shortName=grs
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Backup",type=string,JSONPath=`.status.backupName`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Items",type=integer,JSONPath=`.status.progress.itemsRestored`
// +kubebuilder:printcolumn:name="Of",type=integer,JSONPath=`.status.progress.totalItems`
// +kubebuilder:printcolumn:name="Errors",type=integer,JSONPath=`.status.errors`
// +kubebuilder:printcolumn:name="Warnings",type=integer,JSONPath=`.status.warnings`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.backupName) == has(oldSelf.spec.backupName) && (!has(self.spec.backupName) || self.spec.backupName == oldSelf.spec.backupName))",fieldPath=".spec.backupName",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.scheduleName) == has(oldSelf.spec.scheduleName) && (!has(self.spec.scheduleName) || self.spec.scheduleName == oldSelf.spec.scheduleName))",fieldPath=".spec.scheduleName",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.storageLocation) == has(oldSelf.spec.storageLocation) && (!has(self.spec.storageLocation) || self.spec.storageLocation == oldSelf.spec.storageLocation))",fieldPath=".spec.storageLocation",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.includedNamespaces) == has(oldSelf.spec.includedNamespaces) && (!has(self.spec.includedNamespaces) || self.spec.includedNamespaces == oldSelf.spec.includedNamespaces))",fieldPath=".spec.includedNamespaces",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.excludedNamespaces) == has(oldSelf.spec.excludedNamespaces) && (!has(self.spec.excludedNamespaces) || self.spec.excludedNamespaces == oldSelf.spec.excludedNamespaces))",fieldPath=".spec.excludedNamespaces",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.includedResources) == has(oldSelf.spec.includedResources) && (!has(self.spec.includedResources) || self.spec.includedResources == oldSelf.spec.includedResources))",fieldPath=".spec.includedResources",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.excludedResources) == has(oldSelf.spec.excludedResources) && (!has(self.spec.excludedResources) || self.spec.excludedResources == oldSelf.spec.excludedResources))",fieldPath=".spec.excludedResources",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.includeClusterResources) == has(oldSelf.spec.includeClusterResources) && (!has(self.spec.includeClusterResources) || self.spec.includeClusterResources == oldSelf.spec.includeClusterResources))",fieldPath=".spec.includeClusterResources",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.namespaceMapping) == has(oldSelf.spec.namespaceMapping) && (!has(self.spec.namespaceMapping) || self.spec.namespaceMapping == oldSelf.spec.namespaceMapping))",fieldPath=".spec.namespaceMapping",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.labelSelector) == has(oldSelf.spec.labelSelector) && (!has(self.spec.labelSelector) || self.spec.labelSelector == oldSelf.spec.labelSelector))",fieldPath=".spec.labelSelector",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.orLabelSelectors) == has(oldSelf.spec.orLabelSelectors) && (!has(self.spec.orLabelSelectors) || self.spec.orLabelSelectors == oldSelf.spec.orLabelSelectors))",fieldPath=".spec.orLabelSelectors",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.existingResourcePolicy) == has(oldSelf.spec.existingResourcePolicy) && (!has(self.spec.existingResourcePolicy) || self.spec.existingResourcePolicy == oldSelf.spec.existingResourcePolicy))",fieldPath=".spec.existingResourcePolicy",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.restoreStatus) == has(oldSelf.spec.restoreStatus) && (!has(self.spec.restoreStatus) || self.spec.restoreStatus == oldSelf.spec.restoreStatus))",fieldPath=".spec.restoreStatus",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.preserveNodePorts) == has(oldSelf.spec.preserveNodePorts) && (!has(self.spec.preserveNodePorts) || self.spec.preserveNodePorts == oldSelf.spec.preserveNodePorts))",fieldPath=".spec.preserveNodePorts",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.itemOperationTimeout) == has(oldSelf.spec.itemOperationTimeout) && (!has(self.spec.itemOperationTimeout) || self.spec.itemOperationTimeout == oldSelf.spec.itemOperationTimeout))",fieldPath=".spec.itemOperationTimeout",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.apiVersionPriorities) == has(oldSelf.spec.apiVersionPriorities) && (!has(self.spec.apiVersionPriorities) || self.spec.apiVersionPriorities == oldSelf.spec.apiVersionPriorities))",fieldPath=".spec.apiVersionPriorities",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.resourceModifier) == has(oldSelf.spec.resourceModifier) && (!has(self.spec.resourceModifier) || self.spec.resourceModifier == oldSelf.spec.resourceModifier))",fieldPath=".spec.resourceModifier",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.parameters) == has(oldSelf.spec.parameters) && (!has(self.spec.parameters) || self.spec.parameters == oldSelf.spec.parameters))",fieldPath=".spec.parameters",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.dryRun) == has(oldSelf.spec.dryRun) && (!has(self.spec.dryRun) || self.spec.dryRun == oldSelf.spec.dryRun))",fieldPath=".spec.dryRun",message="is immutable once the restore has started; create a new Restore instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.takeOver) == has(oldSelf.spec.takeOver) && (!has(self.spec.takeOver) || self.spec.takeOver == oldSelf.spec.takeOver))",fieldPath=".spec.takeOver",message="is immutable once the restore has started; create a new Restore instead"
type Restore struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what to restore.
	// +required
	Spec RestoreSpec `json:"spec,omitempty"`

	// status is the observed state of the restore.
	// +optional
	// +default={"observedGeneration":-1}
	Status RestoreStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the Restore.
func (r *Restore) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the conditions of the Restore.
func (r *Restore) SetConditions(c []metav1.Condition) { r.Status.Conditions = c }

// ObservedGeneration returns a pointer to the observed generation of the Restore.
func (r *Restore) ObservedGeneration() *int64 { return &r.Status.ObservedGeneration }

// Run returns the part of the status that all runs share.
func (r *Restore) Run() *RunStatus { return &r.Status.RunStatus }

// RunTimeout returns how long the run may take; 0 if the spec does not set it.
func (r *Restore) RunTimeout() time.Duration {
	if t := r.Spec.Timeouts; t != nil && t.Run != nil {
		return t.Run.Duration
	}
	return 0
}

// WorkTimeout returns how long an attempt to restore the objects may take; 0 if the spec does
// not set it.
func (r *Restore) WorkTimeout() time.Duration {
	if t := r.Spec.Timeouts; t != nil && t.Restore != nil {
		return t.Restore.Duration
	}
	return 0
}

// OperationTimeout returns how long an operation on an object may take; 0 if the spec
// does not set it.
func (r *Restore) OperationTimeout() time.Duration {
	if t := r.Spec.ItemOperationTimeout; t != nil {
		return t.Duration
	}
	return 0
}

// GetPhase returns the phase.
func (r *Restore) GetPhase() RunPhase { return r.Status.Phase }

// SetPhase sets the phase.
func (r *Restore) SetPhase(phase RunPhase) { r.Status.Phase = phase }

// ActionsStatuses returns pointers to the lists of the Pre and Post actions.
func (r *Restore) ActionsStatuses() (pre, post **[]ActionStatus) {
	return &r.Status.PreRestoreActionsStatuses, &r.Status.PostRestoreActionsStatuses
}

// Desired returns the desired state of the run, and the parameters for plugins.
func (r *Restore) Desired() (DesiredState, map[string]ParameterSet) {
	return r.Spec.DesiredState, r.Spec.Parameters
}

// RestoreList is a list of Restores.
//
// +kubebuilder:object:root=true
type RestoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Restore `json:"items"`
}
