// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

const onLostNode = "node worker-3, which runs its pod, does not respond"

// with adds conditions to the status of a running pod.
func with(conditions ...corev1.PodCondition) corev1.PodStatus {
	status := running()
	status.Conditions = conditions
	return status
}

func TestLostNodeReason(t *testing.T) {
	t.Parallel()
	ready := func(status corev1.ConditionStatus, reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodReady, Status: status, Reason: reason}
	}
	contained := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
	unready := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse}
	lost, unknown := running(), running()
	lost.Reason, lost.Message = "NodeLost", "Node worker-3 which was running pod x is unresponsive"
	unknown.Phase = corev1.PodUnknown
	taken := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
		Message: "Taint manager: deleting due to NoExecute taint",
	}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"runs":                         {with(ready(corev1.ConditionTrue, ""), contained), ""},
		"nothing is known":             {running(), ""},
		"node does not report":         {with(ready(corev1.ConditionFalse, ""), contained), onLostNode},
		"a sidecar is not ready":       {with(ready(corev1.ConditionFalse, "ContainersNotReady"), unready), ""},
		"a readiness gate is shut":     {with(ready(corev1.ConditionFalse, "ReadinessGatesNotReady"), contained), ""},
		"phase is unknown":             {unknown, onLostNode},
		"said by the node's lifecycle": {lost, onLostNode + " (NodeLost: Node worker-3 which was running pod x is unresponsive)"},
		"disrupted":                    {with(taken), "its pod is being removed from node worker-3 (DeletionByTaintManager: Taint manager: deleting due to NoExecute taint)"},
		"disruption withdrawn":         {with(corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := lostNodeReason(&corev1.Pod{Spec: corev1.PodSpec{NodeName: "worker-3"}, Status: tc.status}); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	if got := lostNodeReason(nil) + lostNodeReason(&corev1.Pod{Status: unknown}); got != "" {
		t.Errorf("without a node: %q", got)
	}
}

// bind assigns the pod of a Job to a node.
func (w *world) bind() {
	var pods corev1.PodList
	w.must(w.client.List(context.Background(), &pods))
	pods.Items[0].Spec.NodeName = "worker-3"
	w.must(w.client.Update(context.Background(), &pods.Items[0]))
}

// unheard assigns the pod of a Job to a node that does not respond.
func (w *world) unheard() {
	w.bind()
	w.become(w.job(), with(
		corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse},
		corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
	))
}

// TestExecute_DeadlineOnLostNode checks the messages.
func TestExecute_DeadlineOnLostNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.lingers = true
		x := w.run()
		w.pod(w.job(), running())
		w.unheard()
		x.fails(t, executor.Timeout, "did not end before its deadline: "+onLostNode)
		// The next attempt must not run beside it.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		x = w.execute(ctx, w.options(), retry())
		<-x.done
		const want = "PreBackupAction(example.io/freeze): did not start before its deadline: the Job of an earlier attempt has not finished yet: " + onLostNode
		if executor.ErrorKindOf(x.err) != executor.Timeout || x.err.Error() != want {
			t.Errorf("error is %v, want %s", x.err, want)
		}
		e, err := New(w.options())
		w.must(err)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		const left = "PreBackupAction(example.io/freeze): what it left running could not be stopped: its pod has not terminated: " + onLostNode
		if err := e.Stop(ctx, retry()); err == nil || err.Error() != left {
			t.Errorf("error is %v, want %s", err, left)
		}
	})
}

// TestExecute_NodeLostBeforeStart: the node is lost before it observed the pod.
func TestExecute_NodeLostBeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.run()
		w.pod(w.job(), corev1.PodStatus{Phase: corev1.PodPending})
		w.bind()
		w.become(w.job(), corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		}})
		x.fails(t, executor.Unreachable, "did not start within 5m0s: its pod has not been started by its node worker-3")
	})
}

// TestCollectResult_LostNode: the operator is away when the deadline passes.
func TestCollectResult_LostNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, stop := context.WithCancel(t.Context())
		x := w.execute(ctx, w.options(), call())
		w.pod(w.job(), running())
		stop()
		<-x.done
		w.unheard()
		w.late(t, 1, time.Now(), false, executor.Timeout, "did not end before its deadline: "+onLostNode)
	})
}

// TestExecute_PodGarbageCollected: the pod that is removed from the node terminates.
func TestExecute_PodGarbageCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.run()
		w.pod(w.job(), running())
		w.unheard()
		status := corev1.PodStatus{Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC", LastTransitionTime: metav1.Now(),
			Message: "PodGC: node no longer exists",
		}}}
		w.become(w.job(), status)
		x.fails(t, executor.Unreachable, "its pod was disrupted before it answered (DeletionByPodGC on node worker-3): PodGC: node no longer exists")
	})
}
