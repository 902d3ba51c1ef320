// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// event creates an event about the object with that UID.
func (w *world) event(uid types.UID, reason, message string) {
	w.t.Helper()
	w.must(w.client.Create(context.Background(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%d", reason, w.count)},
		InvolvedObject: corev1.ObjectReference{UID: uid}, Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		LastTimestamp: metav1.Now(),
	}))
}

func TestExecute_PodNotStarting(t *testing.T) {
	unscheduled := corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/3 nodes are available: 3 Insufficient memory.",
	}}}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		after  time.Duration
		kind   executor.ErrorKind
		want   string
	}{
		"image": {
			waiting("ImagePullBackOff", `Back-off pulling image "x": not found`), stuckTimeout, executor.Unreachable,
			`its image cannot be pulled: ImagePullBackOff: Back-off pulling image "x": not found`,
		},
		"image, first time": {
			waiting("ErrImagePull", "token=abc refused"), stuckTimeout, executor.Unreachable,
			"its image cannot be pulled: ErrImagePull: token=[REDACTED] refused",
		},
		"image's name": {
			waiting("InvalidImageName", `couldn't parse "X:"`), 0, executor.Invalid,
			`the name of its image is not valid: InvalidImageName: couldn't parse "X:"`,
		},
		"image is never pulled": {
			waiting("ErrImageNeverPull", ""), 0, executor.Unreachable,
			"its image is not on the node, and its pull policy is Never: ErrImageNeverPull",
		},
		"configuration": {
			waiting("CreateContainerConfigError", `secret "db" not found`), stuckTimeout, executor.Unreachable,
			`its container cannot be started: CreateContainerConfigError: secret "db" not found`,
		},
		"no node": {
			unscheduled, DefaultStartTimeout, executor.Unreachable,
			"did not start within 5m0s: its pod cannot be scheduled: 0/3 nodes are available: 3 Insufficient memory.",
		},
		"not read": {
			corev1.PodStatus{Phase: corev1.PodPending},
			DefaultStartTimeout, executor.Unreachable,
			"did not start within 5m0s: its pod has not been scheduled",
		},
		"being created": {
			waiting("ContainerCreating", ""), DefaultStartTimeout, executor.Unreachable,
			"did not start within 5m0s: its container has not been started: ContainerCreating",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				began := time.Now()
				x := w.run()
				w.pod(w.job(), tc.status)
				x.fails(t, tc.kind, tc.want)
				if took := time.Since(began); took != tc.after {
					t.Errorf("it was given up after %s, want %s", took, tc.after)
				}
				w.nothingLeft()
			})
		})
	}
}

// TestExecute_LateImage: the registry recovers in time.
func TestExecute_LateImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.run()
		w.pod(w.job(), waiting("ErrImagePull", "no route"))
		time.Sleep(stuckTimeout - time.Second)
		w.become(w.job(), waiting("ContainerCreating", ""))
		w.become(w.job(), waiting("ErrImagePull", "no route"))
		time.Sleep(stuckTimeout - time.Second)
		w.become(w.job(), running())
		time.Sleep(time.Minute)
		x.goesOn(t)
		w.become(w.job(), exited(0, "done"))
		<-x.done
		if x.err != nil {
			t.Error(x.err)
		}
	})
}

func TestExecute_PodNotCreated(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(w *world)
		after   time.Duration
		want    string
	}{
		"quota": {func(w *world) {
			w.event(w.job().UID, "FailedCreate", `Error creating: pods "`+w.job().Name+`-9k2ff" is forbidden: exceeded quota: few`)
			w.event("another", "FailedCreate", "something else")
			time.Sleep(time.Second)
			w.event(w.job().UID, "Unrelated", "something newer")
		}, stuckTimeout, `its pod was rejected: Error creating: pods "(its Job)" is forbidden: exceeded quota: few`},
		"no reason known": {func(*world) {}, DefaultStartTimeout, "did not start within 5m0s: its pod has not been created"},
		"suspended": {func(w *world) {
			job := w.there(w.job().Name)
			job.Spec.Suspend = new(true)
			w.must(w.client.Update(context.Background(), job))
		}, DefaultStartTimeout, "did not start within 5m0s: its Job is suspended by something else in the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				began := time.Now()
				x := w.run()
				tc.prepare(w)
				x.fails(t, executor.Unreachable, tc.want)
				if took := time.Since(began); took != tc.after {
					t.Errorf("it was given up after %s, want %s", took, tc.after)
				}
				w.nothingLeft()
			})
		})
	}
}

// TestExecute_EventReason: only an event gives the reason why a pod waits.
func TestExecute_EventReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.run()
		w.pod(w.job(), waiting("ContainerCreating", ""))
		var pods corev1.PodList
		w.must(w.client.List(t.Context(), &pods))
		w.event(pods.Items[0].UID, "FailedMount", "old")
		time.Sleep(time.Second)
		w.event(pods.Items[0].UID, "FailedCreatePodSandBox", "no address is free")
		x.fails(t, executor.Unreachable,
			"did not start within 5m0s: its container has not been started: ContainerCreating (no address is free)")
	})
}

func TestExecute_PodFailures(t *testing.T) {
	evicted := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."}
	killed := exited(137, "")
	killed.Phase, killed.Reason, killed.Message = evicted.Phase, evicted.Reason, evicted.Message
	preempted := exited(143, "")
	preempted.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler", Message: "default-scheduler: preempting"}}
	memory := exited(137, "")
	memory.ContainerStatuses[1].State.Terminated.Reason = "OOMKilled"
	noCommand := exited(128, `exec: "frieze": executable file not found in $PATH`)
	noCommand.ContainerStatuses[1].State.Terminated.Reason = "StartError"
	unknown := exited(137, "The container could not be located when the pod was terminated")
	unknown.ContainerStatuses[1].State.Terminated.Reason = "ContainerStatusUnknown"
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		kind   executor.ErrorKind
		want   string
	}{
		"lost by its node": {unknown, executor.Unreachable, "its node does not know the state of its container: The container could not be located when the pod was terminated"},
		"exit code":        {exited(3, "line 1\nthe disk is full\n\n"), executor.Failed, "ended with exit code 3: the disk is full"},
		"exit code, JSON":  {exited(3, `{"message":"no password=x1"}`), executor.Failed, "ended with exit code 3: no password=[REDACTED]"},
		"no reason":        {exited(3, ""), executor.Failed, "ended with exit code 3 without saying why"},
		"memory":           {memory, executor.Failed, "was killed because it used more memory than it may (OOMKilled): raise resources.limits.memory of the Plugin"},
		"evicted":          {evicted, executor.Unreachable, "its pod was evicted before it answered: The node was low on resource: memory."},
		"evicted, it ran":  {killed, executor.Unreachable, "its pod was evicted before it answered: The node was low on resource: memory."},
		"preempted":        {preempted, executor.Unreachable, "its pod was disrupted before it answered (PreemptionByScheduler): default-scheduler: preempting"},
		"no such command":  {noCommand, executor.Unreachable, `its container cannot be started: exec: "frieze": executable file not found in $PATH`},
		"refused by node":  {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Node didn't have enough resource"}, executor.Unreachable, "its pod failed before it answered: OutOfcpu: Node didn't have enough resource"},
		"outside contract": {exited(0, `{"message":`), executor.Failed, "answered something that is not part of the contract: its termination message begins like JSON and is not message, outputs and retryAfterSeconds (unexpected EOF); Kubernetes keeps 4096 bytes of it, it has 11"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				x := w.run()
				w.pod(w.job(), tc.status)
				x.fails(t, tc.kind, tc.want)
				w.recorded(call())
			})
		})
	}
}

func TestExecute_NoAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(w *world)
		kind executor.ErrorKind
		want string
	}{
		"deadline of the Job": {func(w *world) {
			w.condition(w.job(), batchv1.JobCondition{Type: batchv1.JobFailureTarget, Reason: batchv1.JobReasonDeadlineExceeded})
		}, executor.Timeout, "did not end before the deadline of its Job: raise its timeout or check what it waits for"},
		"pod is deleted": {func(w *world) {
			w.condition(w.job(), batchv1.JobCondition{Type: batchv1.JobFailed, Reason: batchv1.JobReasonBackoffLimitExceeded, Message: "Job has reached the specified backoff limit"})
		}, executor.Unreachable, "its pod was lost before it answered: Job has reached the specified backoff limit"},
		"pod is deleted, it succeeded": {func(w *world) {
			w.condition(w.job(), batchv1.JobCondition{Type: batchv1.JobComplete})
		}, executor.Unreachable, "succeeded, but its pod was deleted before its answer could be read"},
		"Job is deleted": {func(w *world) {
			w.must(w.client.Delete(context.Background(), w.job(), client.PropagationPolicy(metav1.DeletePropagationBackground)))
		}, executor.Unreachable, "its Job was deleted by another client before it finished"},
		"another Job of that name": {func(w *world) {
			job := w.job().DeepCopy()
			w.must(w.client.Delete(context.Background(), w.job(), client.PropagationPolicy(metav1.DeletePropagationBackground)))
			job.ResourceVersion, job.Annotations = "", map[string]string{AnnotationKey: "other"}
			time.Sleep(time.Second)
			w.must(w.client.Create(context.Background(), job))
		}, executor.Unreachable, "its Job was deleted by another client before it finished"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				x := w.run()
				tc.end(w)
				x.fails(t, tc.kind, tc.want)
			})
		})
	}
}

// TestExecute_LastLogLine covers a kubelet that reports no message.
func TestExecute_LastLogLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.logs.plays = []recording{{text: "2026-01-01T00:00:01Z trying\n2026-01-01T00:00:02Z no such table\n"}}
		x := w.run()
		w.pod(w.job(), exited(1, ""))
		x.fails(t, executor.Failed, "ended with exit code 1: no such table")
	})
}

// TestExecute_DeletionRetry: the answer survives a failure to delete the Job that must make room for
// the next call.
func TestExecute_DeletionRetry(t *testing.T) {
	for name, tc := range map[string]struct {
		times int
		left  bool
	}{"for a moment": {2, false}, "for good": {1000, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				x := w.run()
				failed := 0
				w.refuse(func(verb string, _ any) error {
					if verb == "delete" && failed < tc.times {
						failed++
						return errConnection
					}
					return nil
				})
				w.pod(w.job(), exited(0, `{"retryAfterSeconds":30}`))
				<-x.done
				if x.err != nil || x.answer.RetryAfter != 30*time.Second {
					t.Errorf("it returned %+v, %v", x.answer, x.err)
				}
				if left := w.there(w.job().Name) != nil; left != tc.left || w.lines.with("was not removed in time") > 0 != tc.left {
					t.Errorf("the Job remains: %v, want %v; the log is %q", left, tc.left, w.lines.all)
				}
			})
		})
	}
}

// errConnection is a network error.
var errConnection = &netError{errors.New("connection reset")}

type netError struct{ error }

func (*netError) Timeout() bool { return false }
