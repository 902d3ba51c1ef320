// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
)

// jobFor returns the Job that a call would start.
func (w *world) jobFor(run executor.Executor, call executor.Call) *batchv1.Job {
	w.t.Helper()
	w.created = nil
	w.onCreate = func(client.Object) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "x", errRefused)
	}
	_, err := run.Execute(w.t.Context(), call)
	wantError(w.t, err, executor.Unreachable, "its Job could not be created")
	if len(w.created) != 1 {
		w.t.Fatalf("%d objects were created", len(w.created))
	}
	return w.created[0].(*batchv1.Job)
}

func TestNewJobExecutor_AllFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plugin := pluginOf(v1alpha1.Executor{Job: &v1alpha1.JobExecutor{
		Namespace: "jobs", ServiceAccountName: "freezer", Image: "registry.example/freeze:1", ImagePullPolicy: "Always",
		ImagePullSecrets: []v1alpha1.SecretReference{{Name: "pull"}}, Command: []string{"freeze"},
		Env: []v1alpha1.JobEnvVar{
			{EnvVar: v1alpha1.EnvVar{Name: "MODE", Value: "fast"}},
			{EnvVar: v1alpha1.EnvVar{Name: "PGPASSWORD"}, SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "db", Key: "password"}},
		},
		Resources: &v1alpha1.JobResources{
			Limits: map[string]resource.Quantity{"memory": resource.MustParse("64Mi")}, Requests: map[string]resource.Quantity{"cpu": resource.MustParse("10m")},
		},
		NodeSelector: map[string]v1alpha1.LabelValue{"disk": "fast"},
	}}, preBackup, postBackup)
	plugin.Spec.Actions[1].Command = []string{"thaw", "--all"}
	job := w.jobFor(w.build(plugin, preBackup), callFor(executor.PointPreBackup, aBackup))
	pod := job.Spec.Template.Spec
	if job.Namespace != "jobs" || job.Labels["grapnel.dev/plugin"] != "freezer" || pod.ServiceAccountName != "freezer" || !*pod.AutomountServiceAccountToken {
		t.Errorf("the Job is %+v", job.ObjectMeta)
	}
	want := corev1.Container{
		Name: "action", Image: "registry.example/freeze:1", ImagePullPolicy: corev1.PullAlways, Command: []string{"freeze"},
		Resources: corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")},
		},
	}
	ignored := cmpopts.IgnoreFields(corev1.Container{}, "Env", "SecurityContext", "TerminationMessagePolicy", "VolumeMounts")
	if diff := cmp.Diff(want, pod.Containers[0], ignored); diff != "" {
		t.Errorf("container (-want +got):\n%s", diff)
	}
	env := []corev1.EnvVar{
		{Name: "MODE", Value: "fast"},
		{Name: "PGPASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: "password",
		}}},
	}
	if diff := cmp.Diff(env, pod.Containers[0].Env[:2]); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.LocalObjectReference{{Name: "pull"}}, pod.ImagePullSecrets); diff != "" {
		t.Errorf("pull secrets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"disk": "fast"}, pod.NodeSelector); diff != "" {
		t.Errorf("node selector (-want +got):\n%s", diff)
	}
	thaw := w.jobFor(w.build(plugin, postBackup), callFor(executor.PointPostBackup, aBackup))
	if diff := cmp.Diff([]string{"thaw", "--all"}, thaw.Spec.Template.Spec.Containers[0].Command); diff != "" {
		t.Errorf("command of the action (-want +got):\n%s", diff)
	}
}

func TestNewJobExecutor_Defaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.jobFor(w.build(pluginOf(aJob(), preBackup), preBackup), callFor(executor.PointPreBackup, aBackup))
	pod := job.Spec.Template.Spec
	if job.Namespace != operatorNamespace || pod.ServiceAccountName != "" || *pod.AutomountServiceAccountToken || pod.Containers[0].Command != nil {
		t.Errorf("the Job is in namespace %s with %+v", job.Namespace, pod)
	}
}

// TestNewJobExecutor_HostileCall: a user who creates a Backup controls only the values of variables
// and the files.
func TestNewJobExecutor_HostileCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.build(pluginOf(aJob(), preBackup), preBackup)
	plain := w.jobFor(run, callFor(executor.PointPreBackup, aBackup))
	hostile := callFor(executor.PointPreBackup, `{"kind":"Backup","metadata":{"name":"nightly","namespace":"kube-system","labels":{"grapnel.dev/plugin":"other"},`+
		`"annotations":{"grapnel.dev/image":"evil","serviceAccountName":"admin"}},"spec":{"executor":{"job":{"image":"evil"}}}}`)
	hostile.Parameters = map[string]string{
		"image": "evil", "command": "rm -rf /", "namespace": "kube-system", "serviceAccountName": "admin", "LD_PRELOAD": "/evil.so",
		"PATH": "/evil", "x=y": "z", "$(A)": "$(GRAPNEL_PARAM_IMAGE)", "nodeSelector": "master",
	}
	hostile.Outputs = map[string]map[string]string{"freeze": {"image": "evil"}}
	hostile.BackupOutputs, hostile.BackupName = hostile.Outputs, "$(PATH)"
	other := w.jobFor(run, hostile)
	check := func(job *batchv1.Job) {
		c := &job.Spec.Template.Spec.Containers[0]
		for _, v := range c.Env {
			if !strings.HasPrefix(v.Name, "GRAPNEL_") {
				t.Errorf("the call set the variable %s", v.Name)
			}
			if strings.Contains(strings.ReplaceAll(v.Value, "$$", ""), "$(") {
				t.Errorf("Kubernetes expands %s=%s", v.Name, v.Value)
			}
		}
		c.Env = nil
		job.Spec.Template.Spec.Volumes = nil // its name is different each time
	}
	check(plain)
	check(other)
	if diff := cmp.Diff(plain, other); diff != "" {
		t.Errorf("the call changed the Job (-without +with):\n%s", diff)
	}
}
