// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

// updated returns a Deployment with some pods of the new template.
func updated(pods, replicas int32, change func(*appsv1.Deployment)) client.Object {
	d := deployment("one", replicas)
	d.Generation = 7
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 7, Replicas: replicas, UpdatedReplicas: pods}
	if change != nil {
		change(d)
	}
	return d
}

// revised returns a StatefulSet with some of 3 pods at the revision "new".
func revised(pods int32, current string, strategy appsv1.StatefulSetUpdateStrategy) client.Object {
	s := statefulSet("one", 3)
	s.Generation, s.Spec.UpdateStrategy = 7, strategy
	s.Status = appsv1.StatefulSetStatus{ObservedGeneration: 7, Replicas: 3, UpdatedReplicas: pods, CurrentRevision: current, UpdateRevision: "new"}
	return s
}

func partition(n int32) appsv1.StatefulSetUpdateStrategy {
	return appsv1.StatefulSetUpdateStrategy{
		Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &n},
	}
}

// placed returns a DaemonSet with some of 3 pods of the new template.
func placed(pods int32, strategy appsv1.DaemonSetUpdateStrategyType) client.Object {
	d := daemonSet("one", nil)
	d.Generation, d.Spec.UpdateStrategy.Type = 7, strategy
	d.Status = appsv1.DaemonSetStatus{ObservedGeneration: 7, DesiredNumberScheduled: 3, UpdatedNumberScheduled: pods}
	return d
}

// TestQuiesce_Rollouts: stopping all pods would finish a rollout, whatever its purpose. Quiesce waits for a
// rollout that progresses, before it stops anything, and refuses one that does not.
func TestQuiesce_Rollouts(t *testing.T) {
	t.Parallel()
	const none, waits, refused = quiesce.Quiesced, quiesce.RollingOut, quiesce.Refused
	onDelete := appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	for name, tc := range map[string]struct {
		object client.Object
		want   quiesce.Outcome
	}{
		"a Deployment, all pods are new":        {updated(3, 3, nil), none},
		"a Deployment, one is new":              {updated(1, 3, nil), waits},
		"a Deployment, just written":            {updated(3, 3, func(d *appsv1.Deployment) { d.Generation++ }), waits},
		"a Deployment, no controller saw it":    {updated(0, 3, func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} }), none},
		"a Deployment, one is new, paused":      {updated(1, 3, func(d *appsv1.Deployment) { d.Spec.Paused = true }), refused},
		"a Deployment, all are new, paused":     {updated(3, 3, func(d *appsv1.Deployment) { d.Spec.Paused = true }), none},
		"a Deployment, its time is over":        {updated(1, 3, overdue), refused},
		"a Deployment, its time was over":       {updated(3, 3, overdue), none},
		"a Deployment that has no replicas":     {updated(0, 0, func(d *appsv1.Deployment) { d.Generation++ }), quiesce.AlreadyQuiesced},
		"a StatefulSet, all pods are new":       {revised(3, "new", partition(0)), none},
		"a StatefulSet, one is new":             {revised(1, "old", partition(0)), waits},
		"a StatefulSet, new above a partition":  {revised(1, "old", partition(2)), refused},
		"a StatefulSet, a pod below is missing": {revised(3, "old", partition(1)), refused},
		"a StatefulSet, a partition only":       {revised(3, "new", partition(2)), none},
		"a StatefulSet, replaced by hand":       {revised(1, "old", onDelete), refused},
		"a StatefulSet, all replaced by hand":   {revised(3, "old", onDelete), none},
		"a DaemonSet, all pods are new":         {placed(3, appsv1.RollingUpdateDaemonSetStrategyType), none},
		"a DaemonSet, one is new":               {placed(1, appsv1.RollingUpdateDaemonSetStrategyType), waits},
		"a DaemonSet, replaced by hand":         {placed(1, appsv1.OnDeleteDaemonSetStrategyType), refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.object, deployment("other", 2))
			result, err := w.Quiesce(t.Context(), request())
			if got := outcomes(result)[string(kindOf(tc.object))+" shop/one"]; got != tc.want {
				t.Fatalf("it is %s, want %s (%v)", got, tc.want, err)
			}
			failed := new(quiesce.Error)
			switch {
			case errors.As(err, &failed) != (tc.want == refused), tc.want == refused && failed.Kind != executor.Invalid:
				t.Errorf("error is %v", err)
			case tc.want == refused:
				says(t, failed.Text, "changed nothing", "/one is in the middle of a rollout", "finish or undo", "whenManaged")
			case tc.want == waits:
				says(t, result.Message, "Waiting for rollouts to finish: ", "/one is in the middle of a rollout")
			}
			if stands := tc.want == waits || tc.want == refused; (w.patches == 0) != stands || (tc.want == waits && result.RetryAfter == 0) {
				t.Errorf("%d writes, retry after %s", w.patches, result.RetryAfter)
			}
			w.rolledOut(tc.object, tc.want != none && tc.want != quiesce.AlreadyQuiesced)
		})
	}
}

// rolledOut checks what happens to a rollout with the other policies.
func (w *world) rolledOut(o client.Object, rolls bool) {
	w.Helper()
	for policy, stopped := range map[quiesce.Policy][]string{quiesce.Skip: {"shop/other"}, quiesce.Force: {"shop/one", "shop/other"}} {
		other := newWorld(w.T, o, deployment("other", 2))
		req := request()
		req.WhenManaged = policy
		result := other.done(other.Quiesce, req)
		if !rolls {
			continue
		}
		if diff := cmp.Diff(stopped, other.stopped()); diff != "" {
			w.Errorf("%s: stopped (-want +got):\n%s", policy, diff)
		}
		if policy == quiesce.Skip {
			says(w.T, result.Message, "1 left running: ", "/one is in the middle of a rollout")
		}
	}
}

// overdue sets the status of a Deployment whose rollout is stuck.
func overdue(d *appsv1.Deployment) {
	d.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded",
	}}
}
