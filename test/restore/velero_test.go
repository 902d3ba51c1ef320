// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Backups of Velero", Label("restore"), func() {
	// The backups below testdata are written by hand in the formats of Velero before 1.1.0 and
	// since.
	It("restores the formats of Velero before 1.1.0 and since", func() {
		t := suite.Spec(GinkgoTB())
		for feature, s := range map[string]site{
			"as they are": {world.SharedOperator(t)}, "with the choice of versions": {world.StartOperator(t, "--features=EnableAPIGroupVersions")},
		} {
			for format, c := range map[string]struct {
				others   []string
				phase    v1alpha1.RunPhase
				message  string
				results  string
				versions int
			}{
				"format-1": {
					others: []string{"-logs.gz", "-podvolumebackups.json.gz", "-volumesnapshots.json.gz", "-resource-list.json.gz"},
					phase:  v1alpha1.RunPhasePartiallyFailed, message: "7 created, 1 failed; 1 error",
					// What no cluster serves any more is reported, and stops nothing.
					results: "1 object of ingresses.extensions is not restored: the cluster does not serve them",
				},
				"format-1.1.0": {
					others: []string{
						"-logs.gz", "-podvolumebackups.json.gz", "-volumesnapshots.json.gz", "-resource-list.json.gz", "-results.gz",
						"-itemoperations.json.gz", "-volumeinfo.json.gz", "-csi-volumesnapshots.json.gz", "-csi-volumesnapshotcontents.json.gz",
					},
					phase: v1alpha1.RunPhaseCompleted, message: "7 created", versions: 7,
				},
			} {
				By(format+" "+feature, func() {
					manifest, err := os.ReadFile(filepath.Join("testdata", format, "velero-backup.json"))
					Expect(err).NotTo(HaveOccurred())
					archive := archiveOfDirectory(t, filepath.Join("testdata", format, "archive"))
					r, target := s.restoreOf(s.fromVelero(t, string(manifest), archive, c.others...), "shop")
					r = outcome(t, env.Create(t, world.Client, r), c.phase, c.message)
					theShop(t, target)
					results := s.results(t, r)
					says(t, results, c.results)
					var report struct{ Versions map[string]any }
					Expect(json.Unmarshal([]byte(results), &report)).To(Succeed())
					want := c.versions
					if s.Name == operator.Namespace { // the shared one
						want = 0
					}
					if len(report.Versions) != want {
						t.Errorf("versions were chosen for %v, want %d kinds", report.Versions, want)
					}
				})
			}
		}
	})
})

// theShop checks what every backup below testdata has.
func theShop(t testing.TB, namespace string) {
	t.Helper()
	shop := there(t, "", namespace, &corev1.Namespace{})
	settings := there(t, namespace, "settings", &corev1.ConfigMap{})
	till := there(t, namespace, "till", &corev1.Secret{})
	there(t, namespace, "cashier", &corev1.ServiceAccount{})
	counter := there(t, namespace, "counter", &corev1.Service{})
	web := there(t, namespace, "web", &appsv1.Deployment{})
	cashiers := there(t, namespace, "cashiers", &rbacv1.RoleBinding{})
	for what, got := range map[string]struct{ got, want any }{
		"the label of the Namespace":                 {shop.Labels["team"], "retail"},
		"the ConfigMap":                              {settings.Data["greeting"], "Moin"},
		"the label of the ConfigMap":                 {settings.Labels["app"], "shop"},
		"the Secret":                                 {string(till.Data["code"]), "1234"},
		"the port of the Service":                    {counter.Spec.Ports[0].TargetPort.IntVal, int32(8080)},
		"the old address of the Service":             {counter.Spec.ClusterIP == "10.32.7.9", false},
		"the replicas of the Deployment":             {*web.Spec.Replicas, int32(2)},
		"the image of the Deployment":                {web.Spec.Template.Spec.Containers[0].Image, "registry.example.com/shop:1"},
		"the old status of Deployment":               {web.Status.Replicas, int32(0)},
		"the role of the RoleBinding":                {cashiers.RoleRef.Name, "view"},
		"the namespace of the RoleBinding's subject": {cashiers.Subjects[0].Namespace, namespace},
	} {
		if got.got != got.want {
			t.Errorf("%s is %v, want %v", what, got.got, got.want)
		}
	}
}

// there reads an object that has to be there.
func there[T client.Object](t testing.TB, namespace, name string, object T) T {
	t.Helper()
	object.SetNamespace(namespace)
	object.SetName(name)
	if !world.Exists(t, object) {
		t.Fatalf("%T %s is not there", object, name)
	}
	return object
}
