// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// termination is where a container writes its answer.
const termination = "/dev/termination-log"

// playNode does for the Job of an action what the controller of Jobs and a node do: it creates
// the pod, which the API server lets into a restricted namespace or not, and runs the script
// with its variables and files. It returns what the script printed.
func (w *hookWorld) playNode(t *testing.T, action string) string {
	t.Helper()
	job := w.awaitJob(t, action)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: job.Namespace, Name: job.Name + "-abcde", Labels: job.Spec.Template.Labels, Annotations: job.Spec.Template.Annotations,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
	}, Spec: job.Spec.Template.Spec}
	pod.Spec.NodeName = "nowhere" // so that no log is awaited
	if err := w.client.Create(t.Context(), pod); err != nil {
		t.Fatalf("the pod of %s: %v", action, err)
	}
	printed, answer := w.runContainer(t, pod)
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", Message: answer}},
	}}
	if err := w.client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return printed
}

// awaitJob waits for the Job of an action, and for its files.
func (w *hookWorld) awaitJob(t *testing.T, action string) *batchv1.Job {
	t.Helper()
	var found *batchv1.Job
	suite.Eventually(t, func() string {
		var jobs batchv1.JobList
		if err := w.client.List(t.Context(), &jobs, client.InNamespace(hookNamespace)); err != nil {
			t.Fatal(err)
		}
		for i := range jobs.Items {
			if job := &jobs.Items[i]; job.Annotations["grapnel.dev/action"] == action {
				found = job
				if err := w.client.Get(t.Context(), filesOf(job), &corev1.Secret{}); err != nil {
					return fmt.Sprintf("the files of %s: %v", action, err)
				}
				return ""
			}
		}
		return "there is no Job of " + action
	})
	return found
}

func filesOf(job *batchv1.Job) types.NamespacedName {
	return types.NamespacedName{Namespace: job.Namespace, Name: job.Spec.Template.Spec.Volumes[0].Secret.SecretName}
}

// runContainer runs the command of a container on this machine, with other directories in place of
// the container's, and returns what it printed and answered.
func (w *hookWorld) runContainer(t *testing.T, pod *corev1.Pod) (printed, answer string) {
	t.Helper()
	c, dir := pod.Spec.Containers[0], t.TempDir()
	var files corev1.Secret
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Spec.Volumes[0].Secret.SecretName}
	if err := w.client.Get(t.Context(), name, &files); err != nil {
		t.Fatal(err)
	}
	for name, content := range files.Data {
		write(t, dir, name, string(content))
	}
	log := write(t, dir, "answer", "")
	there := strings.NewReplacer(termination, log, c.VolumeMounts[0].MountPath+"/", dir+"/")
	var args []string
	for _, arg := range c.Command[1:] {
		args = append(args, there.Replace(arg))
	}
	cmd := exec.CommandContext(t.Context(), c.Command[0], args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, v := range c.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+there.Replace(strings.ReplaceAll(v.Value, "$$", "$")))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the script of %s: %v\n%s", pod.Annotations["grapnel.dev/action"], err, out)
	}
	said, err := os.ReadFile(filepath.Clean(log))
	if err != nil {
		t.Fatal(err)
	}
	return string(out), strings.TrimSpace(string(said))
}
