// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"encoding/json"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}
}

func selector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

func template(name string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: named(name), Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/" + name}},
	}}
}

func once(name string) batchv1.JobSpec {
	spec := batchv1.JobSpec{Template: template(name)}
	spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return spec
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: named(name), Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector(name), Template: template(name)}}
}

// statefulSet starts its pods in parallel.
func statefulSet(name string, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: named(name), Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, Selector: selector(name), Template: template(name), PodManagementPolicy: appsv1.ParallelPodManagement,
	}}
}

func replicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: named(name), Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector(name), Template: template(name)}}
}

// daemonSet runs on nodes with the label of the test's node.
func daemonSet(name string) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: named(name), Spec: appsv1.DaemonSetSpec{Selector: selector(name), Template: template(name)}}
	d.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // no kubelet reports the node as ready
	return d
}

func job(name string) *batchv1.Job { return &batchv1.Job{ObjectMeta: named(name), Spec: once(name)} }

func cronJob(name string) *batchv1.CronJob {
	return &batchv1.CronJob{ObjectMeta: named(name), Spec: batchv1.CronJobSpec{
		Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: once(name)},
	}}
}

// owned makes another object of the cluster the controller of object.
func (w *world) owned(object, owner client.Object) client.Object {
	w.Helper()
	object.SetNamespace(w.ns)
	if err := controllerutil.SetControllerReference(owner, object, w.Scheme()); err != nil {
		w.Fatal(err)
	}
	return object
}

// shop creates one workload of each kind, some that are stopped, and a Job that has finished. Once
// their controllers have observed them there are 9 pods.
func (w *world) shop() {
	w.Helper()
	weekly := cronJob("weekly")
	weekly.Spec.Suspend = new(true)
	nightly := cronJob("nightly")
	w.made(nightly, weekly, job("load"), deployment("web", 3), deployment("idle", 0), replicaSet("old", 1), daemonSet("agent"), statefulSet("db", 2))
	w.made(w.owned(job("nightly-1"), nightly))
	w.awaitPods("", 9)
}

// workloads returns every workload as a user would write it, without what the cluster adds.
func (w *world) workloads(ns string) map[string]any {
	w.Helper()
	all := map[string]any{}
	for _, kind := range quiesce.WorkloadKinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(groupOf(kind).WithKind(string(kind) + "List"))
		if err := w.List(w.Context(), list, client.InNamespace(ns)); err != nil {
			w.Fatal(err)
		}
		for _, o := range list.Items {
			if len(o.GetOwnerReferences()) > 0 && kind == quiesce.ReplicaSet {
				continue // owned by a Deployment
			}
			annotations := o.GetAnnotations()
			delete(annotations, appsv1.DeprecatedTemplateGeneration)
			delete(annotations, "deployment.kubernetes.io/revision")
			all[string(kind)+" "+o.GetName()] = map[string]any{"spec": o.Object["spec"], "labels": o.GetLabels(), "annotations": annotations}
		}
	}
	return all
}

func groupOf(kind quiesce.WorkloadKind) schema.GroupVersion {
	if kind == quiesce.CronJob || kind == quiesce.Job {
		return batchv1.SchemeGroupVersion
	}
	return appsv1.SchemeGroupVersion
}

// same fails the test if workloads differ from before.
func (w *world) same(before map[string]any) {
	w.Helper()
	if diff := cmp.Diff(plain(w, before), plain(w, w.workloads(w.ns))); diff != "" {
		w.Errorf("workloads (-before +after):\n%s", diff)
	}
}

// plain removes the difference between empty and missing values.
func plain(w *world, from map[string]any) map[string]any {
	w.Helper()
	data, err := json.Marshal(from)
	if err != nil {
		w.Fatal(err)
	}
	var to map[string]any
	if err := json.Unmarshal(data, &to); err != nil {
		w.Fatal(err)
	}
	prune(to)
	return to
}

func prune(from map[string]any) {
	for key, value := range from {
		inner, ok := value.(map[string]any)
		if ok {
			prune(inner)
		}
		if value == nil || (ok && len(inner) == 0) {
			delete(from, key)
		}
	}
}
