// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConcurrencyPolicy determines what happens when a Backup is due and an earlier Backup
// of the Schedule is still running.
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type ConcurrencyPolicy string

// The concurrency policies, as in a CronJob.
const (
	// ConcurrencyPolicyAllow lets both run.
	ConcurrencyPolicyAllow ConcurrencyPolicy = "Allow"
	// ConcurrencyPolicyForbid lets the new one wait until the other has finished.
	ConcurrencyPolicyForbid ConcurrencyPolicy = "Forbid"
	// ConcurrencyPolicyReplace cancels the earlier one first; its owed clean-up runs.
	ConcurrencyPolicyReplace ConcurrencyPolicy = "Replace"
)

// ScheduleSpec says when Backups are created, and which of them are kept.
type ScheduleSpec struct {
	// schedule is a cron expression of five fields, or @hourly, @daily, @weekly, @monthly,
	// @yearly or "@every 6h".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Schedule string `json:"schedule,omitempty"`

	// timeZone is the name of the time zone of schedule, for example Europe/Berlin. The
	// default is UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`

	// suspend stops the creation of Backups. Running Backups continue.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// skipImmediately waits for the next scheduled time even if the Schedule is new or was
	// suspended and its last time has passed.
	// +optional
	SkipImmediately bool `json:"skipImmediately,omitempty"`

	// concurrencyPolicy determines what happens if an earlier Backup of this Schedule is
	// still running.
	// +optional
	// +default="Forbid"
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// startingDeadline is how late a Backup may be created, for example because there was
	// no operator, or an earlier Backup took long. Unset means no deadline. Of several
	// missed times only the newest is made up for.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s')",message="must be at least 10s; a shorter one would leave backups out"
	StartingDeadline *metav1.Duration `json:"startingDeadline,omitempty"`

	// keepLast protects this many of the newest Completed Backups, regardless of their ttl
	// and the limits below.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	KeepLast *int32 `json:"keepLast,omitempty"`

	// keepSucceeded is how many Completed or PartiallyFailed Backups are kept; older ones
	// are destroyed before they expire. Unset means all. If it is set, and the template has
	// no ttl, the Backups are created with the ttl "0s": the default of the operator does not
	// expire them.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	KeepSucceeded *int32 `json:"keepSucceeded,omitempty"`

	// keepFailed is how many Backups are kept that ended in any other way and contain
	// nothing.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	KeepFailed *int32 `json:"keepFailed,omitempty"`

	// template is the template of the Backups.
	// +required
	Template BackupTemplate `json:"template,omitempty"`
}

// BackupTemplate is the template for the Backups of a Schedule.
type BackupTemplate struct {
	// metadata is added to the Backups. Labels and annotations by which a GitOps tool
	// recognizes its own objects are left out, for example app.kubernetes.io/instance.
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitempty"`

	// spec of the Backups.
	// +optional
	// +default={}
	// +kubebuilder:validation:XValidation:rule="!has(self.importedFrom)",message="importedFrom cannot be set in a template: a Schedule creates new backups"
	// +kubebuilder:validation:XValidation:rule="!has(self.desiredState) || self.desiredState == 'Run'",message="desiredState can only be Run in a template; set spec.suspend of the Schedule to stop creating backups"
	Spec BackupSpec `json:"spec,omitempty,omitzero"`
}

// TemplateMetadata is added to created objects.
type TemplateMetadata struct {
	// labels of the Backups.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// annotations of the Backups.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]ParameterValue `json:"annotations,omitempty"`
}

// SchedulePhase summarizes the conditions of a Schedule in one word.
// +kubebuilder:validation:Enum=Enabled;Suspended;FailedValidation
type SchedulePhase string

// The phases of a Schedule.
const (
	SchedulePhaseEnabled          SchedulePhase = "Enabled"
	SchedulePhaseSuspended        SchedulePhase = "Suspended"
	SchedulePhaseFailedValidation SchedulePhase = "FailedValidation"
)

// ReasonBackupNotCreated surfaces on a Schedule when the API server rejected a Backup. The
// operator retries.
const ReasonBackupNotCreated = "BackupNotCreated"

// ReasonRunRequestIgnored surfaces on a Schedule when a Backup was requested with the annotation
// grapnel.dev/run-requested-at and none was created. The operator does not retry.
const ReasonRunRequestIgnored = "RunRequestIgnored"

// MaxRunRequestLength is the maximum length of the value of AnnotationRunRequestedAt.
const MaxRunRequestLength = 64

// ScheduleStatus is the observed state of a Schedule.
type ScheduleStatus struct {
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
	Phase SchedulePhase `json:"phase,omitempty"`

	// message says in one sentence what happens next, or what must be changed.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`

	// lastScheduleTime is the time for which the last Backup was created.
	// +optional
	// +nullable
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// lastBackup is the Backup created for that time, or on request since then.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	LastBackup string `json:"lastBackup,omitempty"`

	// lastSuccessfulTime is when a Backup of this Schedule last became Completed.
	// +optional
	// +nullable
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`

	// nextScheduleTime is when the next Backup is due. It is not set while the Schedule is
	// suspended.
	// +optional
	// +nullable
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`

	// lastSkippedTime is the last time at which a Backup was due and none was created.
	// +optional
	// +nullable
	LastSkippedTime *metav1.Time `json:"lastSkippedTime,omitempty"`

	// lastSkippedReason is why no Backup was created.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastSkippedReason string `json:"lastSkippedReason,omitempty"`

	// active is how many Backups of this Schedule have not finished.
	// +optional
	Active int32 `json:"active,omitempty"`

	// lastHandledRunRequest is the last value of the annotation grapnel.dev/run-requested-at that
	// the operator handled. A longer value is truncated.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastHandledRunRequest string `json:"lastHandledRunRequest,omitempty"`

	// lastRequestedBackup is the Backup of that request. It is not set if the request was refused.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	LastRequestedBackup string `json:"lastRequestedBackup,omitempty"`

	// lastRunRequestMessage is why the operator created no Backup for that request.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	LastRunRequestMessage string `json:"lastRunRequestMessage,omitempty"`

	// settledTime is a time before which no missed Backup is made up for, for example
	// because the expression was changed then.
	// +optional
	// +nullable
	SettledTime *metav1.Time `json:"settledTime,omitempty"`

	// observedSchedule is the expression from which this status was computed.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ObservedSchedule string `json:"observedSchedule,omitempty"`

	// observedTimeZone is the time zone from which this status was computed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ObservedTimeZone string `json:"observedTimeZone,omitempty"`

	// observedSuspend is whether the Schedule was suspended when this status was computed.
	// +optional
	ObservedSuspend bool `json:"observedSuspend,omitempty"`
}

// Schedule creates Backups at the times of a cron expression, and destroys Backups in
// excess of its limits. The Backups outlive it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=grapnel,shortName=gsc
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Active",type=integer,JSONPath=`.status.active`
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=`.status.lastScheduleTime`
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.nextScheduleTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Zone",type=string,priority=1,JSONPath=`.spec.timeZone`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 180",message="metadata.name must have at most 180 characters, because the names of Backups are derived from it"
type Schedule struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says when Backups are created.
	// +required
	Spec ScheduleSpec `json:"spec,omitzero"`

	// status is the observed state of the Schedule.
	// +optional
	// +default={"observedGeneration":-1}
	Status ScheduleStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the Schedule.
func (s *Schedule) GetConditions() []metav1.Condition { return s.Status.Conditions }

// SetConditions replaces the conditions of the Schedule.
func (s *Schedule) SetConditions(c []metav1.Condition) { s.Status.Conditions = c }

// ObservedGeneration returns a pointer to the observed generation of the Schedule.
func (s *Schedule) ObservedGeneration() *int64 { return &s.Status.ObservedGeneration }

// ScheduleList is a list of Schedules.
//
// +kubebuilder:object:root=true
type ScheduleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Schedule `json:"items"`
}
