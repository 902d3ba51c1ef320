// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

const (
	// deployments is how many an application has; to stop them takes some time.
	deployments = 15
	// configMaps is how many ConfigMaps an application has.
	configMaps = 5
	// mostRuns is how many runs there are at a time.
	mostRuns = 10
)

// newApp makes a namespace with an application of several workloads.
func newApp(t testing.TB) string {
	t.Helper()
	namespace := world.CreateApp(t, configMaps)
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/web"}},
		},
	}
	for i := range deployments {
		own := template.DeepCopy()
		own.Labels = map[string]string{"app": fmt.Sprint("web-", i)}
		env.Create(t, world.Client, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("web-", i)},
			Spec:       appsv1.DeploymentSpec{Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: own.Labels}, Template: *own},
		})
	}
	env.Create(t, world.Client, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template, ServiceName: "data",
		},
	})
	job := template.DeepCopy()
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	env.Create(t, world.Client, &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "yearly"},
		Spec:       batchv1.CronJobSpec{Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: *job}}},
	})
	return namespace
}

// The labels of runs that ask for the actions of the pair's Plugins.
const labelUse = "chaos.example.io/use-"

// newPlugins makes a Plugin that stops applications, and one with pairs of actions whose
// calls are kept in a file.
func newPlugins(t testing.TB, namespace, calls string) {
	t.Helper()
	use := func(what string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{labelUse + what: namespace}}
	}
	quiesce := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-quiesce"}}
	quiesce.Spec.Executor.Builtin = &v1alpha1.BuiltinExecutor{Quiesce: &v1alpha1.QuiesceExecutor{}}
	for _, kind := range []v1alpha1.ActionKind{v1alpha1.ActionKindPreBackup, v1alpha1.ActionKindPostBackup} {
		quiesce.Spec.Actions = append(quiesce.Spec.Actions, v1alpha1.PluginAction{
			Kind: kind, Name: namespace + ".example.io/quiesce", Order: 100, Selector: use("quiesce"), Retries: 2,
			Timeout: &metav1.Duration{Duration: time.Minute},
		})
	}
	var actions []v1alpha1.PluginAction
	for _, kind := range []v1alpha1.ActionKind{
		v1alpha1.ActionKindPreBackup, v1alpha1.ActionKindPostBackup, v1alpha1.ActionKindPreRestore, v1alpha1.ActionKindPostRestore,
	} {
		actions = append(actions, v1alpha1.PluginAction{Kind: kind, Name: namespace + ".example.io/freeze", Selector: use("freeze"), Retries: 2})
	}
	freeze := world.NewFaultPlugin(namespace+"-freeze", actions, "FAULT_CALL_LOG="+calls, "FAULT_CALL=PreBackup=sleep:400ms,PostBackup=sleep:50ms")
	for _, plugin := range []*v1alpha1.Plugin{quiesce, freeze} {
		env.Create(t, world.Client, plugin)
		t.Cleanup(func() {
			ctx := context.WithoutCancel(t.Context())
			// The operators that held it have ended.
			if err := errors.Join(world.Client.Patch(ctx, plugin, withoutFinalizers()), world.Client.Delete(ctx, plugin)); err != nil {
				t.Error(err)
			}
		})
	}
}

// load creates, cancels and deletes runs, some of them by force. It continues when it is refused.
type load struct {
	random    *rand.Rand
	journal   *journal
	namespace string
	apps      []string
	// name begins the names of what it creates.
	name string
	made int
}

// run works until the context ends.
func (l *load) run(ctx context.Context) {
	for ctx.Err() == nil {
		what, pause := l.random.IntN(100), time.Duration(200+l.random.IntN(900))*time.Millisecond
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		if problem := errors.Join(l.touch(one), l.act(one, what)); problem != nil && ctx.Err() == nil {
			l.journal.note("load: %v", problem)
		}
		cancel()
		wait(ctx, pause)
	}
}

// touch changes an object of each application, as applications do. Two archives of one
// backup have the same bytes otherwise.
func (l *load) touch(ctx context.Context) error {
	for _, app := range l.apps {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "c0"}}
		now := fmt.Appendf(nil, `{"metadata":{"annotations":{"chaos.example.io/touched":"%d"}}}`, time.Now().UnixNano())
		if err := world.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, now)); err != nil {
			return err
		}
	}
	return nil
}

func (l *load) act(ctx context.Context, what int) error {
	var backups v1alpha1.BackupList
	var restores v1alpha1.RestoreList
	for _, list := range []client.ObjectList{&backups, &restores} {
		if err := world.Client.List(ctx, list, client.InNamespace(l.namespace)); err != nil {
			return err
		}
	}
	var going []client.Object
	var completed []string
	for i := range backups.Items {
		switch b := &backups.Items[i]; {
		case b.Status.CompletionTimestamp == nil:
			going = append(going, b)
		case b.Status.Phase == v1alpha1.RunPhaseCompleted:
			completed = append(completed, b.Name)
		}
	}
	for i := range restores.Items {
		if r := &restores.Items[i]; r.Status.CompletionTimestamp == nil {
			going = append(going, r)
		}
	}
	switch {
	case what < 50 || len(completed) == 0:
		if len(going) >= mostRuns {
			return nil
		}
		return l.create(ctx, l.newBackup())
	case what < 65:
		return l.create(ctx, l.newRestore(completed[l.random.IntN(len(completed))]))
	case what < 75:
		l.made++
		return l.create(ctx, &v1alpha1.DeletionRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: fmt.Sprintf("%s-d%d", l.name, l.made)},
			Spec:       v1alpha1.DeletionRunSpec{BackupName: completed[l.random.IntN(len(completed))]},
		})
	}
	going = slices.DeleteFunc(going, l.isSpared)
	switch {
	case len(going) == 0:
		return nil
	case what < 90:
		run := going[l.random.IntN(len(going))]
		l.journal.note("load: cancel %s", run.GetName())
		return world.Client.Patch(ctx, run, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"desiredState":"Cancel"}}`)))
	default:
		run := going[l.random.IntN(len(going))]
		l.journal.note("load: delete %s", run.GetName())
		if err := world.Client.Delete(ctx, run); err != nil || what < 97 {
			return err
		}
		l.journal.note("load: remove the finalizers of %s", run.GetName())
		return client.IgnoreNotFound(world.Client.Patch(ctx, run, withoutFinalizers()))
	}
}

// isSpared reports whether a run is one of the first of this round. They are not canceled or
// deleted: what becomes of a run that is disturbed first, and of what arrives late of it, is
// seen only if it may complete.
func (l *load) isSpared(run client.Object) bool {
	n, ok := strings.CutPrefix(run.GetName(), l.name+"-b")
	return ok && len(n) == 1 && n <= "3"
}

func withoutFinalizers() client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
}

func (l *load) create(ctx context.Context, object client.Object) error {
	l.journal.note("load: create %T %s", object, object.GetName())
	return world.Client.Create(ctx, object)
}

// newBackup returns a Backup of one application or of all, with some of the actions.
func (l *load) newBackup() *v1alpha1.Backup {
	l.made++
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: fmt.Sprintf("%s-b%d", l.name, l.made), Labels: map[string]string{}}}
	apps := l.apps
	if l.random.IntN(3) > 0 {
		one := l.random.IntN(len(apps))
		apps = apps[one : one+1]
	}
	for _, app := range apps {
		b.Spec.IncludedNamespaces = append(b.Spec.IncludedNamespaces, v1alpha1.NamePattern(app))
	}
	b.Spec.IncludedResources = []v1alpha1.NamePattern{"configmaps", "deployments"}
	if l.random.IntN(4) > 0 {
		b.Labels[labelUse+"quiesce"] = l.namespace
	}
	if l.random.IntN(2) > 0 {
		b.Labels[labelUse+"freeze"] = l.namespace
	}
	return b
}

// newRestore returns a Restore of the ConfigMaps of a backup into namespaces of its own.
func (l *load) newRestore(backup string) *v1alpha1.Restore {
	l.made++
	r := newRestore(l.namespace, fmt.Sprintf("%s-r%d", l.name, l.made), backup, l.apps)
	r.Labels = map[string]string{labelUse + "freeze": l.namespace}
	return r
}

func newRestore(namespace, name, backup string, apps []string) *v1alpha1.Restore {
	r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	r.Spec.BackupName = backup
	r.Spec.IncludedResources = []v1alpha1.NamePattern{"configmaps"}
	r.Spec.NamespaceMapping = map[string]v1alpha1.NamespaceName{}
	for _, app := range apps {
		r.Spec.NamespaceMapping[app] = v1alpha1.NamespaceName(restored(app, name))
	}
	return r
}

// restored is the namespace into which a Restore restores an application.
func restored(app, restore string) string { return app + "-" + restore }

// callsFile is where the calls of a pair's actions are kept.
func callsFile(namespace string) string { return filepath.Join(world.Dir, namespace+"-calls.jsonl") }
