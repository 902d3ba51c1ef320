// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"testing/synctest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// pod creates the pod of a Job.
func (w *world) pod(job *batchv1.Job, status corev1.PodStatus) {
	w.t.Helper()
	w.must(w.client.Create(context.Background(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: job.Name + "-x7k2p", Labels: job.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: job.Spec.Template.Spec, Status: status,
	}))
	synctest.Wait()
}

// become changes the status of the pod of a Job.
func (w *world) become(job *batchv1.Job, status corev1.PodStatus) {
	w.t.Helper()
	var pod corev1.Pod
	w.must(w.client.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: job.Name + "-x7k2p"}, &pod))
	pod.Status = status
	w.must(w.client.Status().Update(context.Background(), &pod))
	synctest.Wait()
}

// condition sets a condition of a Job.
func (w *world) condition(job *batchv1.Job, c batchv1.JobCondition) {
	w.t.Helper()
	var there batchv1.Job
	w.must(w.client.Get(context.Background(), client.ObjectKeyFromObject(job), &there))
	c.Status = corev1.ConditionTrue
	there.Status.Conditions = append(there.Status.Conditions, c)
	w.must(w.client.Status().Update(context.Background(), &there))
	synctest.Wait()
}

// nothingLeft fails the test if a Job, a pod or a Secret remains.
func (w *world) nothingLeft() {
	w.t.Helper()
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}, &corev1.SecretList{}} {
		w.must(w.client.List(context.Background(), list))
		if n := count(list); n > 0 {
			w.t.Errorf("%d remain: %+v", n, list)
		}
	}
}

// recorded cleans up as the caller of Execute does after it recorded the answer, and fails the test
// if the Job did not keep the answer until then.
func (w *world) recorded(of executor.Call) {
	w.t.Helper()
	var jobs batchv1.JobList
	if w.must(w.client.List(context.Background(), &jobs)); len(jobs.Items) != 1 {
		w.t.Errorf("there are %d Jobs, want the one that keeps the answer until it is recorded", len(jobs.Items))
	}
	e, err := New(w.options())
	w.must(err)
	w.must(e.Stop(context.Background(), of))
	w.nothingLeft()
}

func count(list client.ObjectList) int {
	switch list := list.(type) {
	case *batchv1.JobList:
		return len(list.Items)
	case *corev1.PodList:
		return len(list.Items)
	case *corev1.SecretList:
		return len(list.Items)
	}
	return -1
}

func containers(state corev1.ContainerState) corev1.PodStatus {
	return corev1.PodStatus{
		Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "proxy"}, {Name: containerName, State: state}},
	}
}

func running() corev1.PodStatus {
	return containers(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
}

func waiting(reason, message string) corev1.PodStatus {
	return containers(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
}

func exited(code int32, message string) corev1.PodStatus {
	return containers(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}})
}
