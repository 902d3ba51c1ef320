// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"crypto/rand"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// The labels and annotations of the objects that this package creates.
const (
	// LabelManagedBy has the value ManagedBy.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "grapnel"
	// LabelKey is the idempotency key, shortened if it is not a valid label value.
	LabelKey = "grapnel.dev/idempotency-key"
	// LabelAttempt is the number of the attempt.
	LabelAttempt = "grapnel.dev/attempt"
	// LabelPlugin is the name of the Plugin, shortened if it is long.
	LabelPlugin = "grapnel.dev/plugin"
	// AnnotationKey and AnnotationAction are the idempotency key and the action in full.
	AnnotationKey    = "grapnel.dev/idempotency-key"
	AnnotationAction = "grapnel.dev/action"
)

const (
	// containerName is the name of the action's container. Other containers may be injected into
	// the pod.
	containerName = "action"
	volumeName    = "grapnel"
	// maxJobNameLength leaves room for the suffix that Kubernetes appends for the name of a pod.
	maxJobNameLength = 52
	// jobDeadlineGrace is how much later than the executor Kubernetes ends a Job. It matters only
	// if no operator runs.
	jobDeadlineGrace = 30 * time.Second
	// finishedJobTTL is how long Kubernetes keeps a finished Job that is not deleted: long enough
	// for an operator that was away to read the answer.
	finishedJobTTL = 24 * time.Hour
	// podTerminationGrace is how long a container may take to terminate.
	podTerminationGrace = 10 * time.Second
)

// keyLabelValue returns the idempotency key as the value of a label.
func keyLabelValue(key string) string {
	if len(validation.IsValidLabelValue(key)) == 0 {
		return key
	}
	return names.ChildName(key, validation.LabelValueMaxLength, key)
}

// jobNameForCall returns a name that depends only on the key. If two operators both consider
// themselves the leader and count different attempts, one of them finds the name taken: no key has
// two Jobs.
func jobNameForCall(call executor.Call) string {
	return names.ChildName("grapnel-"+call.Action, maxJobNameLength, call.Key)
}

// newFilesSecretName returns a new name for the files of a Job. The next Job may have the same
// name, and a node that still caches the files of the previous one would mount them in the next
// pod.
func newFilesSecretName(job string) string {
	return job + "-" + strings.ToLower(rand.Text()[:5])
}

// filesSecretName returns the name of the Secret that a Job mounts; "" if it mounts none.
func filesSecretName(job *batchv1.Job) string {
	for _, v := range job.Spec.Template.Spec.Volumes {
		if v.Name == volumeName && v.Secret != nil {
			return v.Secret.SecretName
		}
	}
	return ""
}

// attemptNumber returns the number of the attempt that a Job was created for; 0 if unknown.
func attemptNumber(job *batchv1.Job) int32 {
	number, err := strconv.ParseInt(job.Labels[LabelAttempt], 10, 32)
	if err != nil {
		return 0
	}
	return int32(number)
}

func (o *Options) newObjectMeta(name string, call executor.Call) metav1.ObjectMeta {
	labels := map[string]string{}
	maps.Copy(labels, o.Labels)
	maps.Copy(labels, map[string]string{
		LabelManagedBy: ManagedBy, LabelKey: keyLabelValue(call.Key),
		LabelAttempt: strconv.Itoa(int(call.Attempt)), LabelPlugin: names.LabelValue(o.Plugin),
		// A restore would run it again, and nothing would wait for its end.
		selection.GrapnelExcludeLabel: "true", selection.VeleroExcludeLabel: "true",
	})
	return metav1.ObjectMeta{
		Name: name, Namespace: o.Namespace, Labels: labels,
		Annotations: map[string]string{AnnotationKey: call.Key, AnnotationAction: call.Action},
	}
}

// matchesCall reports whether an object was created for the key of a call, in any attempt.
func (o *Options) matchesCall(object metav1.Object, call executor.Call) bool {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	return labels[LabelManagedBy] == ManagedBy && labels[LabelPlugin] == names.LabelValue(o.Plugin) &&
		annotations[AnnotationKey] == call.Key && annotations[AnnotationAction] == call.Action
}

// newJob returns the Job for a call.
func (o *Options) newJob(ctx context.Context, call executor.Call, env []corev1.EnvVar) *batchv1.Job {
	meta := o.newObjectMeta(jobNameForCall(call), call)
	one := int32(1)
	return &batchv1.Job{
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			Parallelism: &one, Completions: &one, BackoffLimit: new(int32),
			PodReplacementPolicy:    new(batchv1.Failed),
			ActiveDeadlineSeconds:   activeDeadlineSeconds(ctx),
			TTLSecondsAfterFinished: new(int32(finishedJobTTL / time.Second)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(meta.Labels), Annotations: maps.Clone(meta.Annotations)},
				Spec:       o.newPodSpec(newFilesSecretName(meta.Name), env),
			},
		},
	}
}

// activeDeadlineSeconds returns the deadline of the Job in seconds; nil if ctx has no deadline.
func activeDeadlineSeconds(ctx context.Context) *int64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	left := max(time.Until(deadline), 0) + jobDeadlineGrace
	return new(int64(math.Ceil(left.Seconds())))
}

func (o *Options) newPodSpec(secret string, env []corev1.EnvVar) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: new(int64(podTerminationGrace / time.Second)),
		ServiceAccountName:            o.ServiceAccountName,
		AutomountServiceAccountToken:  new(o.ServiceAccountName != ""),
		// Keep the names of Services out of the variables.
		EnableServiceLinks: new(false),
		ImagePullSecrets:   o.PullSecrets,
		NodeSelector:       o.NodeSelector,
		Tolerations:        o.Tolerations,
		SecurityContext:    o.effectivePodSecurityContext(),
		Containers: []corev1.Container{{
			Name: containerName, Image: o.Image, ImagePullPolicy: o.PullPolicy,
			Command: o.Command, Args: o.Args, Env: env, Resources: o.Resources,
			SecurityContext: o.effectiveSecurityContext(),
			// If a container fails without a message, Kubernetes uses the end of its log.
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			VolumeMounts:             []corev1.VolumeMount{{Name: volumeName, MountPath: filesDirectory, ReadOnly: true}},
		}},
		Volumes: []corev1.Volume{{Name: volumeName, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: new(int32(0o444))},
		}}},
	}
}

func (o *Options) effectivePodSecurityContext() *corev1.PodSecurityContext {
	if o.PodSecurityContext != nil {
		return o.PodSecurityContext
	}
	return &corev1.PodSecurityContext{
		RunAsNonRoot:   new(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func (o *Options) effectiveSecurityContext() *corev1.SecurityContext {
	if o.SecurityContext != nil {
		return o.SecurityContext
	}
	return &corev1.SecurityContext{
		RunAsNonRoot:             new(true),
		RunAsUser:                o.RunAsUser,
		Privileged:               new(false),
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// newFilesSecret returns the files of a Job; they are garbage-collected with it.
func (o *Options) newFilesSecret(job *batchv1.Job, call executor.Call, data map[string][]byte) *corev1.Secret {
	meta := o.newObjectMeta(filesSecretName(job), call)
	meta.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: job.Name, UID: job.UID,
		// Not blockOwnerDeletion: it would require permission to change the finalizers of the Job.
		Controller: new(true),
	}}
	return &corev1.Secret{ObjectMeta: meta, Immutable: new(true), Type: corev1.SecretTypeOpaque, Data: data}
}
