// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// everything returns all objects of the cluster, but for those that it makes of itself while
// time passes.
func (l *life) everything(t *testing.T) map[string]bool {
	t.Helper()
	disc, err := discovery.NewDiscoveryClientForConfig(l.plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	served, err := discovery.ServerPreferredResources(disc)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, group := range served {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range group.APIResources {
			if slices.Contains(resource.Verbs, "list") && resource.Name != "events" {
				l.list(t, version.WithKind(resource.Kind), found)
			}
		}
	}
	return found
}

func (l *life) list(t *testing.T, kind schema.GroupVersionKind, into map[string]bool) {
	t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	if err := l.admin.List(t.Context(), list); err != nil {
		t.Fatalf("listing %s: %v", kind.Kind, err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		// What Kubernetes makes in each namespace may come a moment later.
		if strings.HasPrefix(o.Namespace, "kube-") || o.Name == "kube-root-ca.crt" || (kind.Kind == "ServiceAccount" && o.Name == "default") {
			continue
		}
		into[kind.GroupKind().String()+" "+o.Namespace+"/"+o.Name] = true
	}
}

// wantNothingBut looks for objects that were not there before Grapnel was.
func (l *life) wantNothingBut(t *testing.T, before map[string]bool) {
	t.Helper()
	after := l.everything(t)
	for object := range after {
		if !before[object] {
			t.Errorf("%s is left behind", object)
		}
	}
	for object := range before {
		if !after[object] {
			t.Errorf("%s is gone, which is not Grapnel's", object)
		}
	}
}

// uninstall does what the document says: objects first, then the operator, then what holds
// data.
func (l *life) uninstall(t *testing.T) {
	t.Helper()
	text, _, _ := strings.Cut(section(t, document(t), "## Uninstall"), "### ")
	found := blocks(text, "sh")
	if len(found) != 4 {
		t.Fatalf("%d blocks of commands, want those that keep data, those for the objects, and two ways for the rest", len(found))
	}
	for _, command := range append(lines(found[0]), lines(found[1])...) {
		l.shell(t, command)
	}
	if calls, err := os.ReadFile(l.calls()); err != nil || !strings.Contains(string(calls), `"PostBackup"`) {
		t.Errorf("what the Backup owed that ran was not done: %v\n%s", err, calls)
	}
	if err := l.op.Stop(); err != nil {
		t.Fatal(err)
	}
	monitoring := []string{"-l", "app.kubernetes.io/component=monitoring"}
	l.kubectl(t, installations["alerts"].manifests(t), append([]string{"apply", "-f", "-"}, monitoring...)...)
	l.undeploy(t)
	kinds := "servicemonitors.monitoring.coreos.com,prometheusrules.monitoring.coreos.com,configmaps"
	if stays := l.kubectl(t, "", append([]string{"get", kinds, "-n", namespace, "-o", "name"}, monitoring...)...); stays != "" {
		t.Errorf("make undeploy leaves of the component monitoring: %s", stays)
	}
	left := slices.Sorted(maps.Keys(l.everything(t)))
	for _, object := range left {
		if strings.Contains(object, "/grapnel-") && !strings.HasPrefix(object, "Namespace") && !strings.HasPrefix(object, "PersistentVolumeClaim ") {
			t.Errorf("%s stays after make undeploy", object)
		}
	}
	for _, want := range []string{"PersistentVolumeClaim grapnel-system/grapnel-store", "CustomResourceDefinition.apiextensions.k8s.io /backups.grapnel.dev"} {
		if !slices.Contains(left, want) {
			t.Errorf("make undeploy removes %s", want)
		}
	}
	l.shell(t, "make uninstall")
	for _, command := range lines(found[2]) {
		l.shell(t, command)
	}
}

// undeploy removes the operator while its pod takes its time to end, and looks what that has
// meanwhile: a Backup that runs is written down then.
func (l *life) undeploy(t *testing.T) {
	t.Helper()
	pod := l.holdPod(t)
	cmd := l.command(t, "make undeploy")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, l.admin, pod, "the end of the pod", func() bool { return pod.DeletionTimestamp != nil })
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "grapnel-controller-manager"}
	for what, object := range map[string]client.Object{
		"Deployment": &appsv1.Deployment{ObjectMeta: meta}, "account": &corev1.ServiceAccount{ObjectMeta: meta},
		"network":      &networkingv1.NetworkPolicy{ObjectMeta: meta},
		"right":        &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "grapnel-manager"}},
		"binding here": &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "grapnel-leader-election"}},
	} {
		if err := l.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Errorf("the %s is gone while the pod of the operator ends: %v", what, err)
		}
	}
	if err := l.admin.Patch(t.Context(), pod, patch(t, "metadata", "finalizers", nil)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("make undeploy: %v\n%s", err, &out)
	}
}

// holdPod has the operator's pod stay until it is released: no node is there that would keep it.
func (l *life) holdPod(t *testing.T) *corev1.Pod {
	t.Helper()
	var deployment appsv1.Deployment
	if err := l.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "grapnel-controller-manager"}, &deployment); err != nil {
		t.Fatal(err)
	}
	var pods corev1.PodList
	eventually(t, "the pod of the Deployment", func(ctx context.Context) (bool, error) {
		err := l.admin.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels))
		return len(pods.Items) == 1 && pods.Items[0].DeletionTimestamp == nil &&
			pods.Items[0].Spec.Containers[0].Image == deployment.Spec.Template.Spec.Containers[0].Image, err
	})
	pod := &pods.Items[0]
	if err := l.admin.Patch(t.Context(), pod, patch(t, "metadata", "finalizers", []string{"example.com/ends-slowly"})); err != nil {
		t.Fatal(err)
	}
	return pod
}

// abandon installs again, makes objects that only an operator would release, has none, and does
// what the document says about that.
func (l *life) abandon(t *testing.T) {
	t.Helper()
	l.kubectl(t, "", "apply", "-k", "crd")
	l.kubectl(t, "", "wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
	l.apply(t, installations["everything"])
	for object, finalizer := range map[client.Object]string{
		&v1alpha1.Backup{}:                v1alpha1.FinalizerRun,
		restore("held"):                   v1alpha1.FinalizerRun,
		deletionRun("held"):               v1alpha1.FinalizerRun,
		hookRun(namespace, "held"):        v1alpha1.FinalizerHookRun,
		asyncOperation(namespace, "held"): v1alpha1.FinalizerAsyncOperation,
		plugin("held"):                    v1alpha1.FinalizerPlugin,
		location("held"):                  "",
	} {
		object.SetName("held")
		if _, global := object.(*v1alpha1.Plugin); !global {
			object.SetNamespace(namespace)
		}
		if finalizer != "" {
			object.SetFinalizers([]string{finalizer})
		}
		create(t, l.admin, object)
	}
	eventually(t, "the policies", func(ctx context.Context) (bool, error) {
		err := l.user.Patch(ctx, hookRun(namespace, "held"), patch(t, "metadata", "finalizers", nil), client.DryRunAll)
		return apierrors.IsForbidden(err), nil
	})
	for _, command := range commands(section(t, document(t), "### When the operator is gone already")) {
		l.shell(t, command)
	}
	// Those were the commands for config/default; this installation has more.
	l.kubectl(t, installations["everything"].manifests(t), "delete", "--ignore-not-found", "-f", "-")
}
