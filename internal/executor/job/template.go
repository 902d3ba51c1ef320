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
	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// The labels and annotations of what this package creates.
const (
	// LabelManagedBy has the value ManagedBy.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "grapnel"
	// LabelKey is the idempotency key, shortened if it is no value of a label.
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
	// container is the name of the container that is the action. Others may be
	// injected into the pod.
	container = "action"
	volume    = "grapnel"
	// maxName leaves room for what Kubernetes appends for the name of a pod.
	maxName = 52
	// deadlineGrace is how much later than the executor Kubernetes ends a Job: only if
	// there is no operator to do it.
	deadlineGrace = 30 * time.Second
	// keepFinished is how long Kubernetes keeps a finished Job that nobody removes: long
	// enough for an operator that was away to read the answer.
	keepFinished = 24 * time.Hour
	// podGrace is how long a container may take to end once it is told to.
	podGrace = 10 * time.Second
)

// keyLabel returns the idempotency key as the value of a label.
func keyLabel(key string) string {
	if len(validation.IsValidLabelValue(key)) == 0 {
		return key
	}
	return shortname.Of(key, validation.LabelValueMaxLength, key)
}

// jobName is of the key alone. Of two operators that believe to be the leader, and count
// different attempts, one finds the name taken: no key has two Jobs.
func jobName(call executor.Call) string {
	return shortname.Of("grapnel-"+call.Action, maxName, call.Key)
}

// filesName returns a name for the files of a Job, another one each time: the next Job may
// have the same name, and a node that still knows the files of the one before it would hand
// them to the next pod.
func filesName(job string) string {
	return job + "-" + strings.ToLower(rand.Text()[:5])
}

// filesOf returns the name of the Secret that a Job mounts; "" if it mounts none.
func filesOf(job *batchv1.Job) string {
	for _, v := range job.Spec.Template.Spec.Volumes {
		if v.Name == volume && v.Secret != nil {
			return v.Secret.SecretName
		}
	}
	return ""
}

// attemptOf returns the number of the attempt that a Job was made for; 0 if it does not say.
func attemptOf(job *batchv1.Job) int32 {
	number, err := strconv.ParseInt(job.Labels[LabelAttempt], 10, 32)
	if err != nil {
		return 0
	}
	return int32(number)
}

func (o *Options) meta(name string, call executor.Call) metav1.ObjectMeta {
	labels := map[string]string{}
	maps.Copy(labels, o.Labels)
	maps.Copy(labels, map[string]string{
		LabelManagedBy: ManagedBy, LabelKey: keyLabel(call.Key),
		LabelAttempt: strconv.Itoa(int(call.Attempt)), LabelPlugin: shortname.Label(o.Plugin),
		// A restore would run it again, with nobody to wait for its end.
		selection.GrapnelExcludeLabel: "true", selection.VeleroExcludeLabel: "true",
	})
	return metav1.ObjectMeta{
		Name: name, Namespace: o.Namespace, Labels: labels,
		Annotations: map[string]string{AnnotationKey: call.Key, AnnotationAction: call.Action},
	}
}

// ours says whether an object was made for the key of a call, in any attempt.
func (o *Options) ours(object metav1.Object, call executor.Call) bool {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	return labels[LabelManagedBy] == ManagedBy && labels[LabelPlugin] == shortname.Label(o.Plugin) &&
		annotations[AnnotationKey] == call.Key && annotations[AnnotationAction] == call.Action
}

// job returns the Job for a call.
func (o *Options) job(ctx context.Context, call executor.Call, env []corev1.EnvVar) *batchv1.Job {
	meta := o.meta(jobName(call), call)
	one := int32(1)
	return &batchv1.Job{
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			Parallelism: &one, Completions: &one, BackoffLimit: new(int32),
			PodReplacementPolicy:    new(batchv1.Failed),
			ActiveDeadlineSeconds:   activeDeadline(ctx),
			TTLSecondsAfterFinished: new(int32(keepFinished / time.Second)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(meta.Labels), Annotations: maps.Clone(meta.Annotations)},
				Spec:       o.pod(filesName(meta.Name), env),
			},
		},
	}
}

// activeDeadline returns after how many seconds Kubernetes ends the Job; nil if ctx
// has no deadline.
func activeDeadline(ctx context.Context) *int64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	left := max(time.Until(deadline), 0) + deadlineGrace
	return new(int64(math.Ceil(left.Seconds())))
}

func (o *Options) pod(secret string, env []corev1.EnvVar) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: new(int64(podGrace / time.Second)),
		ServiceAccountName:            o.ServiceAccountName,
		AutomountServiceAccountToken:  new(o.ServiceAccountName != ""),
		// Names of Services must not appear among the variables.
		EnableServiceLinks: new(false),
		ImagePullSecrets:   o.PullSecrets,
		NodeSelector:       o.NodeSelector,
		Tolerations:        o.Tolerations,
		SecurityContext:    o.podSecurity(),
		Containers: []corev1.Container{{
			Name: container, Image: o.Image, ImagePullPolicy: o.PullPolicy,
			Command: o.Command, Args: o.Args, Env: env, Resources: o.Resources,
			SecurityContext: o.security(),
			// Of a container that fails without a message Kubernetes takes the end of its log.
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			VolumeMounts:             []corev1.VolumeMount{{Name: volume, MountPath: folder, ReadOnly: true}},
		}},
		Volumes: []corev1.Volume{{Name: volume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: new(int32(0o444))},
		}}},
	}
}

func (o *Options) podSecurity() *corev1.PodSecurityContext {
	if o.PodSecurityContext != nil {
		return o.PodSecurityContext
	}
	return &corev1.PodSecurityContext{
		RunAsNonRoot:   new(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func (o *Options) security() *corev1.SecurityContext {
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

// secret returns the files of a Job, which die with it.
func (o *Options) secret(job *batchv1.Job, call executor.Call, data map[string][]byte) *corev1.Secret {
	meta := o.meta(filesOf(job), call)
	meta.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: job.Name, UID: job.UID,
		// Not blockOwnerDeletion: it would take the right to change the Job's finalizers.
		Controller: new(true),
	}}
	return &corev1.Secret{ObjectMeta: meta, Immutable: new(true), Type: corev1.SecretTypeOpaque, Data: data}
}
