// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Executor says how a plugin is run. Exactly one is set.
//
// A process and a grpc endpoint announce their actions. For the others, spec.actions of the
// Plugin lists all there are.
//
// +kubebuilder:validation:XValidation:rule="[has(self.process), has(self.grpc), has(self.job), has(self.podExec), has(self.webhook), has(self.builtin)].filter(set, set).size() == 1",message="set exactly one executor: process, grpc, job, podExec, webhook or builtin"
type Executor struct {
	// process runs a plugin binary next to the operator.
	// +optional
	Process *ProcessExecutor `json:"process,omitempty"`

	// grpc calls a plugin that runs somewhere else: in a sidecar, or behind a Service.
	// +optional
	GRPC *GRPCExecutor `json:"grpc,omitempty"`

	// job runs a Job for each call.
	// +optional
	Job *JobExecutor `json:"job,omitempty"`

	// podExec runs a command in pods that are there.
	// +optional
	PodExec *PodExecExecutor `json:"podExec,omitempty"`

	// webhook sends an HTTPS request.
	// +optional
	Webhook *WebhookExecutor `json:"webhook,omitempty"`

	// builtin does what is part of Grapnel.
	// +optional
	Builtin *BuiltinExecutor `json:"builtin,omitempty"`
}

// TLSClient says how the server is trusted, and who the operator is.
type TLSClient struct {
	// caBundle are the certificate authorities that are trusted, as PEM. Unset means those
	// of the system.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	CABundle []byte `json:"caBundle,omitempty"`

	// serverName is the name in the certificate, if it differs from the host.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`

	// certificateSecret is a Secret in the operator's namespace with tls.crt and tls.key, by
	// which the operator proves who it is. It is read for every connection.
	// +optional
	CertificateSecret *SecretReference `json:"certificateSecret,omitempty"`
}

// GRPCExecutor is a plugin that serves the protocol of Grapnel's sdk at an address.
//
// +kubebuilder:validation:XValidation:rule="!self.address.startsWith('unix:') || !has(self.tls)",message="tls is not for a unix socket: who may connect is decided by the rights of its file"
// +kubebuilder:validation:XValidation:rule="self.address.startsWith('unix:') || has(self.tls)",message="set tls: parameters and objects would cross the network in the clear"
type GRPCExecutor struct {
	// address is host:port, or unix:///path of a socket that the operator's pod mounts.
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^(unix:///[^ ]+|[a-zA-Z0-9.\-\[\]:]+:[0-9]{1,5})$`
	Address string `json:"address"`

	// tls of the connection; required unless the address is a socket.
	// +optional
	TLS *TLSClient `json:"tls,omitempty"`

	// connectTimeout is how long it may take to connect.
	// +optional
	// +default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero"
	ConnectTimeout *metav1.Duration `json:"connectTimeout,omitempty"`
}

// JobExecutor runs an image. What the container is told, and how it answers, is in
// docs/hooks.md.
type JobExecutor struct {
	// namespace in which Jobs run; the operator's if unset. The operator has to be given the
	// right to run Jobs there.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`

	// serviceAccountName is whose rights the pod has. Unset means none: no token is mounted.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// runAsUser is the number of the user that the container runs as, for images that would run
	// as root or name their user. Unset means the user of the image, which must be a number.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	RunAsUser *int64 `json:"runAsUser,omitempty"`

	// image to run.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`

	// imagePullPolicy as in a pod.
	// +optional
	ImagePullPolicy PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets in the namespace of the Jobs.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []SecretReference `json:"imagePullSecrets,omitempty"`

	// command replaces the entry point of the image; one of an action takes its place.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=16384
	Command []string `json:"command,omitempty"`

	// env is added to what Grapnel tells the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []JobEnvVar `json:"env,omitempty"`

	// resources of the container.
	// +optional
	Resources *JobResources `json:"resources,omitempty"`

	// nodeSelector of the pod.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`

	// startTimeout is how long the container may take to start: scheduling, pulling the image.
	// +optional
	// +default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero"
	StartTimeout *metav1.Duration `json:"startTimeout,omitempty"`
}

// PullPolicy says when an image is pulled, as in a pod.
// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
type PullPolicy string

// JobResources are the resources of a container, by name ("memory": "64Mi"), as in a pod.
type JobResources struct {
	// limits are what it may use at most.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(name, type(self[name]) == int || isQuantity(string(self[name])))",message="must be quantities like 500m or 64Mi"
	Limits map[string]resource.Quantity `json:"limits,omitempty"`

	// requests are what a node has to have left for it.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(name, type(self[name]) == int || isQuantity(string(self[name])))",message="must be quantities like 500m or 64Mi"
	Requests map[string]resource.Quantity `json:"requests,omitempty"`
}

// JobEnvVar is a variable with a value, or one of a Secret.
//
// +kubebuilder:validation:XValidation:rule="!self.name.startsWith('GRAPNEL_')",message="names that begin with GRAPNEL_ are Grapnel's"
// +kubebuilder:validation:XValidation:rule="!has(self.secretKeyRef) || !has(self.value)",message="set value or secretKeyRef, not both"
type JobEnvVar struct {
	EnvVar `json:",inline"`

	// secretKeyRef is a key of a Secret in the namespace of the Jobs.
	// +optional
	SecretKeyRef *SecretKeyReference `json:"secretKeyRef,omitempty"`
}

// PodTarget says in which of the pods that are found a command runs.
// +kubebuilder:validation:Enum=Any;Each
type PodTarget string

// The targets.
const (
	// PodTargetAny is one of them, whichever is ready.
	PodTargetAny PodTarget = "Any"
	// PodTargetEach is every one.
	PodTargetEach PodTarget = "Each"
)

// PodExecExecutor runs a command in the pods of the namespaces that a Backup or Restore
// includes, and in no others.
type PodExecExecutor struct {
	// selector finds the pods by their labels.
	// +required
	Selector metav1.LabelSelector `json:"selector"`

	// container in the pod; unset means the one that kubectl exec takes.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`

	// command that runs, without a shell; one of an action takes its place. Parameters are
	// handed to it on its standard input.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=16384
	Command []string `json:"command,omitempty"`

	// target says in which pods.
	// +optional
	// +default="Any"
	Target PodTarget `json:"target,omitempty"`

	// parallel is in how many pods at a time; 1 means in the order of namespace and name.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Parallel int32 `json:"parallel,omitempty"`

	// whenMissing says what it means that there is no such pod.
	// +optional
	// +default="Fail"
	WhenMissing WhenMissing `json:"whenMissing,omitempty"`

	// requireAnswer makes it a failure if a command ends well without an answer in the last
	// line that it prints. Exit code 0 alone may mean that the node's kubelet was restarted
	// while the command ran (kubernetes/kubernetes#73056).
	// +optional
	RequireAnswer bool `json:"requireAnswer,omitempty"`
}

// WhenMissing says what it means that there is nothing to do something with.
// +kubebuilder:validation:Enum=Fail;Skip
type WhenMissing string

// What it may mean.
const (
	WhenMissingFail WhenMissing = "Fail"
	WhenMissingSkip WhenMissing = "Skip"
)

// WebhookExecutor sends an HTTPS request for each call. Request and answer are described in
// docs/plugins/webhook.md.
//
// +kubebuilder:validation:XValidation:rule="isURL(self.url) && url(self.url).getScheme() == 'https'",message="url must begin with https://"
type WebhookExecutor struct {
	// url of the endpoint. The path of an action is added to it.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`

	// tls of the connection.
	// +optional
	TLS *TLSClient `json:"tls,omitempty"`

	// tokenSecret is a key of a Secret in the operator's namespace that is sent as bearer
	// token. It is read for every call.
	// +optional
	TokenSecret *SecretKeyReference `json:"tokenSecret,omitempty"`

	// allowCIDRs are addresses that may be called although they are the machine's own,
	// link-local or of a cloud's metadata service, which is refused otherwise.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	AllowCIDRs []string `json:"allowCIDRs,omitempty"`
}

// BuiltinExecutor names what is part of Grapnel. Exactly one is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.quiesce)",message="set quiesce"
type BuiltinExecutor struct {
	// quiesce stops workloads before a Backup, and starts them again after it. Its actions
	// of the kinds PreBackupAction and PreRestoreAction stop, those of PostBackupAction and
	// PostRestoreAction start.
	// +optional
	Quiesce *QuiesceExecutor `json:"quiesce,omitempty"`
}

// QuiesceKind is a kind of workloads.
// +kubebuilder:validation:Enum=Deployment;StatefulSet;ReplicaSet;DaemonSet;CronJob;Job
type QuiesceKind string

// QuiesceExecutor says which workloads are stopped: of the namespaces that a Backup or Restore
// includes.
type QuiesceExecutor struct {
	// selector finds the workloads by their labels; unset means all.
	// +optional
	// +nullable
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// kinds of workloads; unset means all of them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=6
	Kinds []QuiesceKind `json:"kinds,omitempty"`

	// whenManaged says what is done with a workload that Flux or Argo CD would start again
	// at once, or that belongs to another controller: Fail says so and stops nothing of it,
	// Skip leaves it running, Force stops it all the same.
	// +optional
	// +default="Fail"
	WhenManaged WhenManaged `json:"whenManaged,omitempty"`

	// maxQuiesceDuration is how long workloads are stopped at most: then they are started
	// again, even if the Backup has not ended. 0s means until it has.
	// +optional
	// +default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	MaxQuiesceDuration *metav1.Duration `json:"maxQuiesceDuration,omitempty"`
}

// DefaultMaxQuiesceDuration is the default of QuiesceExecutor.MaxQuiesceDuration.
const DefaultMaxQuiesceDuration = time.Hour

// WhenManaged says what is done with what somebody else manages.
// +kubebuilder:validation:Enum=Fail;Skip;Force
type WhenManaged string

// What may be done.
const (
	WhenManagedFail  WhenManaged = "Fail"
	WhenManagedSkip  WhenManaged = "Skip"
	WhenManagedForce WhenManaged = "Force"
)

// ProcessExecutor is a plugin binary, written with Grapnel's sdk.
type ProcessExecutor struct {
	// command is the file in the operator's plugin folder (--plugin-dir), as a
	// path relative to it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9_][a-zA-Z0-9_.-]*(/[a-zA-Z0-9_][a-zA-Z0-9_.-]*)*$`
	Command string `json:"command"`

	// args are given to the binary after --log-level and --features.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	Args []string `json:"args,omitempty"`

	// env is the environment of the process. It does not inherit the operator's.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []EnvVar `json:"env,omitempty"`

	// startTimeout is how long the process may take to answer at all.
	// +optional
	// +default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero"
	StartTimeout *metav1.Duration `json:"startTimeout,omitempty"`
}

// EnvVar is one environment variable.
type EnvVar struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_][a-zA-Z0-9_]*$`
	Name string `json:"name"`

	// value of the variable.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value,omitempty"`
}
