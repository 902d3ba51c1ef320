// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

func metaOf(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": name}}
}

func ownedBy(apiVersion, kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: new(true)}}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metaOf(name), Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
}

func statefulSet(name string, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metaOf(name), Spec: appsv1.StatefulSetSpec{Replicas: &replicas}}
}

func cronJob(name string) *batchv1.CronJob {
	return &batchv1.CronJob{ObjectMeta: metaOf(name), Spec: batchv1.CronJobSpec{Suspend: new(false)}}
}

func job(name string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metaOf(name), Spec: batchv1.JobSpec{Suspend: new(false)}}
}

func replicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metaOf(name), Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}}
}

func daemonSet(name string, selector map[string]string) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: metaOf(name)}
	d.Spec.Template.Spec.NodeSelector = maps.Clone(selector)
	return d
}

func pod(name string, owners []metav1.OwnerReference) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metaOf(name), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	p.OwnerReferences = owners
	return p
}

func items(t *testing.T, list client.ObjectList) []client.Object {
	t.Helper()
	var found []client.Object
	switch l := list.(type) {
	case *batchv1.CronJobList:
		found = pointers[client.Object](l.Items)
	case *batchv1.JobList:
		found = pointers[client.Object](l.Items)
	case *appsv1.DeploymentList:
		found = pointers[client.Object](l.Items)
	case *appsv1.ReplicaSetList:
		found = pointers[client.Object](l.Items)
	case *appsv1.DaemonSetList:
		found = pointers[client.Object](l.Items)
	case *appsv1.StatefulSetList:
		found = pointers[client.Object](l.Items)
	default:
		t.Fatalf("unknown list %T", list)
	}
	return found
}

func kindOf(o client.Object) quiesce.WorkloadKind {
	return quiesce.WorkloadKind(strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1."))
}

// pointers returns the addresses of items as values of an interface.
func pointers[I, T any](of []T) []I {
	var all []I
	for i := range of {
		all = append(all, any(&of[i]).(I))
	}
	return all
}

// shop has one workload of each kind, some of them stopped, and some that must be left alone.
func shop() []client.Object {
	finished := job("finished")
	finished.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	part := replicaSet("web-1", 3)
	part.OwnerReferences = ownedBy("apps/v1", "Deployment", "web")
	run := job("nightly-1")
	run.OwnerReferences = ownedBy("batch/v1", "CronJob", "nightly")
	suspended := cronJob("weekly")
	suspended.Spec.Suspend = new(true)
	other := deployment("web", 1)
	other.Namespace = "office"
	return []client.Object{
		cronJob("nightly"), suspended, job("load"), run, finished,
		deployment("web", 3), deployment("idle", 0), deployment("idle-too", 0), replicaSet("old", 2), part,
		daemonSet("agent", map[string]string{"disk": "ssd"}), daemonSet("proxy", nil), statefulSet("db", 2), other,
	}
}
