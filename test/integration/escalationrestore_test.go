// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// forge puts a backup into the location of an attacker who may write to the bucket. It
// has the objects by resource and group, and returns its name.
func (s site) forge(t testing.TB, objects map[string][]client.Object) string {
	t.Helper()
	name := path.Base(own(t, "forged"))
	s.putVelero(t, env.DefaultLocation, name, nil)
	content, listed := map[string]string{"metadata/version": "1.1.0"}, map[string][]string{}
	for resource, list := range objects {
		for _, object := range list {
			kind, err := world.Client.GroupVersionKindFor(object)
			Expect(err).NotTo(HaveOccurred())
			object.GetObjectKind().SetGroupVersionKind(kind)
			text, err := json.Marshal(object)
			Expect(err).NotTo(HaveOccurred())
			where := "cluster"
			if namespace := object.GetNamespace(); namespace != "" {
				where = "namespaces/" + namespace
			}
			content["resources/"+resource+"/"+where+"/"+object.GetName()+".json"] = string(text)
			key := kind.GroupVersion().String() + "/" + kind.Kind
			listed[key] = append(listed[key], path.Join(object.GetNamespace(), object.GetName()))
		}
	}
	dir := s.backupDir(env.DefaultLocation, name)
	writeArchive(t, filepath.Join(dir, name+".tar.gz"), content)
	writeList(t, filepath.Join(dir, name+"-resource-list.json.gz"), listed)
	return name
}

// writeList writes what says what is in an archive.
func writeList(t testing.TB, file string, listed map[string][]string) {
	t.Helper()
	var content bytes.Buffer
	plain := gzip.NewWriter(&content)
	Expect(errors.Join(json.NewEncoder(plain).Encode(listed), plain.Close(), os.WriteFile(file, content.Bytes(), 0o600))).To(Succeed())
}

// evil are objects of Grapnel that an archive may have, by resource: none of them may come
// back, as each makes the operator do something.
func evil(t testing.TB, namespace, name string) map[string][]client.Object {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	plugin := world.NewFaultPlugin(name, pre(v1alpha1.PluginAction{Name: "own.example.io/" + name}))
	deletion := &v1alpha1.DeletionRun{ObjectMeta: meta, Spec: v1alpha1.DeletionRunSpec{BackupName: name, DestroyForeign: true}}
	return map[string][]client.Object{
		"plugins.grapnel.dev":         {plugin},
		"hookruns.grapnel.dev":        {forgedRun(meta, "uid")},
		"asyncoperations.grapnel.dev": {forgedOperation(meta, "uid")},
		"backups.grapnel.dev":         {&v1alpha1.Backup{ObjectMeta: meta}},
		"restores.grapnel.dev":        {&v1alpha1.Restore{ObjectMeta: meta, Spec: v1alpha1.RestoreSpec{BackupName: name}}},
		"deletionruns.grapnel.dev":    {deletion},
	}
}

var _ = Describe("The rights of authors: archives", Label("security"), func() {
	// The archive has everything that makes the operator act, and Grapnel's policies turned off.
	Context("runs nothing that a forged archive contains", func() {
		for name, mapped := range suite.SortedByName(map[string]bool{"where it was": false, "mapped into the operator's namespace": true}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s, jane, _ := meet(t)
				name := path.Base(own(t, "evil"))
				from := s.Name
				if mapped {
					from = "elsewhere"
				}
				objects := evil(t, from, name)
				r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"}}
				r.Spec.ExistingResourcePolicy, r.Spec.IncludeClusterResources = v1alpha1.ExistingResourcePolicyUpdate, new(true)
				if mapped {
					r.Spec.NamespaceMapping = map[string]v1alpha1.NamespaceName{from: v1alpha1.NamespaceName(s.Name)}
				}
				r.Spec.RestoreStatus = &v1alpha1.RestoreStatusSpec{IncludedResources: patterns("*")}
				r.Spec.BackupName = s.forge(t, objects)
				env.Create(t, jane, r)
				r = restored(t, r, v1alpha1.RunPhaseCompleted, "6 skipped")
				for resource, list := range objects {
					for _, object := range list {
						if object.GetNamespace() != "" {
							object.SetNamespace(s.Name)
						}
						if world.Exists(t, object) {
							t.Errorf("%s came back: %s", resource, r.Status.Message)
						}
					}
				}
			})
		}
	})

	It("keeps the installed policies", func() {
		t := suite.Spec(GinkgoTB())
		s, jane, joe := meet(t)
		var policy admissionv1.ValidatingAdmissionPolicy
		var binding admissionv1.ValidatingAdmissionPolicyBinding
		for _, object := range []client.Object{&policy, &binding} {
			Expect(world.Client.Get(t.Context(), client.ObjectKey{Name: "grapnel-hookruns"}, object)).To(Succeed())
		}
		toothless, lax := policy.DeepCopy(), binding.DeepCopy()
		toothless.Spec.Validations = []admissionv1.Validation{{Expression: "true"}}
		toothless.Labels, lax.Labels = nil, nil
		lax.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit}
		const group = ".admissionregistration.k8s.io"
		r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"}}
		r.Spec.ExistingResourcePolicy, r.Spec.IncludeClusterResources = v1alpha1.ExistingResourcePolicyUpdate, new(true)
		r.Spec.BackupName = s.forge(t, map[string][]client.Object{
			"validatingadmissionpolicies" + group: {toothless}, "validatingadmissionpolicybindings" + group: {lax},
		})
		restored(t, env.Create(t, jane, r), v1alpha1.RunPhaseCompleted, "2 skipped")
		for _, object := range []client.Object{&policy, &binding} {
			generation := object.GetGeneration()
			if !world.Exists(t, object) || object.GetGeneration() != generation {
				t.Errorf("%T was changed", object)
			}
		}
		meta := metav1.ObjectMeta{Namespace: s.Name, Name: "never-there"}
		if err := joe.Create(t.Context(), forgedRun(meta, "uid"), client.DryRunAll); !isRefused(err, "only the operator creates HookRuns") {
			t.Errorf("others may create HookRuns: %v", err)
		}
	})

	// Only users who may write everything may create Restores: docs/security.md says so.
	It("writes everything that the archive contains", func() {
		t := suite.Spec(GinkgoTB())
		s, jane, _ := meet(t)
		name := path.Base(own(t, "admin"))
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		}
		removeLater(t, binding)
		location := s.NewLocation(name)
		removeLater(t, location)
		r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"}}
		r.Spec.IncludeClusterResources = new(true)
		r.Spec.BackupName = s.forge(t, map[string][]client.Object{
			"clusterrolebindings.rbac.authorization.k8s.io": {binding.DeepCopy()}, "backupstoragelocations.grapnel.dev": {location.DeepCopy()},
		})
		restored(t, env.Create(t, jane, r), v1alpha1.RunPhaseCompleted)
		if !world.Exists(t, binding) || !world.Exists(t, location) {
			t.Error("docs/security.md is wrong: something was left out")
		}
	})

	It("starts only the workload of a forged state", func() {
		t := suite.Spec(GinkgoTB())
		s, jane, _ := meet(t)
		action := own(t, "wake")
		plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: path.Base(action)}}
		plugin.Spec.Executor.Builtin = &v1alpha1.BuiltinExecutor{Quiesce: &v1alpha1.QuiesceExecutor{}}
		plugin.Spec.Actions = []v1alpha1.PluginAction{{Name: action, Kind: v1alpha1.ActionKindPostRestore, Selector: env.SelectorForAction(action)}}
		install(t, plugin)
		app := path.Base(own(t, "app"))
		down := quiesced(world.CreateNamespace(t, "app-"), "web", "")
		down.UID, down.Labels, down.Annotations = "", nil, nil
		env.Create(t, world.Client, down)

		state := func(kind, more string) string {
			return `{"v":1,"kind":"` + kind + `","uid":"of-another-cluster",` + more + `}`
		}
		want := map[string]int32{"whole": 3, "large": 1000, "another-s": 0, "another-kind": 0, "negative": 0, "overflow": 0, "no-json": 0}
		r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-", Labels: env.LabelsForActions(action)}}
		r.Spec.BackupName = s.forge(t, map[string][]client.Object{"deployments.apps": {
			quiesced(app, "whole", state("Deployment", `"replicas":3,"holders":[]`)),
			quiesced(app, "large", state("Deployment", `"replicas":1000,"holders":[{"uid":"x","since":"2026-01-02T03:04:05Z"}]`)),
			quiesced(app, "another-s", state("Deployment", `"already":true,"namespace":"`+down.Namespace+`","name":"web","replicas":5,"holders":[]`)),
			quiesced(app, "another-kind", state("StatefulSet", `"replicas":5,"holders":[]`)),
			quiesced(app, "negative", state("Deployment", `"replicas":-5,"holders":[]`)),
			quiesced(app, "overflow", state("Deployment", `"replicas":4294967299,"holders":[]`)),
			quiesced(app, "no-json", "$(id)"),
		}})
		env.Create(t, jane, r)
		restored(t, r, v1alpha1.RunPhaseCompleted)
		run := awaitRunOf(t, r, action)
		for name, replicas := range want {
			got := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: name}}
			if !world.Exists(t, got) || *got.Spec.Replicas != replicas {
				t.Errorf("%s has %d replicas, want %d: %s", name, *got.Spec.Replicas, replicas, run.Status.Message)
			}
		}
		generation := down.Generation
		if !world.Exists(t, down) || down.Generation != generation {
			t.Error("a workload of another namespace was touched")
		}
	})
})

// quiesced is a Deployment of which an archive says that it had replicas, and was quiesced by
// a run of another cluster.
func quiesced(namespace, name, annotation string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: "of-another-cluster", Labels: map[string]string{"grapnel.dev/quiesced": "true"},
			Annotations: map[string]string{"grapnel.dev/quiesced": annotation},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32), Paused: true, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}},
			},
		},
	}
}

// awaitRunOf waits until an action of a Restore has answered.
func awaitRunOf(t testing.TB, r *v1alpha1.Restore, action string) *v1alpha1.HookRun {
	t.Helper()
	awaitCalled(t, r, action)
	var found *v1alpha1.HookRun
	eventually(t, func() string {
		for _, run := range all[*v1alpha1.HookRun](world.watched) {
			if run.Spec.ParentRef.UID == string(r.UID) && run.Spec.ActionName == action && run.Status.Phase != v1alpha1.HookRunPhaseInProgress {
				found = run
				return ""
			}
		}
		return action + " has not answered\n" + describe(r)
	})
	return found
}
