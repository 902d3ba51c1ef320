// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rolloutStatus returns whether pods of two templates run, according to the workload's controller.
// A controller that has never observed the workload has not created pods. One that has not observed
// the last change will do so soon, and that change may have started a rollout.
func rolloutStatus(o metav1.Object, observed int64, two, ends bool) Rollout {
	switch {
	case observed == 0:
		return NoRollout
	case observed < o.GetGeneration():
		return RolloutProgressing
	case !two:
		return NoRollout
	case ends:
		return RolloutProgressing
	}
	return RolloutStalled
}

func deploymentRollout(o *appsv1.Deployment) Rollout {
	late := slices.ContainsFunc(o.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse
	})
	return rolloutStatus(o, o.Status.ObservedGeneration, o.Status.UpdatedReplicas < o.Status.Replicas, !o.Spec.Paused && !late)
}

// statefulSetRollout returns the rollout of a StatefulSet. Without replicas, Kubernetes counts all
// pods as updated to the new revision, whatever the partition kept at the old one. With OnDelete,
// Kubernetes never records the end of a rollout.
func statefulSetRollout(o *appsv1.StatefulSet) Rollout {
	by, s := o.Spec.UpdateStrategy, o.Status
	two := s.CurrentRevision != "" && s.UpdateRevision != "" && s.CurrentRevision != s.UpdateRevision
	kept := by.RollingUpdate != nil && by.RollingUpdate.Partition != nil && *by.RollingUpdate.Partition > 0
	onDelete := by.Type == appsv1.OnDeleteStatefulSetStrategyType
	return rolloutStatus(o, s.ObservedGeneration, two && (kept || s.UpdatedReplicas < s.Replicas), !kept && !onDelete)
}

func daemonSetRollout(o *appsv1.DaemonSet) Rollout {
	onDelete := o.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
	return rolloutStatus(o, o.Status.ObservedGeneration, o.Status.UpdatedNumberScheduled < o.Status.DesiredNumberScheduled, !onDelete)
}
