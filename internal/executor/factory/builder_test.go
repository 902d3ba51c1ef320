// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
)

const (
	preBackup   = v1alpha1.ActionKindPreBackup
	postBackup  = v1alpha1.ActionKindPostBackup
	preRestore  = v1alpha1.ActionKindPreRestore
	postRestore = v1alpha1.ActionKindPostRestore
	deletion    = v1alpha1.ActionKindDelete
)

func aJob() v1alpha1.Executor {
	return v1alpha1.Executor{Job: &v1alpha1.JobExecutor{Image: "i"}}
}

func aPodExec() v1alpha1.Executor {
	return v1alpha1.Executor{PodExec: &v1alpha1.PodExecExecutor{
		Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Command: []string{"/bin/freeze"}, Parallel: 1,
	}}
}

func aWebhook(url string) v1alpha1.Executor {
	return v1alpha1.Executor{Webhook: &v1alpha1.WebhookExecutor{URL: url}}
}

func aQuiesce() v1alpha1.Executor {
	return v1alpha1.Executor{Builtin: &v1alpha1.BuiltinExecutor{Quiesce: &v1alpha1.QuiesceExecutor{}}}
}

func TestBuild_ActionKinds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		of    v1alpha1.Executor
		kinds []v1alpha1.ActionKind
	}{
		"job":     {aJob(), []v1alpha1.ActionKind{preBackup, postBackup, preRestore, postRestore, deletion}},
		"podExec": {aPodExec(), []v1alpha1.ActionKind{preBackup, postBackup, preRestore, postRestore, deletion}},
		"webhook": {aWebhook("https://a"), []v1alpha1.ActionKind{preBackup, postBackup, preRestore, postRestore, deletion}},
		"quiesce": {aQuiesce(), []v1alpha1.ActionKind{preBackup, postBackup, preRestore, postRestore}},
		"hooks":   {veleroHooks().Spec.Executor, []v1alpha1.ActionKind{preBackup, postBackup, postRestore}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			built, err := w.Build(pluginOf(tc.of, tc.kinds...))
			if err != nil || len(built.Executors) != len(tc.kinds) {
				t.Fatalf("got %+v, %v", built, err)
			}
			if goesOn := built.Resumable != nil; goesOn != (name == "job") {
				t.Errorf("the next operator can stop its calls: %t", goesOn)
			}
			for _, kind := range tc.kinds {
				if built.Executors[catalog.ActionID{Kind: string(kind), Name: "freeze"}] == nil {
					t.Errorf("there is no %s", kind)
				}
			}
		})
	}
}

func TestBuild_ProcessAndGRPC(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, of := range map[string]v1alpha1.Executor{
		"process": {Process: &v1alpha1.ProcessExecutor{Command: "p"}},
		"grpc":    {GRPC: &v1alpha1.GRPCExecutor{Address: "unix:///p"}},
	} {
		if built, err := w.Build(pluginOf(of, preBackup)); built != nil || err != nil {
			t.Errorf("%s: got %+v, %v", name, built, err)
		}
	}
}

// TestJsonDigest: the digest changes only with the behavior of the executors, because a new digest
// replaces the actions.
func TestJsonDigest(t *testing.T) {
	t.Parallel()
	digest := func(edit func(*v1alpha1.Plugin)) string {
		plugin := pluginOf(aJob(), preBackup)
		edit(plugin)
		built, err := newWorld(t).Build(plugin)
		if err != nil {
			t.Fatal(err)
		}
		return built.Digest
	}
	same := digest(func(*v1alpha1.Plugin) {})
	for name, edit := range map[string]func(*v1alpha1.Plugin){
		"status": func(p *v1alpha1.Plugin) { p.Status.Message = "x" },
		"labels": func(p *v1alpha1.Plugin) { p.Labels = map[string]string{"a": "b"} },
	} {
		if digest(edit) != same {
			t.Errorf("%s: another digest", name)
		}
	}
	for name, edit := range map[string]func(*v1alpha1.Plugin){
		"image":   func(p *v1alpha1.Plugin) { p.Spec.Executor.Job.Image = "other" },
		"command": func(p *v1alpha1.Plugin) { p.Spec.Actions[0].Command = []string{"x"} },
		"timeout": func(p *v1alpha1.Plugin) { p.Spec.Executor.Job.StartTimeout = &metav1.Duration{Duration: time.Second} },
		"action":  func(p *v1alpha1.Plugin) { p.Spec.Actions[0].Name = "thaw" },
	} {
		if digest(edit) == same {
			t.Errorf("%s: the same digest", name)
		}
	}
}

// TestBuild_InvalidPlugins covers Plugins that the API server accepts.
func TestBuild_InvalidPlugins(t *testing.T) {
	t.Parallel()
	job := func(edit func(*v1alpha1.JobExecutor)) v1alpha1.Executor {
		e := aJob()
		edit(e.Job)
		return e
	}
	podExec := func(edit func(*v1alpha1.PodExecExecutor)) v1alpha1.Executor {
		e := aPodExec()
		edit(e.PodExec)
		return e
	}
	webhook := func(edit func(*v1alpha1.WebhookExecutor)) v1alpha1.Executor {
		e := aWebhook("https://hooks.example")
		edit(e.Webhook)
		return e
	}
	unknown := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	for name, tc := range map[string]struct {
		of   v1alpha1.Executor
		kind v1alpha1.ActionKind
		want string
	}{
		"a parameter in a command": {
			of:   job(func(e *v1alpha1.JobExecutor) { e.Command = []string{"sh", "-c", "dump $(GRAPNEL_PARAM_DB)"} }),
			want: "parameters are data and do not become part of a command",
		},
		"a variable of ours": {
			of: job(func(e *v1alpha1.JobExecutor) {
				e.Env = []v1alpha1.JobEnvVar{{EnvVar: v1alpha1.EnvVar{Name: "grapnel_key"}}}
			}),
			want: "the variable grapnel_key is not allowed: names that begin with GRAPNEL_ are Grapnel's",
		},
		"a reference to ours": {
			of: job(func(e *v1alpha1.JobExecutor) {
				e.Env = []v1alpha1.JobEnvVar{{EnvVar: v1alpha1.EnvVar{Name: "A", Value: "$(GRAPNEL_PARAM_X)"}}}
			}),
			want: "the variable A refers to a variable of Grapnel",
		},
		"every pod": {
			of:   podExec(func(e *v1alpha1.PodExecExecutor) { e.Selector = metav1.LabelSelector{} }),
			want: "podExec has no selector: set one that matches the pods for the command",
		},
		"unknown operator": {
			of:   podExec(func(e *v1alpha1.PodExecExecutor) { e.Selector = unknown }),
			want: `the selector of pods: "Near" is not a valid label selector operator`,
		},
		"no command": {
			of:   podExec(func(e *v1alpha1.PodExecExecutor) { e.Command = []string{""} }),
			want: "podExec has no command: set the program and its arguments",
		},
		"credentials in the URL": {
			of:   webhook(func(e *v1alpha1.WebhookExecutor) { e.URL = "https://bob:hunter22@hooks.example" }),
			want: "url must not contain credentials: put them into a Secret",
		},
		"a query": {
			of:   webhook(func(e *v1alpha1.WebhookExecutor) { e.URL += "/?token=hunter22" }),
			want: "url must not have a query or a fragment",
		},
		"the metadata service": {
			of:   webhook(func(e *v1alpha1.WebhookExecutor) { e.URL = "https://169.254.169.254/latest" }),
			want: "url: the address 169.254.169.254 is not called: it belongs to the metadata service of a cloud",
		},
		"the operator": {
			of:   webhook(func(e *v1alpha1.WebhookExecutor) { e.URL = "https://[::1]:8443" }),
			want: "url: the address ::1 is not called: it is a loopback address",
		},
		"no authority": {
			of:   webhook(func(e *v1alpha1.WebhookExecutor) { e.TLS = &v1alpha1.TLSClient{CABundle: []byte("ca")} }),
			want: "caBundle contains no certificate in PEM",
		},
		"no name": {
			of:   webhook(func(e *v1alpha1.WebhookExecutor) { e.TLS = &v1alpha1.TLSClient{ServerName: "a b"} }),
			want: "tls.serverName must be a host name",
		},
		"no network": {
			of:   webhook(func(e *v1alpha1.WebhookExecutor) { e.AllowCIDRs = []string{"10.0.0.1"} }),
			want: `allowCIDRs: "10.0.0.1" is not a network: write it like`,
		},
		"nothing to quiesce when a backup is deleted": {of: aQuiesce(), kind: deletion, want: "quiesce has no DeleteAction"},
		"commands before a backup alone":              {of: veleroHooks().Spec.Executor, kind: preBackup, want: "veleroHooks needs a PostBackupAction of the same name"},
		"commands before a restore":                   {of: veleroHooks().Spec.Executor, kind: preRestore, want: "veleroHooks has no PreRestoreAction"},
		"unknown operator, quiesce": {
			of:   v1alpha1.Executor{Builtin: &v1alpha1.BuiltinExecutor{Quiesce: &v1alpha1.QuiesceExecutor{Selector: &unknown}}},
			want: "the selector of workloads: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := preBackup
			if tc.kind != "" {
				kind = tc.kind
			}
			built, err := newWorld(t).Build(pluginOf(tc.of, kind))
			prefix := "action " + string(kind) + "(freeze): "
			if built != nil || err == nil || !strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %+v, %v\nwant %s%s", built, err, prefix, tc.want)
			}
			if strings.Contains(err.Error(), "hunter22") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is %q", err)
			}
		})
	}
}

// TestBuild_InvalidPath: the error names the action, because the others are valid.
func TestBuild_InvalidPath(t *testing.T) {
	t.Parallel()
	plugin := pluginOf(aWebhook("https://hooks.example"), preBackup, postBackup)
	plugin.Spec.Actions[1].Path = "/../thaw"
	_, err := newWorld(t).Build(plugin)
	const want = "action PostBackupAction(freeze): path must not have the path segments '.' and '..'"
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}
