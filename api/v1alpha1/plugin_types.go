// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ActionKind is the kind of an action that a plugin provides.
// +kubebuilder:validation:Enum=PreBackupAction;PostBackupAction;PreRestoreAction;PostRestoreAction;BackupItemAction;ItemBlockAction;RestoreItemAction;AsyncBackupItemAction;AsyncRestoreItemAction;DeleteAction;DeleteItemAction;ObjectStore
type ActionKind string

// The kinds of actions.
const (
	ActionKindPreBackup        ActionKind = "PreBackupAction"
	ActionKindPostBackup       ActionKind = "PostBackupAction"
	ActionKindPreRestore       ActionKind = "PreRestoreAction"
	ActionKindPostRestore      ActionKind = "PostRestoreAction"
	ActionKindBackupItem       ActionKind = "BackupItemAction"
	ActionKindItemBlock        ActionKind = "ItemBlockAction"
	ActionKindRestoreItem      ActionKind = "RestoreItemAction"
	ActionKindAsyncBackupItem  ActionKind = "AsyncBackupItemAction"
	ActionKindAsyncRestoreItem ActionKind = "AsyncRestoreItemAction"
	ActionKindDelete           ActionKind = "DeleteAction"
	ActionKindDeleteItem       ActionKind = "DeleteItemAction"
	ActionKindObjectStore      ActionKind = "ObjectStore"
)

// Outcome is how a run ended, as seen by a PostBackup action. Failed stands for every
// phase that starts with Failed after the plan was recorded.
// +kubebuilder:validation:Enum=Completed;PartiallyFailed;Failed;Cancelled
type Outcome string

// The outcomes.
const (
	OutcomeCompleted       Outcome = "Completed"
	OutcomePartiallyFailed Outcome = "PartiallyFailed"
	OutcomeFailed          Outcome = "Failed"
	OutcomeCancelled       Outcome = "Cancelled"
)

// RunAfter is when a PostBackup action runs.
// +kubebuilder:validation:Enum=BackupCompleted;DataCaptured
type RunAfter string

// The times.
const (
	// RunAfterBackupCompleted means after the outcome of the backup is known, whatever it is.
	RunAfterBackupCompleted RunAfter = "BackupCompleted"
	// RunAfterDataCaptured means as soon as all objects are archived, and every operation has
	// captured its data or has ended; at the latest after the outcome. These actions run before
	// those that run after the outcome.
	RunAfterDataCaptured RunAfter = "DataCaptured"
)

// PluginSpec says how a plugin is run and configures its actions.
//
// +kubebuilder:validation:XValidation:rule="has(self.executor.process) || has(self.executor.grpc) || (has(self.actions) && self.actions.size() > 0)",message="list the actions: this executor announces none"
// +kubebuilder:validation:XValidation:rule="has(self.executor.process) || has(self.executor.grpc) || !has(self.actions) || self.actions.all(a, a.kind.startsWith('Pre') || a.kind.startsWith('Post') || a.kind == 'DeleteAction')",message="this executor runs hooks and DeleteActions only; actions on objects and ObjectStores need the executor process or grpc"
// +kubebuilder:validation:XValidation:rule="!has(self.actions) || self.actions.all(a, !has(a.command) || has(self.executor.job) || has(self.executor.podExec))",message="command is for actions of the executors job and podExec"
// +kubebuilder:validation:XValidation:rule="!has(self.executor.podExec) || has(self.executor.podExec.command) || (has(self.actions) && self.actions.all(a, has(a.command)))",message="set command in podExec or in each action"
// +kubebuilder:validation:XValidation:rule="!has(self.actions) || self.actions.all(a, !has(a.path) || has(self.executor.webhook))",message="path is for actions of the executor webhook"
// +kubebuilder:validation:XValidation:rule="!has(self.executor.builtin) || !has(self.actions) || self.actions.all(a, a.kind != 'DeleteAction')",message="a builtin executor has no DeleteAction"
type PluginSpec struct {
	// executor is how the plugin is run.
	// +required
	Executor Executor `json:"executor,omitempty"`

	// actions configures when and how the actions of the plugin run. An action that the
	// plugin announces and that is not listed gets the defaults.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Actions []PluginAction `json:"actions,omitempty"`

	// failurePolicy is the default for the actions. It also determines what a plugin that
	// cannot be loaded does to a backup: Fail fails its validation, Ignore leaves the
	// plugin out with a warning.
	// +optional
	// +default="Fail"
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// suspend leaves the plugin out of every new plan.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// OperationPolicy says how the operator watches the operations that an action starts.
type OperationPolicy struct {
	// timeout is how long an operation may take; spec.itemOperationTimeout of a Backup or
	// Restore overrides it. The default is the operator's
	// --default-item-operation-timeout.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// stallTimeout is how long the completed units of an operation may stay the same while
	// the plugin answers. When it expires, the operation is canceled and has failed. Set
	// it only for actions that report numbers: time in a queue counts. Unset means no
	// limit.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero"
	StallTimeout *metav1.Duration `json:"stallTimeout,omitempty"`

	// pollInterval is the time between two polls of an operation's progress. An action may
	// request another interval when it starts an operation. The default is the operator's
	// --item-operation-poll-interval.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('100ms')",message="must be at least 100ms"
	PollInterval *metav1.Duration `json:"pollInterval,omitempty"`
}

// PluginAction says when and how one action runs.
//
// +kubebuilder:validation:XValidation:rule="!has(self.operation) || self.kind in ['BackupItemAction', 'RestoreItemAction', 'AsyncBackupItemAction', 'AsyncRestoreItemAction']",message="operation is for actions that may start operations on objects"
// +kubebuilder:validation:XValidation:rule="self.kind.startsWith('Pre') || self.kind.startsWith('Post') || !has(self.runOn)",message="runOn is for actions that run before or after a Backup or Restore"
// +kubebuilder:validation:XValidation:rule="self.kind == 'PostBackupAction' || !has(self.runAfter) || self.runAfter == 'BackupCompleted'",message="runAfter is for PostBackupActions"
// +kubebuilder:validation:XValidation:rule="!has(self.runAfter) || self.runAfter != 'DataCaptured' || !has(self.runOn) || self.runOn.size() == 0",message="runOn needs the outcome, which is not known after DataCaptured; remove one of them"
// +kubebuilder:validation:XValidation:rule="self.kind.startsWith('Pre') || self.kind.startsWith('Post') || self.kind == 'DeleteAction' || ((!has(self.retries) || self.retries == 0) && (!has(self.onInterruption) || self.onInterruption == 'Retry'))",message="retries and onInterruption are for actions that run before or after a Backup or Restore, and for DeleteActions"
// +kubebuilder:validation:XValidation:rule="self.kind != 'ObjectStore' || (!has(self.selector) && (!has(self.order) || self.order == 0))",message="selector and order have no meaning for an ObjectStore"
// +kubebuilder:validation:XValidation:rule="self.kind != 'DeleteAction' || !has(self.order) || self.order == 0",message="order is not for DeleteActions: they run in the alphanumeric order of their names"
// +kubebuilder:validation:XValidation:rule="!(self.kind.startsWith('Pre') || self.kind.startsWith('Post')) || self.name.matches('^([^/]+/[^/]{1,51}|[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*)$')",message="an annotation with its name skips a hook, so the name must have at most 51 characters after the slash, or be a DNS name without a slash"
type PluginAction struct {
	// name is the registered name of the action, for example example.io/freeze: an
	// optional DNS subdomain and slash, then at most 63 letters, digits, '-', '_' and '.',
	// beginning and ending with a letter or digit. The name of an action that runs before
	// or after a Backup or Restore has at most 51 characters after the slash, or is a DNS
	// name without a slash: this allows an annotation to skip it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	Name string `json:"name,omitempty"`

	// kind is the kind of the action. One plugin may register the same name for
	// several kinds.
	// +required
	Kind ActionKind `json:"kind,omitempty"`

	// order is the position of the action among the others: lower runs earlier, equal ones
	// run by name. Post actions run in reverse. The built-in item actions of Grapnel run
	// before those of plugins. DeleteActions have no order: they run in the alphanumeric
	// order of their names.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Order int32 `json:"order,omitempty"`

	// selector restricts the action to Backups, or Restores, with matching labels.
	// +optional
	// +nullable
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// timeout is how long one attempt may take; for an action on objects, one call.
	// +optional
	// +default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// retries is how often a failed attempt is retried. Unset means 2 for a DeleteAction.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Retries int32 `json:"retries,omitempty"`

	// failurePolicy overrides the failurePolicy of the plugin.
	// +optional
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// onInterruption determines what happens to an attempt that was running when the
	// operator stopped. Owed clean-up is always retried.
	// +optional
	// +default="Retry"
	OnInterruption InterruptionPolicy `json:"onInterruption,omitempty"`

	// runOn lists the outcomes after which a PostBackup action runs that has no PreBackup
	// action of the same name; the default is all of them. A pair runs its PostBackup
	// action whenever its PreBackup action was started.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	RunOn []Outcome `json:"runOn,omitempty"`

	// runAfter is when a PostBackup action runs: after the outcome of the backup, or already
	// when all data is captured, while operations may still move it. DataCaptured is for
	// actions that let an application write again.
	// The default is BackupCompleted.
	// +optional
	RunAfter RunAfter `json:"runAfter,omitempty"`

	// operation says how the operator watches the operations that the action starts.
	// +optional
	Operation *OperationPolicy `json:"operation,omitempty"`

	// command that the action runs, for the executors job and podExec; unset means the
	// command of the executor.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=16384
	Command []string `json:"command,omitempty"`

	// path is appended to the url of a webhook.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^?#]*$`
	Path string `json:"path,omitempty"`
}

// ProvidedAction is an action that a plugin announced.
type ProvidedAction struct {
	// name is the registered name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// kind of the action.
	// +required
	Kind ActionKind `json:"kind,omitempty"`

	// version is the newest version of the kind that the plugin offers.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Version string `json:"version,omitempty"`
}

// PluginStatus is the observed state of a plugin.
type PluginStatus struct {
	// conditions are authoritative; see the package comment.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that the status is about; -1 until the operator
	// has reconciled the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// actions are the actions that the plugin announced when it was last loaded. They are
	// kept while the plugin is broken, so that a backup that needs it reports the problem.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Actions []ProvidedAction `json:"actions,omitempty"`

	// digest is the SHA-256 of the binary.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Digest string `json:"digest,omitempty"`

	// sdkVersion is the version of the sdk the plugin was built with.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SDKVersion string `json:"sdkVersion,omitempty"`

	// ignored lists what the plugin announced but this version of Grapnel does not use,
	// for example "VolumeSnapshotter velero.io/aws".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	Ignored []string `json:"ignored,omitempty"`

	// message says in one sentence what is wrong and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
}

// Plugin is one executor and the actions it provides. Only administrators create
// Plugins: a Backup can only pass parameters to them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=grapnel,shortName=gpl
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Actions",type=string,priority=1,JSONPath=`.status.actions[*].name`
type Plugin struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how the plugin is run.
	// +required
	Spec PluginSpec `json:"spec,omitzero,omitempty"`

	// status is the observed state of the plugin.
	// +optional
	// +default={"observedGeneration":-1}
	Status PluginStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the Plugin.
func (p *Plugin) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions replaces the conditions of the Plugin.
func (p *Plugin) SetConditions(c []metav1.Condition) { p.Status.Conditions = c }

// ObservedGeneration returns a pointer to the observed generation of the Plugin.
func (p *Plugin) ObservedGeneration() *int64 { return &p.Status.ObservedGeneration }

// PluginList is a list of Plugins.
//
// +kubebuilder:object:root=true
type PluginList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Plugin `json:"items"`
}
