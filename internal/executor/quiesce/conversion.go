// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newObjectAndList returns an empty object and an empty list of a kind.
func newObjectAndList(kind WorkloadKind) (client.Object, client.ObjectList) {
	switch kind {
	case CronJob:
		return &batchv1.CronJob{}, &batchv1.CronJobList{}
	case Job:
		return &batchv1.Job{}, &batchv1.JobList{}
	case ReplicaSet:
		return &appsv1.ReplicaSet{}, &appsv1.ReplicaSetList{}
	case DaemonSet:
		return &appsv1.DaemonSet{}, &appsv1.DaemonSetList{}
	case StatefulSet:
		return &appsv1.StatefulSet{}, &appsv1.StatefulSetList{}
	default:
		return &appsv1.Deployment{}, &appsv1.DeploymentList{}
	}
}

// toWorkload converts an object to a Workload. An object that is not a workload has no Kind.
func toWorkload(object client.Object) Workload {
	switch o := object.(type) {
	case *batchv1.CronJob:
		w := WorkloadFromMetadata(CronJob, o)
		w.Suspend = o.Spec.Suspend != nil && *o.Spec.Suspend
		return w
	case *batchv1.Job:
		return jobToWorkload(o)
	case *appsv1.Deployment:
		w := withReplicas(WorkloadFromMetadata(Deployment, o), o.Spec.Replicas)
		w.Rollout = deploymentRollout(o)
		return w
	case *appsv1.ReplicaSet:
		return withReplicas(WorkloadFromMetadata(ReplicaSet, o), o.Spec.Replicas)
	case *appsv1.DaemonSet:
		w := WorkloadFromMetadata(DaemonSet, o)
		w.NodeSelector, w.Rollout = o.Spec.Template.Spec.NodeSelector, daemonSetRollout(o)
		return w
	case *appsv1.StatefulSet:
		w := withReplicas(WorkloadFromMetadata(StatefulSet, o), o.Spec.Replicas)
		w.Rollout = statefulSetRollout(o)
		policy := o.Spec.PersistentVolumeClaimRetentionPolicy
		w.DeletesVolumes = len(o.Spec.VolumeClaimTemplates) > 0 && policy != nil &&
			policy.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		return w
	}
	return Workload{}
}

func jobToWorkload(o *batchv1.Job) Workload {
	w := WorkloadFromMetadata(Job, o)
	w.Suspend = o.Spec.Suspend != nil && *o.Spec.Suspend
	if by := o.Spec.ManagedBy; by != nil && *by != batchv1.JobControllerName {
		w.JobController = *by
	}
	for _, c := range o.Status.Conditions {
		switch c.Type {
		case batchv1.JobComplete, batchv1.JobFailed, batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget:
			w.Finished = w.Finished || c.Status == corev1.ConditionTrue
		case batchv1.JobSuspended:
		}
	}
	return w
}

// WorkloadFromMetadata returns a Workload with what the metadata of an object contains.
func WorkloadFromMetadata(kind WorkloadKind, o metav1.Object) Workload {
	return Workload{
		Ref: Ref{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()},
		UID: string(o.GetUID()), ResourceVersion: o.GetResourceVersion(),
		Labels: o.GetLabels(), Annotations: o.GetAnnotations(),
		Owner: metav1.GetControllerOf(o), ManagedFields: o.GetManagedFields(), Deleting: o.GetDeletionTimestamp() != nil,
	}
}

// withReplicas sets the number of replicas; the API server defaults nil to one.
func withReplicas(w Workload, replicas *int32) Workload {
	w.Replicas = 1
	if replicas != nil {
		w.Replicas = *replicas
	}
	return w
}
