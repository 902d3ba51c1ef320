// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// kept are the objects that an upgrade must not change.
func (l *life) kept(t *testing.T) map[string]string {
	t.Helper()
	kept := map[string]string{"HookRuns": l.uidsOf(t)}
	for name, object := range map[string]client.Object{
		"Backup": &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, "Schedule": schedule("yearly"),
		"Plugin": plugin("hold"), "location": location("main"),
		"claim":      &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "grapnel-store"}},
		"account":    &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "grapnel-controller-manager"}},
		"Deployment": &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "grapnel-controller-manager"}},
	} {
		key := client.ObjectKey{Namespace: namespace, Name: object.GetName()}
		if name == "Plugin" {
			key.Namespace = ""
		}
		if err := l.admin.Get(t.Context(), key, object); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		kept[name] = string(object.GetUID())
		if name != "Deployment" { // of which the spec is another
			kept[name] += fmt.Sprint(" generation ", object.GetGeneration())
		}
	}
	return kept
}

func (l *life) uidsOf(t *testing.T) string {
	t.Helper()
	var runs v1alpha1.HookRunList
	if err := l.admin.List(t.Context(), &runs, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	var uids []string
	for i := range runs.Items {
		uids = append(uids, string(runs.Items[i].UID))
	}
	slices.Sort(uids)
	return strings.Join(uids, " ")
}

// upgrade applies what is installed now over what was installed before.
func (l *life) upgrade(t *testing.T) {
	t.Helper()
	before := l.kept(t)
	text, _, _ := strings.Cut(section(t, document(t), "## Upgrade"), "\n### ")
	for _, command := range commands(text) {
		l.shell(t, command)
	}
	if after := l.kept(t); !maps.Equal(before, after) {
		t.Errorf("the upgrade changes objects: before %v, after %v", before, after)
	}
	var deployment appsv1.Deployment
	if err := l.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "grapnel-controller-manager"}, &deployment); err != nil {
		t.Fatal(err)
	}
	want := ofKind[appsv1.Deployment](t, installations["default"].render(t), "Deployment")[0].Spec.Template.Spec
	got := deployment.Spec.Template.Spec
	if len(got.Volumes) != len(want.Volumes) || len(got.Containers[0].VolumeMounts) != len(want.Containers[0].VolumeMounts) ||
		!slices.Equal(got.Containers[0].Args, want.Containers[0].Args) {
		t.Errorf("something of the older Deployment is left: %+v", got)
	}
}

// downgrade goes back to an older operator. Of the newer kinds, one is marked: the CRDs that
// make applies here are the same that are installed.
func (l *life) downgrade(t *testing.T) {
	t.Helper()
	const description = "/spec/versions/0/schema/openAPIV3Schema/description"
	l.kubectl(t, "", "patch", "crd", "backups.grapnel.dev", "--type=json", "-p", `[{"op":"replace","path":"`+description+`","value":"newer"}]`)
	for _, command := range commands(section(t, document(t), "### Downgrade")) {
		l.shell(t, command)
	}
	if kind := l.kubectl(t, "", "get", "crd", "backups.grapnel.dev", "-o", "jsonpath={.spec.versions[0].schema.openAPIV3Schema.description}"); kind != "newer" {
		t.Errorf("the downgrade replaces the newer kinds: %s", kind)
	}
	var deployment appsv1.Deployment
	if err := l.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "grapnel-controller-manager"}, &deployment); err != nil {
		t.Fatal(err)
	}
	if image := deployment.Spec.Template.Spec.Containers[0].Image; image != "registry.example.com/grapnel:v0.1.0" {
		t.Errorf("the downgrade installs the image %s, and not the one that was asked for", image)
	}
}
