// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"maps"
	"path"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("The rights of authors: policies", Label("security"), func() {
	It("gives the author of a Backup no further rights", func() {
		t := suite.Spec(GinkgoTB())
		s, jane, _ := meet(t)
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(pair)
		b = outcome(t, s.applyBy(t, jane, b), v1alpha1.RunPhaseCompleted)
		run := runOf(t, b, v1alpha1.HookPreBackup, pair)
		meta := metav1.ObjectMeta{Namespace: s.Name, Name: "evil"}
		ctx := t.Context()
		plugin := world.NewFaultPlugin("evil", pre(v1alpha1.PluginAction{Name: "example.io/evil"}))
		for what, err := range map[string]error{
			"create a Plugin":                jane.Create(ctx, plugin),
			"change a Plugin":                tries(t, jane, &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "story"}}, `{"spec":{"suspend":true}}`),
			"create a HookRun":               jane.Create(ctx, forgedRun(meta, string(b.UID))),
			"change a HookRun":               tries(t, jane, run, `{"metadata":{"labels":{"a":"b"}}}`),
			"create an AsyncOperation":       jane.Create(ctx, forgedOperation(meta, string(b.UID))),
			"create a DeletionRun":           jane.Create(ctx, deletionOf(b)),
			"create a BackupStorageLocation": jane.Create(ctx, s.NewLocation("evil")),
			"create a Job":                   jane.Create(ctx, &batchv1.Job{ObjectMeta: meta}),
			"create a pod":                   jane.Create(ctx, &corev1.Pod{ObjectMeta: meta}),
			"read a Secret":                  jane.Get(ctx, client.ObjectKey{Namespace: s.Name, Name: "credentials"}, &corev1.Secret{}),
			"write the status of her Backup": jane.Status().Patch(ctx, b.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`))),
		} {
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s: want Forbidden, got %v", what, err)
			}
		}
	})

	It("does not let the widest role forge the operator's state", func() {
		t := suite.Spec(GinkgoTB())
		s, _, joe := meet(t)
		app := world.CreateApp(t, 1)
		victim := s.NewBackup(app)
		victim.Labels = env.LabelsForActions(pair, preHolds)
		s.apply(t, victim)
		awaitCall(t, victim, v1alpha1.HookPreBackup, preHolds)
		tried := forgeRuns(t, joe, victim)
		maps.Copy(tried, forgeBackups(t, joe, s.NewBackup(app)))
		for what, c := range tried {
			if !isRefused(c.err, c.says) {
				t.Errorf("%s: want it to be refused because %q, got %v", what, c.says, c.err)
			}
		}
		owed := runOf(t, victim, v1alpha1.HookPreBackup, preHolds)
		for what, change := range map[string]string{
			"a label of their own": `{"metadata":{"labels":{"example.io/mine":"yes"}}}`,
			"an annotation":        `{"metadata":{"annotations":{"example.io/mine":"yes"}}}`,
		} {
			if err := tries(t, joe, owed, change); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		cancelBackup(t, victim)
	})

	// An administrator may label the HookRun of a Backup as one of another.
	It("passes outputs only within a Backup", func() {
		t := suite.Spec(GinkgoTB())
		s, jane, _ := meet(t)
		app := world.CreateApp(t, 1)
		action := own(t, "tells")
		install(t, world.NewFaultPlugin(path.Base(action), both(v1alpha1.PluginAction{Name: action}), "FAULT_CALL=PostBackup=outputs"))
		first, release := held(t, v1alpha1.ActionKindPreBackup)
		victim := s.NewBackup(app)
		victim.Labels = env.LabelsForActions(action, first)
		s.apply(t, victim)
		awaitCall(t, victim, v1alpha1.HookPreBackup, first)

		theirs := s.NewBackup(app)
		theirs.Labels = env.LabelsForActions(action)
		parameter(theirs, action, "fault", "outputs")
		theirs = outcome(t, s.applyBy(t, jane, theirs), v1alpha1.RunPhaseCompleted)
		forged := runOf(t, theirs, v1alpha1.HookPreBackup, action)
		world.Patch(t, forged, `{"metadata":{"labels":{"grapnel.dev/parent-uid":"`+string(victim.UID)+`"}}}`)
		release()
		victim = outcome(t, victim, v1alpha1.RunPhaseCompleted)
		told := runOf(t, victim, v1alpha1.HookPostBackup, action).Status.Outputs
		if told["from"] == "" || told["pre"] != "" {
			t.Errorf("the PostBackup action was told what another Backup put out: %v", told)
		}
	})
})

// refusal is a request of a user, and why it must be refused.
type refusal struct {
	err  error
	says string
}

// forgeRuns tries to make HookRuns and AsyncOperations of a Backup that runs, and to change them.
func forgeRuns(t testing.TB, joe client.Client, victim *v1alpha1.Backup) map[string]refusal {
	t.Helper()
	ctx, uid := t.Context(), string(victim.UID)
	meta := metav1.ObjectMeta{
		Namespace: victim.Namespace, Name: "forged", Labels: map[string]string{v1alpha1.LabelParentUID: uid, v1alpha1.LabelHook: "PreBackup"},
	}
	pre, post := runOf(t, victim, v1alpha1.HookPreBackup, preHolds), runOf(t, victim, v1alpha1.HookPostBackup, preHolds)
	change := func(run *v1alpha1.HookRun, change string) error { return tries(t, joe, run, change) }
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Completed"}}`))
	const label = "only the operator changes labels of grapnel.dev"
	return map[string]refusal{
		"a HookRun":                  {joe.Create(ctx, forgedRun(meta, uid)), "only the operator creates HookRuns"},
		"an operation":               {joe.Create(ctx, forgedOperation(meta, uid)), "only the operator creates AsyncOperations"},
		"other parameters":           {change(pre, `{"spec":{"parameters":{"fault":"error"}}}`), "only desiredState and intervention can be changed"},
		"another Plugin":             {change(pre, `{"spec":{"pluginRef":{"name":"example"}}}`), "only desiredState and intervention can be changed"},
		"an end of what is owed":     {change(post, `{"spec":{"desiredState":"Cancel"}}`), "which cannot be canceled"},
		"a HookRun of another":       {change(pre, `{"metadata":{"labels":{"grapnel.dev/parent-uid":"other"}}}`), label},
		"a HookRun of none":          {change(post, `{"metadata":{"labels":{"grapnel.dev/parent-uid":null}}}`), label},
		"a HookRun of another point": {change(post, `{"metadata":{"labels":{"grapnel.dev/hook":"PreBackup"}}}`), label},
		"no labels at all":           {change(post, `{"metadata":{"labels":null}}`), label},
		"no finalizers":              {change(post, `{"metadata":{"finalizers":null}}`), "only the operator changes finalizers"},
		"the end of a HookRun":       {joe.Delete(ctx, post.DeepCopy()), "only the operator removes HookRuns"},
		"a status":                   {joe.Status().Patch(ctx, pre.DeepCopy(), status), "only the operator writes the status"},
	}
}

// forgeBackups tries to make Backups that the operator takes for its own.
func forgeBackups(t testing.TB, joe client.Client, planted *v1alpha1.Backup) map[string]refusal {
	t.Helper()
	planted.Labels = map[string]string{v1alpha1.LabelScheduleName: "nightly"}
	theirs := env.Create(t, joe, &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: planted.Namespace, GenerateName: "story-"},
		Spec:       v1alpha1.BackupSpec{ImportedFrom: &v1alpha1.ImportSource{StorageLocation: env.DefaultLocation}},
	})
	change := func(change string) error { return tries(t, joe, theirs, change) }
	return map[string]refusal{
		"a Backup of a Schedule":             {joe.Create(t.Context(), planted), "only the operator sets the label grapnel.dev/schedule-name"},
		"a Backup of a Schedule, afterwards": {change(`{"metadata":{"labels":{"grapnel.dev/schedule-name":"nightly"}}}`), "grapnel.dev/schedule-name"},
		"the time of a Schedule":             {change(`{"metadata":{"annotations":{"grapnel.dev/scheduled-time":"2026-01-02T03:00:00Z"}}}`), "only the operator sets"},
		"what keeps Restores away":           {change(`{"metadata":{"annotations":{"grapnel.dev/deleted-by":"uid"}}}`), "only the operator sets"},
		"data of others that go with it":     {change(`{"spec":{"deletionPolicy":"Delete"}}`), "not destroyed with its object"},
	}
}
