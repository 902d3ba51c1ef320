// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

func TestExecute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.run()
		w.pod(w.job(), corev1.PodStatus{Phase: corev1.PodPending})
		x.goesOn(t)
		w.become(w.job(), running())
		x.goesOn(t)
		// The pod continues: another container was injected into it.
		w.become(w.job(), exited(0, `{"message":"3 databases\npassword=hunter22","outputs":{"lsn":"0/16"}}`))
		<-x.done
		want := executor.Answer{Message: "3 databases password=[REDACTED]", Outputs: map[string]string{"lsn": "0/16"}}
		if x.err != nil || !reflect.DeepEqual(x.answer, want) {
			t.Errorf("it returned %+v, %v; want %+v", x.answer, x.err, want)
		}
		w.recorded(call())
	})
}

// TestExecute_RetryAfter covers an action that is not done: the next Job has the same name, and files of
// its own.
func TestExecute_RetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.run()
		first := w.job()
		w.pod(first, exited(0, `{"retryAfterSeconds":30}`))
		<-x.done
		if x.err != nil || x.answer.RetryAfter != 30*time.Second {
			t.Fatalf("it returned %+v, %v", x.answer, x.err)
		}
		w.nothingLeft() // it is called again, whether that is recorded or not
		w.created = nil
		x = w.run()
		if w.job().Name != first.Name || w.job().UID == first.UID || filesSecretName(w.job()) == filesSecretName(first) {
			t.Errorf("the second Job is %s %s, the first was %s %s", w.job().Name, w.job().UID, first.Name, first.UID)
		}
		w.pod(w.job(), exited(0, "done"))
		<-x.done
		if x.err != nil || x.answer.Message != "done" {
			t.Errorf("it returned %+v, %v", x.answer, x.err)
		}
		w.recorded(call())
	})
}

func TestExecute_JobSpec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		options := w.options()
		options.Command, options.Args = []string{"freeze"}, []string{"--all"}
		options.PullPolicy = corev1.PullAlways
		options.PullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
		options.NodeSelector = map[string]string{"disk": "fast"}
		options.Tolerations = []corev1.Toleration{{Key: "k"}}
		options.Labels = map[string]string{"team": "dba", LabelKey: "mine"}
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		x := w.execute(ctx, options, call())
		job := w.job()
		spec, pod := job.Spec, job.Spec.Template.Spec
		c := pod.Containers[0]
		for what, ok := range map[string]bool{
			"name":         strings.HasPrefix(job.Name, "grapnel-example-io-freeze-") && len(job.Name) <= maxJobNameLength,
			"labels":       job.Labels["team"] == "dba" && job.Labels[LabelKey] == "0d1e-uid" && job.Labels[LabelAttempt] == "1" && job.Labels[LabelPlugin] == "freezer",
			"pod's labels": reflect.DeepEqual(spec.Template.Labels, job.Labels),
			"one start":    *spec.BackoffLimit == 0 && *spec.Parallelism == 1 && *spec.Completions == 1 && pod.RestartPolicy == corev1.RestartPolicyNever,
			"replacement":  *spec.PodReplacementPolicy == batchv1.Failed,
			"deadline":     *spec.ActiveDeadlineSeconds == 120,
			"last resort":  *spec.TTLSecondsAfterFinished == 24*60*60,
			"no token":     pod.ServiceAccountName == "" && !*pod.AutomountServiceAccountToken,
			"no services":  !*pod.EnableServiceLinks,
			"pod security": *pod.SecurityContext.RunAsNonRoot && pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
			"security": *c.SecurityContext.RunAsNonRoot && !*c.SecurityContext.AllowPrivilegeEscalation && !*c.SecurityContext.Privileged &&
				reflect.DeepEqual(c.SecurityContext.Capabilities, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}),
			"image":   c.Image == options.Image && c.ImagePullPolicy == corev1.PullAlways && reflect.DeepEqual(pod.ImagePullSecrets, options.PullSecrets),
			"command": reflect.DeepEqual(c.Command, options.Command) && reflect.DeepEqual(c.Args, options.Args),
			"place":   reflect.DeepEqual(pod.NodeSelector, options.NodeSelector) && reflect.DeepEqual(pod.Tolerations, options.Tolerations),
			"files":   c.VolumeMounts[0].MountPath == "/grapnel" && c.VolumeMounts[0].ReadOnly && strings.HasPrefix(pod.Volumes[0].Secret.SecretName, job.Name+"-"),
		} {
			if !ok {
				t.Errorf("%s is wrong in %+v", what, job)
			}
		}
		w.pod(job, exited(0, ""))
		<-x.done
	})
}

func TestNewPodSpec_Security(t *testing.T) {
	t.Parallel()
	user := int64(1000)
	options := Options{
		ServiceAccountName: "freezer",
		PodSecurityContext: &corev1.PodSecurityContext{RunAsUser: &user},
		SecurityContext:    &corev1.SecurityContext{RunAsUser: &user},
	}
	pod := options.newPodSpec("files", nil)
	if pod.ServiceAccountName != "freezer" || !*pod.AutomountServiceAccountToken {
		t.Errorf("the account is %q, its token is mounted: %v", pod.ServiceAccountName, *pod.AutomountServiceAccountToken)
	}
	given := (&Options{RunAsUser: &user}).newPodSpec("files", nil).Containers[0].SecurityContext
	if *given.RunAsUser != user || !*given.RunAsNonRoot {
		t.Errorf("with a user it is %+v", given)
	}
	if pod.SecurityContext != options.PodSecurityContext || pod.Containers[0].SecurityContext != options.SecurityContext {
		t.Error("the security context is not the one that was given")
	}
}

func TestNewJob_Names(t *testing.T) {
	t.Parallel()
	names, files := map[string]bool{}, map[string]bool{}
	for _, key := range []string{"a", "b"} {
		for attempt := range int32(3) {
			c := call()
			c.Key, c.Attempt = key, attempt+1
			job := (&Options{}).newJob(t.Context(), c, nil)
			names[job.Name], files[filesSecretName(job)] = true, true
		}
	}
	if len(names) != 2 || len(files) != 6 || files[""] {
		t.Errorf("the names for 6 attempts of 2 keys are %v, those of their files %v", names, files)
	}
	if name := filesSecretName(&batchv1.Job{}); name != "" {
		t.Errorf("a Job without files has the files %q", name)
	}
	if got := keyLabelValue(strings.Repeat("x/", 60)); len(got) > 63 || strings.Contains(got, "/") {
		t.Errorf("the label of a long key is %q", got)
	}
}

func TestExecute_FilesSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := call()
		c.Outputs = map[string]map[string]string{"a.io/x": {"k": "v"}}
		x := w.execute(t.Context(), w.options(), c)
		var secret corev1.Secret
		w.must(w.client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: filesSecretName(w.job())}, &secret))
		want := map[string]string{fileSubject: `{"kind":"Backup"}`, fileOutputs: `{"a.io/x":{"k":"v"}}`, fileBackupOutputs: `{}`}
		for name, content := range want {
			if got := string(secret.Data[name]); got != content || !json.Valid([]byte(got)) {
				t.Errorf("%s is %q, want %q", name, got, content)
			}
		}
		if owner := metav1.GetControllerOf(&secret); owner == nil || owner.UID != w.job().UID || owner.Kind != "Job" || !*secret.Immutable {
			t.Errorf("the files are owned by %+v, immutable %v", owner, secret.Immutable)
		}
		w.pod(w.job(), exited(0, ""))
		<-x.done
	})
}

func TestExecute_InvalidCalls(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*executor.Call)
		want   string
	}{
		"no key":     {func(c *executor.Call) { c.Key = "" }, "the call has no idempotency key"},
		"no attempt": {func(c *executor.Call) { c.Attempt = 0 }, "the call has attempt number 0, attempts are counted from 1"},
		"collision": {
			func(c *executor.Call) { c.Parameters = map[string]string{"max-lag": "", "max.lag": ""} },
			`the parameters "max-lag" and "max.lag" would both be the variable GRAPNEL_PARAM_MAX_LAG: rename one`,
		},
		"zero byte": {
			func(c *executor.Call) { c.Parameters = map[string]string{"a": "x\x00y"} },
			"the value for GRAPNEL_PARAM_A contains a zero byte, which no environment variable can hold: encode it",
		},
		"large parameters": {
			func(c *executor.Call) { c.Parameters = map[string]string{"a": strings.Repeat("x", 65<<10)} },
			"the parameters are not allowed: 66561 bytes of parameters, at most 65536 are allowed",
		},
		"large subject": {
			func(c *executor.Call) { c.Subject = make([]byte, 1<<20) },
			"the object it runs for and the outputs of earlier actions have 1048580 bytes together, at most 1048576 fit into the files of a Job: make the object smaller",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := call()
				tc.change(&c)
				w.execute(t.Context(), w.options(), c).fails(t, executor.Invalid, tc.want)
				if len(w.created) > 0 {
					t.Error("a Job was created")
				}
			})
		})
	}
}

// TestExecute_RedactedSecret: the container prints a value from a Secret.
func TestExecute_RedactedSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"}, Data: map[string][]byte{"pin": []byte("correcthorse")}}
		w.must(w.client.Create(t.Context(), secret))
		options := w.options()
		ref := corev1.SecretKeySelector{Key: "pin"}
		ref.Name = "db"
		options.Env = []corev1.EnvVar{
			{Name: "PIN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &ref}}, {Name: "DB_PASSWORD", Value: "plainsecret"},
		}
		w.logs.plays = []recording{{text: "2026-01-01T00:00:01Z log has correcthorse and plainsecret\n"}}
		x := w.execute(t.Context(), options, call())
		w.pod(w.job(), exited(2, "it was correcthorse or plainsecret"))
		x.fails(t, executor.Failed, "ended with exit code 2: it was [REDACTED] or [REDACTED]")
		if w.lines.with("log has [REDACTED] and [REDACTED]") != 1 {
			t.Errorf("the log is %q", w.lines.all)
		}
	})
}
