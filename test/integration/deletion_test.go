// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/stage"
)

// deletionOf returns a DeletionRun for a Backup, which is not created.
func deletionOf(b *v1alpha1.Backup) *v1alpha1.DeletionRun {
	return &v1alpha1.DeletionRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, GenerateName: "story-"},
		Spec:       v1alpha1.DeletionRunSpec{BackupName: b.Name},
	}
}

// destroy creates a DeletionRun for a Backup.
func destroy(t *testing.T, b *v1alpha1.Backup) *v1alpha1.DeletionRun {
	t.Helper()
	return stage.Create(t, world.Client, deletionOf(b))
}

// destroyed waits for the end of a DeletionRun and checks its phase, and that its message
// contains some texts.
func destroyed(t *testing.T, d *v1alpha1.DeletionRun, phase v1alpha1.DeletionRunPhase, texts ...string) *v1alpha1.DeletionRun {
	t.Helper()
	d = await(t, d, "it has ended", func(d *v1alpha1.DeletionRun) bool {
		return d.Status.CompletionTimestamp != nil && len(d.Finalizers) == 0
	})
	if d.Status.Phase != phase {
		t.Fatalf("the phase is %s, want %s: %s", d.Status.Phase, phase, d.Status.Message)
	}
	says(t, []string{d.Status.Message}, texts...)
	return d
}

// awaiting waits until a DeletionRun says what it waits for.
func awaiting(t *testing.T, d *v1alpha1.DeletionRun, reason string) *v1alpha1.DeletionRun {
	t.Helper()
	return await(t, d, "it is "+reason, func(d *v1alpha1.DeletionRun) bool {
		return reasonOf(d, v1alpha1.ConditionSucceeded) == reason
	})
}

// stored returns the files of a backup in the default location.
func (s site) stored(t *testing.T, name string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Folder(stage.DefaultLocation), "backups", name, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// gone checks that nothing is left of a Backup.
func (s site) gone(t *testing.T, b *v1alpha1.Backup) {
	t.Helper()
	awaitGone(t, b)
	if files := s.stored(t, b.Name); len(files) > 0 {
		t.Errorf("files are left: %q", files)
	}
}

// deletes declares a DeleteAction for Backups that ask for it.
func deletes(action v1alpha1.PluginAction) v1alpha1.PluginAction {
	action.Kind, action.Selector = v1alpha1.ActionKindDelete, stage.ForUsers(action.Name)
	return action
}

func TestABackupIsDestroyed(t *testing.T) {
	t.Parallel()
	s := site{world.Shared(t)}
	b := outcome(t, stage.Create(t, world.Client, s.BackupOf(world.NewApp(t, 3))), v1alpha1.BackupPhaseCompleted)
	if len(s.stored(t, b.Name)) == 0 {
		t.Fatal("nothing is stored")
	}
	d := deletionOf(b)
	d.Spec.TTL = &metav1.Duration{Duration: time.Second}
	stage.Create(t, world.Client, d)
	destroyed(t, d, v1alpha1.DeletionRunPhaseCompleted, "Backup "+b.Name+" is destroyed")
	s.gone(t, b)
	awaitEvent(t, d, "Normal Completed: Backup "+b.Name+" is destroyed")
	awaitGone(t, d) // after its ttl
}

// TestDeleteActionsRun has three of them, of which the first fails, and another one that the
// Backup does not concern.
func TestDeleteActionsRun(t *testing.T) {
	t.Parallel()
	s := site{world.Shared(t)}
	a, z, other := own(t, "a-fails"), own(t, "z-works"), own(t, "other")
	install(t, world.FaultPlugin(filepath.Base(a), []v1alpha1.PluginAction{
		deletes(v1alpha1.PluginAction{Name: z}), deletes(v1alpha1.PluginAction{Name: a}), deletes(v1alpha1.PluginAction{Name: other}),
	}, "FAULT_SELECTOR=tier=gold"))
	b := s.BackupOf(world.NewApp(t, 1))
	b.Labels = stage.Use(a, z)
	b.Labels["tier"] = "gold"
	parameter(b, a, "fault", "fail")
	b = outcome(t, stage.Create(t, world.Client, b), v1alpha1.BackupPhaseCompleted)
	d := destroyed(t, destroy(t, b), v1alpha1.DeletionRunPhasePartiallyFailed, "Backup "+b.Name+" is destroyed, and one thing is left behind", a)
	s.gone(t, b)
	// The example plugin has one that concerns every Backup.
	stage.Equal(t, "the actions", stage.Statuses(d.Status.DeleteActionsStatuses), []string{exampleCopy + " Completed", a + " Failed", z + " Completed"})
	stage.Equal(t, "the calls", deleteCalls(t, d), []string{"Delete " + a + " #1", "Delete " + a + " #2", "Delete " + a + " #3", "Delete " + z + " #1"})
	awaitEvent(t, d, "Warning PartiallyFailed: ")
}

// deleteCalls returns the calls of DeleteActions for a DeletionRun.
func deleteCalls(t *testing.T, d *v1alpha1.DeletionRun) []string {
	t.Helper()
	var keys []string
	for _, run := range all[*v1alpha1.HookRun](world.watched) {
		if run.Spec.Subject.UID == string(d.UID) {
			keys = append(keys, string(run.UID))
		}
	}
	return world.Calls(t, func(key string) bool { return slices.Contains(keys, key) })
}

// TestDeleteActionsChoose has an action that says itself which Backups concern it.
func TestDeleteActionsChoose(t *testing.T) {
	t.Parallel()
	s := site{world.Shared(t)}
	for name, tc := range map[string]struct {
		selector string
		phase    v1alpha1.DeletionRunPhase
		called   int
		text     string
	}{
		"it concerns others": {"tier=silver", v1alpha1.DeletionRunPhaseCompleted, 0, "is destroyed"},
		"it concerns all":    {"", v1alpha1.DeletionRunPhaseCompleted, 1, "is destroyed"},
		"it does not know":   {"fault:panic", v1alpha1.DeletionRunPhasePartiallyFailed, 0, "could not say whether the backup concerns it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			action := own(t, "chooses")
			install(t, world.FaultPlugin(filepath.Base(action), []v1alpha1.PluginAction{deletes(v1alpha1.PluginAction{Name: action})}, "FAULT_SELECTOR="+tc.selector))
			b := s.BackupOf(world.NewApp(t, 1))
			b.Labels = stage.Use(action)
			b = outcome(t, stage.Create(t, world.Client, b), v1alpha1.BackupPhaseCompleted)
			d := destroyed(t, destroy(t, b), tc.phase, tc.text)
			s.gone(t, b)
			if calls := deleteCalls(t, d); len(calls) != tc.called {
				t.Errorf("the calls are %q", calls)
			}
		})
	}
}

func TestDeleteItemActionsRun(t *testing.T) {
	t.Parallel()
	s := site{world.Shared(t)}
	action := own(t, "cleans")
	cleaned := filepath.Join(t.TempDir(), "cleaned")
	install(t, world.FaultPlugin(filepath.Base(action), []v1alpha1.PluginAction{
		{Name: action, Kind: v1alpha1.ActionKindDeleteItem, Selector: stage.ForUsers(action)},
	}, "FAULT_CLEANED="+cleaned))
	app := world.NewApp(t, 2)
	bad := stage.ConfigMap(app, 7)
	bad.Annotations = map[string]string{"fault.example.io/clean": "error:the snapshot is locked"}
	stage.Create(t, world.Client, bad)
	b := s.BackupOf(app)
	b.Labels = stage.Use(action)
	b = outcome(t, stage.Create(t, world.Client, b), v1alpha1.BackupPhaseCompleted)
	d := destroyed(t, destroy(t, b), v1alpha1.DeletionRunPhasePartiallyFailed, "the snapshot is locked", app+"/c7")
	s.gone(t, b)
	content, err := os.ReadFile(cleaned)
	if err != nil {
		t.Fatal(err)
	}
	line := func(name string) string { return action + " " + app + "/" + name }
	got := strings.Split(strings.TrimSpace(string(content)), "\n")
	got = slices.DeleteFunc(got, func(l string) bool { return strings.HasSuffix(l, "/kube-root-ca.crt") })
	stage.Equal(t, "what was shown", got, []string{line("c0"), line("c1"), line("c7"), line("c7"), line("c7")})
	did := slices.DeleteFunc(d.Status.DeleteItemActions, func(did v1alpha1.DeletionItemAction) bool { return did.PluginName != action })
	if len(did) != 1 || did[0].Failed != 1 || did[0].Items < 2 {
		t.Errorf("the actions are told as %+v", d.Status.DeleteItemActions)
	}
}

// TestTwoDeletionRuns has the work done once.
func TestTwoDeletionRuns(t *testing.T) {
	t.Parallel()
	s := site{world.Shared(t)}
	action := own(t, "once")
	install(t, world.FaultPlugin(filepath.Base(action), []v1alpha1.PluginAction{deletes(v1alpha1.PluginAction{Name: action})}))
	b := s.BackupOf(world.NewApp(t, 1))
	b.Labels = stage.Use(action)
	parameter(b, action, "sleep", "500ms")
	b = outcome(t, stage.Create(t, world.Client, b), v1alpha1.BackupPhaseCompleted)
	var runs []*v1alpha1.DeletionRun
	for range 3 {
		runs = append(runs, destroy(t, b))
	}
	calls, others := 0, 0
	for _, d := range runs {
		d = destroyed(t, d, v1alpha1.DeletionRunPhaseCompleted)
		calls += len(deleteCalls(t, d))
		if strings.Contains(d.Status.Message, "destroyed it") || strings.Contains(d.Status.Message, "gone already") {
			others++
		}
	}
	if calls != 1 || others != 2 {
		t.Errorf("%d calls, and %d took over what another did", calls, others)
	}
	s.gone(t, b)
}

func TestARunningBackupIsCancelledFirst(t *testing.T) {
	t.Parallel()
	s := site{world.Shared(t)}
	b := s.BackupOf(world.NewApp(t, 1))
	b.Labels = stage.Use(preHolds)
	stage.Create(t, world.Client, b)
	awaitCall(t, b, v1alpha1.HookPreBackup, preHolds)
	d := destroy(t, b)
	destroyed(t, d, v1alpha1.DeletionRunPhaseCompleted)
	s.gone(t, b)
	if last := latest(b); last.Status.Phase != v1alpha1.BackupPhaseCancelled || reasonOf(last, v1alpha1.ConditionCleanupOwed) != v1alpha1.ReasonCleanupDone {
		t.Errorf("it was not cancelled, or its clean-up was not done: %s", describe(b))
	}
}

// TestABackupGoesWithItsData deletes Backups of both policies.
func TestABackupGoesWithItsData(t *testing.T) {
	t.Parallel()
	s := site{world.Shared(t)}
	app := world.NewApp(t, 1)
	t.Run("Delete", func(t *testing.T) {
		t.Parallel()
		b := s.BackupOf(app)
		b.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete
		stage.Create(t, world.Client, b)
		await(t, b, "it has ended", func(b *v1alpha1.Backup) bool {
			return b.Status.Phase == v1alpha1.BackupPhaseCompleted && slices.Contains(b.Finalizers, v1alpha1.FinalizerStoredData)
		})
		world.Remove(t, b)
		s.gone(t, b)
	})
	t.Run("Retain", func(t *testing.T) {
		t.Parallel()
		b := outcome(t, stage.Create(t, world.Client, s.BackupOf(app)), v1alpha1.BackupPhaseCompleted)
		files := s.stored(t, b.Name)
		world.Remove(t, b)
		awaitGone(t, b)
		stage.Equal(t, "the files", s.stored(t, b.Name), files)
	})
	t.Run("Delete and then Retain", func(t *testing.T) {
		t.Parallel()
		b := s.BackupOf(app)
		b.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete
		stage.Create(t, world.Client, b)
		await(t, b, "it has ended", func(b *v1alpha1.Backup) bool {
			return b.Status.Phase == v1alpha1.BackupPhaseCompleted && slices.Contains(b.Finalizers, v1alpha1.FinalizerStoredData)
		})
		world.Patch(t, b, `{"spec":{"deletionPolicy":"Retain"}}`)
		await(t, b, "nothing holds it", func(b *v1alpha1.Backup) bool { return len(b.Finalizers) == 0 && b.Status.CompletionTimestamp != nil })
		world.Remove(t, b)
		awaitGone(t, b)
		if len(s.stored(t, b.Name)) == 0 {
			t.Error("the files are gone")
		}
	})
}

// TestANamespaceIsDeleted has a Backup with the policy Delete in it: nothing can be created
// any more that destroys its data, and the namespace must not hang.
func TestANamespaceIsDeleted(t *testing.T) {
	t.Parallel()
	s := site{world.New(t)}
	b := s.BackupOf(world.NewApp(t, 1))
	b.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete
	stage.Create(t, world.Client, b)
	await(t, b, "it has ended", func(b *v1alpha1.Backup) bool {
		return b.Status.Phase == v1alpha1.BackupPhaseCompleted && slices.Contains(b.Finalizers, v1alpha1.FinalizerStoredData)
	})
	world.Remove(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})
	awaitGone(t, b)
	if len(s.stored(t, b.Name)) == 0 {
		t.Error("the files are gone")
	}
	s.AwaitMetric(t, "grapnel_data_left_behind_total", 1)
}

// TestALocationIsLost takes the location away, or the right to write there. The objects can
// be removed all the same, when somebody says so.
func TestALocationIsLost(t *testing.T) {
	t.Parallel()
	s := site{world.Shared(t)}
	for name, lose := range map[string]func(*testing.T, *v1alpha1.BackupStorageLocation){
		"gone": func(t *testing.T, l *v1alpha1.BackupStorageLocation) { t.Helper(); world.Remove(t, l) },
		"read-only": func(t *testing.T, l *v1alpha1.BackupStorageLocation) {
			t.Helper()
			world.Patch(t, l, `{"spec":{"accessMode":"ReadOnly"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := stage.Create(t, world.Client, newFolder(s, "lost-"+name))
			b := s.BackupOf(world.NewApp(t, 1))
			b.Spec.StorageLocation, b.Spec.DeletionPolicy = files.Name, v1alpha1.DeletionPolicyDelete
			stage.Create(t, world.Client, b)
			await(t, b, "it has ended", func(b *v1alpha1.Backup) bool {
				return b.Status.Phase == v1alpha1.BackupPhaseCompleted && slices.Contains(b.Finalizers, v1alpha1.FinalizerStoredData)
			})
			lose(t, files)
			world.Remove(t, b)
			var d *v1alpha1.DeletionRun
			eventually(t, func() string {
				for _, run := range all[*v1alpha1.DeletionRun](world.watched) {
					if run.Spec.BackupUID == string(b.UID) {
						d = run
						return ""
					}
				}
				return "there is no DeletionRun"
			})
			waiting := await(t, d, "it says what to do", func(d *v1alpha1.DeletionRun) bool {
				return strings.Contains(d.Status.Message, v1alpha1.AnnotationAbandonData)
			})
			says(t, []string{waiting.Status.Message}, files.Name)
			world.Patch(t, b, `{"metadata":{"annotations":{"`+v1alpha1.AnnotationAbandonData+`":"true"}}}`)
			d = destroyed(t, d, v1alpha1.DeletionRunPhasePartiallyFailed, "left behind", "the files of backup "+b.Name+" in BackupStorageLocation "+files.Name)
			awaitGone(t, b)
			awaitEvent(t, d, "Warning DataLeftBehind: ")
		})
	}
}

// TestABackupExpires has one whose time is over soon.
func TestABackupExpires(t *testing.T) {
	t.Parallel()
	s := site{world.Shared(t)}
	b := s.BackupOf(world.NewApp(t, 1))
	b.Spec.TTL = &metav1.Duration{Duration: 720 * time.Hour}
	b = outcome(t, stage.Create(t, world.Client, b), v1alpha1.BackupPhaseCompleted)
	world.Patch(t, b, `{"spec":{"ttl":"1s"}}`)
	s.gone(t, b)
	awaitEvent(t, b, "Normal Expired: ")
}

// TestWhatIsToBeDestroyed checks what is written wrongly, and what is gone already.
func TestWhatIsToBeDestroyed(t *testing.T) {
	t.Parallel()
	s := site{world.Shared(t)}
	run := func(spec v1alpha1.DeletionRunSpec) *v1alpha1.DeletionRun {
		return &v1alpha1.DeletionRun{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, GenerateName: "story-"}, Spec: spec}
	}
	for name, tc := range map[string]struct {
		spec  v1alpha1.DeletionRunSpec
		phase v1alpha1.DeletionRunPhase
		texts []string
	}{
		"a typing error": {
			v1alpha1.DeletionRunSpec{BackupName: "nightyl"}, v1alpha1.DeletionRunPhaseFailedValidation,
			[]string{"there is no Backup nightyl", "correct spec.backupName"},
		},
		"no such location": {
			v1alpha1.DeletionRunSpec{BackupName: "b", StorageLocation: "nowhere"}, v1alpha1.DeletionRunPhaseFailedValidation,
			[]string{"nowhere", "does not exist"},
		},
		"another has the name": {
			v1alpha1.DeletionRunSpec{BackupName: "b", BackupUID: "1-2-3"}, v1alpha1.DeletionRunPhaseCompleted, []string{"was gone already"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			destroyed(t, stage.Create(t, world.Client, run(tc.spec)), tc.phase, tc.texts...)
		})
	}
}
