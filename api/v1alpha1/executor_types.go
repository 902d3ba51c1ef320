// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Executor is how a plugin is run. Exactly one is set.
//
// A process and a grpc endpoint announce their actions. For the other executors,
// spec.actions of the Plugin must list all actions.
//
// +kubebuilder:validation:XValidation:rule="[has(self.process), has(self.grpc), has(self.job), has(self.podExec), has(self.webhook), has(self.builtin)].filter(set, set).size() == 1",message="set exactly one executor: process, grpc, job, podExec, webhook or builtin"
type Executor struct {
	// process runs a plugin binary next to the operator.
	// +optional
	Process *ProcessExecutor `json:"process,omitempty"`

	// grpc calls a plugin that runs elsewhere: in a sidecar, or behind a Service.
	// +optional
	GRPC *GRPCExecutor `json:"grpc,omitempty"`

	// job runs a Job for each call.
	// +optional
	Job *JobExecutor `json:"job,omitempty"`

	// podExec runs a command in existing pods.
	// +optional
	PodExec *PodExecExecutor `json:"podExec,omitempty"`

	// webhook sends an HTTPS request.
	// +optional
	Webhook *WebhookExecutor `json:"webhook,omitempty"`

	// builtin runs a part of Grapnel.
	// +optional
	Builtin *BuiltinExecutor `json:"builtin,omitempty"`
}

// TLSClient configures how the server is verified and how the operator authenticates.
type TLSClient struct {
	// caBundle contains the trusted certificate authorities, in PEM format. Unset means
	// those of the system.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	CABundle []byte `json:"caBundle,omitempty"`

	// serverName is the name in the certificate, if it differs from the host.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`

	// certificateSecret is a Secret in the operator's namespace with tls.crt and tls.key.
	// The operator uses it to authenticate, and reads it for every connection.
	// +optional
	CertificateSecret *SecretReference `json:"certificateSecret,omitempty"`
}

// GRPCExecutor is a plugin that serves the protocol of Grapnel's sdk at an address.
//
// +kubebuilder:validation:XValidation:rule="!self.address.startsWith('unix:') || !has(self.tls)",message="tls is not for a unix socket: the permissions of its file decide who may connect"
// +kubebuilder:validation:XValidation:rule="self.address.startsWith('unix:') || has(self.tls)",message="set tls: parameters and objects would cross the network in the clear"
type GRPCExecutor struct {
	// address is host:port, or unix:///path of a socket that the operator's pod mounts.
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^(unix:///[^ ]+|[a-zA-Z0-9.\-\[\]:]+:[0-9]{1,5})$`
	Address string `json:"address,omitempty"`

	// tls of the connection; required unless the address is a socket.
	// +optional
	TLS *TLSClient `json:"tls,omitempty"`

	// connectTimeout is how long connecting may take.
	// +optional
	// +default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero"
	ConnectTimeout *metav1.Duration `json:"connectTimeout,omitempty"`
}

// JobExecutor runs an image. docs/guides/hooks.md describes the input of the container and
// its answer.
type JobExecutor struct {
	// namespace in which Jobs run; the operator's namespace if unset. The operator needs
	// permission to run Jobs there.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`

	// serviceAccountName is the service account of the pod. Unset means none: no token is
	// mounted.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// runAsUser is the numeric ID of the user that the container runs as, for images that
	// would run as root or name their user. Unset means the user of the image, which must
	// be numeric.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	RunAsUser *int64 `json:"runAsUser,omitempty"`

	// image to run.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// imagePullPolicy as in a pod.
	// +optional
	ImagePullPolicy PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets in the namespace of the Jobs.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []SecretReference `json:"imagePullSecrets,omitempty"`

	// command replaces the entry point of the image; the command of an action overrides
	// it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=16384
	Command []string `json:"command,omitempty"`

	// env is added to the variables that Grapnel sets.
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

	// startTimeout is how long the container may take to start, including scheduling and
	// pulling the image.
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
	// limits are the maximum that the container may use.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(name, type(self[name]) == int || isQuantity(string(self[name])))",message="must be quantities like 500m or 64Mi"
	Limits map[string]resource.Quantity `json:"limits,omitempty"`

	// requests are what a node must have available for the container.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(name, type(self[name]) == int || isQuantity(string(self[name])))",message="must be quantities like 500m or 64Mi"
	Requests map[string]resource.Quantity `json:"requests,omitempty"`
}

// JobEnvVar is a variable with a value, or one that is read from a Secret.
//
// +kubebuilder:validation:XValidation:rule="!self.name.startsWith('GRAPNEL_')",message="names that begin with GRAPNEL_ are Grapnel's"
// +kubebuilder:validation:XValidation:rule="!has(self.secretKeyRef) || !has(self.value)",message="set value or secretKeyRef, not both"
type JobEnvVar struct {
	EnvVar `json:",inline"`

	// secretKeyRef is a key of a Secret in the namespace of the Jobs.
	// +optional
	SecretKeyRef *SecretKeyReference `json:"secretKeyRef,omitempty"`
}

// PodTarget selects in which of the matching pods a command runs.
// +kubebuilder:validation:Enum=Any;Each
type PodTarget string

// The targets.
const (
	// PodTargetAny is one of the pods, any that is ready.
	PodTargetAny PodTarget = "Any"
	// PodTargetEach is every pod.
	PodTargetEach PodTarget = "Each"
)

// PodExecExecutor runs a command in the pods of the namespaces that a Backup or Restore
// includes, and in no others.
type PodExecExecutor struct {
	// selector finds the pods by their labels.
	// +required
	Selector metav1.LabelSelector `json:"selector,omitempty"`

	// container in the pod; unset means the default of kubectl exec.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`

	// command to run, without a shell; the command of an action overrides it. It receives
	// the parameters on its standard input.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=16384
	Command []string `json:"command,omitempty"`

	// target selects in which of the pods the command runs.
	// +optional
	// +default="Any"
	Target PodTarget `json:"target,omitempty"`

	// parallel is the number of pods in which the command runs at a time; 1 means one by
	// one, ordered by namespace and name.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Parallel int32 `json:"parallel,omitempty"`

	// whenMissing determines what happens if no pod matches.
	// +optional
	// +default="Fail"
	WhenMissing WhenMissing `json:"whenMissing,omitempty"`

	// requireAnswer treats a command as failed that exits with 0 but prints no answer in
	// its last line. Exit code 0 alone may mean that the node's kubelet was restarted
	// while the command ran (kubernetes/kubernetes#73056).
	// +optional
	RequireAnswer bool `json:"requireAnswer,omitempty"`
}

// WhenMissing determines what happens if there is no target to act on.
// +kubebuilder:validation:Enum=Fail;Skip
type WhenMissing string

// The policies for missing targets.
const (
	WhenMissingFail WhenMissing = "Fail"
	WhenMissingSkip WhenMissing = "Skip"
)

// WebhookExecutor sends an HTTPS request for each call. docs/plugins/webhook.md
// describes the request and the answer.
//
// +kubebuilder:validation:XValidation:rule="isURL(self.url) && url(self.url).getScheme() == 'https'",message="url must begin with https://"
type WebhookExecutor struct {
	// url of the endpoint. The path of an action is appended.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`

	// tls of the connection.
	// +optional
	TLS *TLSClient `json:"tls,omitempty"`

	// tokenSecret is a key of a Secret in the operator's namespace. Its value is sent as
	// bearer token. The operator reads it for every call.
	// +optional
	TokenSecret *SecretKeyReference `json:"tokenSecret,omitempty"`

	// allowCIDRs are addresses that may be called although they are loopback, link-local
	// or of a cloud's metadata service. Such addresses are refused by default.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	AllowCIDRs []string `json:"allowCIDRs,omitempty"`
}

// BuiltinExecutor names a part of Grapnel. Exactly one is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.quiesce) != has(self.veleroHooks)",message="set quiesce or veleroHooks"
type BuiltinExecutor struct {
	// quiesce stops workloads before a Backup, and starts them again after it. Its actions
	// of the kinds PreBackupAction and PreRestoreAction stop workloads, those of
	// PostBackupAction and PostRestoreAction start them.
	// +optional
	Quiesce *QuiesceExecutor `json:"quiesce,omitempty"`

	// veleroHooks runs the commands that pods have in Velero's annotations, in the
	// namespaces that a Backup or Restore includes. PreBackupAction and PostBackupAction,
	// a pair, run those of the pods that the Backup selects; PostRestoreAction runs those of
	// restored pods, and with it, restored pods get the init containers of their annotations.
	// The operator needs the right to run commands in pods.
	// +optional
	VeleroHooks *VeleroHooksExecutor `json:"veleroHooks,omitempty"`
}

// VeleroHooksExecutor runs commands that the owners of pods wrote. It has no settings.
// +kubebuilder:validation:MaxProperties=0
type VeleroHooksExecutor struct{}

// QuiesceKind is a kind of workload.
// +kubebuilder:validation:Enum=Deployment;StatefulSet;ReplicaSet;DaemonSet;CronJob;Job
type QuiesceKind string

// QuiesceExecutor selects which workloads are stopped, among those in the namespaces
// that a Backup or Restore includes.
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

	// whenManaged determines what happens to a workload that Flux or Argo CD would start
	// again immediately, or that belongs to another controller: Fail reports an error and
	// does not stop it, Skip leaves it running, Force stops it anyway.
	// +optional
	// +default="Fail"
	WhenManaged WhenManaged `json:"whenManaged,omitempty"`

	// maxQuiesceDuration is the longest time for which workloads are stopped. After it
	// they are started again, even if the Backup has not finished. 0s means no limit.
	// +optional
	// +default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	MaxQuiesceDuration *metav1.Duration `json:"maxQuiesceDuration,omitempty"`
}

// DefaultMaxQuiesceDuration is the default of QuiesceExecutor.MaxQuiesceDuration.
const DefaultMaxQuiesceDuration = time.Hour

// WhenManaged determines what happens to workloads that another controller manages.
// +kubebuilder:validation:Enum=Fail;Skip;Force
type WhenManaged string

// The policies for managed workloads.
const (
	WhenManagedFail  WhenManaged = "Fail"
	WhenManagedSkip  WhenManaged = "Skip"
	WhenManagedForce WhenManaged = "Force"
)

// ProcessExecutor is a plugin binary, written with Grapnel's sdk.
type ProcessExecutor struct {
	// command is the file in the operator's plugin directory (--plugin-dir), as a path
	// relative to it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9_][a-zA-Z0-9_.-]*(/[a-zA-Z0-9_][a-zA-Z0-9_.-]*)*$`
	Command string `json:"command,omitempty"`

	// args are passed to the binary after --log-level and --features.
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

	// startTimeout is how long the process may take to answer for the first time.
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
	Name string `json:"name,omitempty"`

	// value of the variable.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value,omitempty"`
}
