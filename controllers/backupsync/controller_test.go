// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/backupsync"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/filesystem"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

var _ = Describe("The sync of a location", Label("import"), func() {
	It("follows the location until it is deleted", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		velero(t, root, "one", "theirs", "v-1")
		velero(t, root, "one", "unwanted", "v-2")
		velero(t, root, "two", "other", "v-3")
		east(t, root, "one", "east", "u-1")
		bsl := directory(env, "main", "one")
		if err := tombstone.AddRecords(t.Context(), env.Client, env.Client, env.Namespace, "main", tombstone.Records{"unwanted": "v-2"}); err != nil {
			t.Fatal(err)
		}
		operator(t, env, root)
		check(t, env, bsl, metav1.ConditionTrue)

		awaitCondition(env, bsl, v1alpha1.ConditionSynced, metav1.ConditionTrue, v1alpha1.ReasonSynced, "Every finished backup")
		for name, uid := range map[string]string{"theirs": "v-1", "east": "u-1"} {
			b := awaitPhase(env, name, v1alpha1.RunPhaseCompleted)
			if from := b.Spec.ImportedFrom; from == nil || *from != (v1alpha1.ImportSource{StorageLocation: "main", BackupUID: uid}) ||
				b.Spec.DeletionPolicy != v1alpha1.DeletionPolicyRetain || b.Status.Progress.ItemsBackedUp != 3 || b.Status.StorageLocation != "main" {
				t.Errorf("the Backup is %+v", b)
			}
			for _, of := range []string{v1alpha1.ConditionSucceeded, v1alpha1.ConditionReady} {
				if c := conditions.Get(b, of); c == nil || c.Status != "True" || c.ObservedGeneration != b.Generation {
					t.Errorf("%s is %+v in generation %d", of, c, b.Generation)
				}
			}
		}
		if n := len(backups(t, env)); n != 2 {
			t.Errorf("there are %d Backups, want 2", n)
		}

		mine := suite.Create(env, importOf("mine", "main", "unwanted"))
		awaitPhase(env, "mine", v1alpha1.RunPhaseCompleted)
		env.Delete(named(env, "theirs"))
		env.WaitForDeletion(named(env, "theirs"))
		suite.Create(env, importOf("again", "main", "east")) // requests a sync
		awaitPhase(env, "again", v1alpha1.RunPhaseCompleted)
		if suite.GetIfExists(env, named(env, "theirs")) {
			t.Error("a Backup that a user removed exists again")
		}

		suite.UpdateWithRetry(env, bsl, func(bsl *v1alpha1.BackupStorageLocation) { bsl.Spec.Filesystem.Path = "two" })
		check(t, env, bsl, metav1.ConditionTrue)
		awaitPhase(env, "other", v1alpha1.RunPhaseCompleted)
		awaitCondition(env, mine, v1alpha1.ConditionDataAvailable, metav1.ConditionFalse, v1alpha1.ReasonDataMissing, "no longer contains this backup")
		env.WaitForEvent(mine, "Warning DataMissing: BackupStorageLocation main no longer contains")

		check(t, env, bsl, metav1.ConditionFalse)
		velero(t, root, "two", "late", "v-4")
		suite.Create(env, importOf("asked", "main", "late"))
		check(t, env, bsl, metav1.ConditionTrue)
		awaitPhase(env, "asked", v1alpha1.RunPhaseCompleted)

		env.Delete(bsl)
		env.WaitForDeletion(bsl)
		early := suite.Create(env, importOf("early", "main", "other"))
		awaitCondition(env, early, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonWaitingForLocation, `"main" does not exist`)
		if n := len(backups(t, env)); n != 6 { // east, mine, again, other, asked and early
			t.Errorf("there are %d Backups, want 6", n)
		}
		check(t, env, directory(env, "main", "two"), metav1.ConditionTrue)
		awaitPhase(env, "early", v1alpha1.RunPhaseCompleted)
	})

	It("happens as often as the location says", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		bsl := directory(env, "main", "one")
		suite.UpdateWithRetry(env, bsl, func(bsl *v1alpha1.BackupStorageLocation) {
			bsl.Spec.Sync = &v1alpha1.LocationSync{Interval: &metav1.Duration{Duration: time.Second}}
		})
		operator(t, env, root)
		check(t, env, bsl, metav1.ConditionTrue)
		awaitCondition(env, bsl, v1alpha1.ConditionSynced, metav1.ConditionTrue, v1alpha1.ReasonSynced, "Every finished backup")
		velero(t, root, "one", "later", "v-1")
		awaitPhase(env, "later", v1alpha1.RunPhaseCompleted)

		suite.UpdateWithRetry(env, bsl, func(bsl *v1alpha1.BackupStorageLocation) { bsl.Spec.Sync.Interval = &metav1.Duration{} })
		velero(t, root, "one", "last", "v-2")
		check(t, env, bsl, metav1.ConditionTrue)
		awaitCondition(env, bsl, v1alpha1.ConditionSynced, metav1.ConditionTrue, v1alpha1.ReasonImportDisabled, "spec.sync turns the import off")
		if suite.GetIfExists(env, named(env, "last")) {
			t.Error("a backup was imported although the import is off")
		}
	})

	It("imports 300 backups, no more at a time than the limiter allows", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		for i := range 300 {
			velero(t, root, "", fmt.Sprintf("b-%03d", i), fmt.Sprintf("v-%d", i))
		}
		turns, writes := make(tokens), &writing{}
		operator(t, env, root, through(writes), func(r *backupsync.Reconciler) { r.Limiter = turns })
		bsl := directory(env, "main", "")
		check(t, env, bsl, metav1.ConditionTrue)
		for range 5 {
			turns <- struct{}{} // received once the previous one was used
		}
		awaitPhase(env, "b-003", v1alpha1.RunPhaseCompleted)
		if n := len(backups(t, env)); n > 5 {
			t.Errorf("there are %d Backups after 5 turns", n)
		}
		for range 295 {
			turns <- struct{}{}
		}
		awaitCondition(env, bsl, v1alpha1.ConditionSynced, metav1.ConditionTrue, v1alpha1.ReasonSynced, "")
		list := backups(t, env)
		for i := range list {
			if list[i].Status.Phase != v1alpha1.RunPhaseCompleted {
				t.Errorf("Backup %s is %+v", list[i].Name, list[i].Status)
			}
		}
		if n := writes.writes.Load(); len(list) != 300 || n != 602 {
			t.Errorf("%d Backups, %d writes, want 300, with two writes for each, one for the tombstones and one for the location", len(list), n)
		}
	})

	It("writes nothing for an unchanged location", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		velero(t, root, "", "good", "v-1")
		put(t, root, "", "bad", "no JSON")
		looks, writes := &opener{}, &writing{}
		operator(t, env, root, often, counted(looks), through(writes))
		bsl := directory(env, "main", "")
		check(t, env, bsl, metav1.ConditionTrue)
		awaitCondition(env, bsl, v1alpha1.ConditionSynced, metav1.ConditionFalse, v1alpha1.ReasonBackupsUnreadable, "1 backup cannot be imported: bad: file")
		env.WaitForEvent(bsl, "Warning BackupsUnreadable: 1 backup cannot be imported")
		awaitMore(t, looks)
		before, version := writes.writes.Load(), bsl.ResourceVersion
		awaitMore(t, looks)
		suite.GetIfExists(env, bsl)
		if after := writes.writes.Load(); after != before || bsl.ResourceVersion != version {
			t.Errorf("%d writes without a change, the version of the location was %s and is %s", after-before, version, bsl.ResourceVersion)
		}

		velero(t, root, "", "bad", "v-2")
		awaitPhase(env, "bad", v1alpha1.RunPhaseCompleted)
		awaitCondition(env, bsl, v1alpha1.ConditionSynced, metav1.ConditionTrue, v1alpha1.ReasonSynced, "Every finished backup")
		good := named(env, "good")
		if err := os.RemoveAll(filepath.Join(root, "backups", "good")); err != nil {
			t.Fatal(err)
		}
		awaitCondition(env, good, v1alpha1.ConditionDataAvailable, metav1.ConditionFalse, v1alpha1.ReasonDataMissing, "")
		awaitCondition(env, good, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonDataMissing, "no longer contains this backup")
		velero(t, root, "", "good", "v-1")
		awaitCondition(env, good, v1alpha1.ConditionDataAvailable, metav1.ConditionTrue, v1alpha1.ReasonDataFound, "")
		awaitCondition(env, good, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonCompleted, "")
		env.WaitForEvent(good, "Normal DataFound")
	})

	It("keeps backups of the same name in two locations apart", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		velero(t, root, "a", "nightly", "v-1")
		velero(t, root, "b", "nightly", "v-2")
		put(t, root, "b", "odd", strings.Replace(manifestOf("odd", "v-3", "Completed"), `["shop"]`, `[""]`, 1))
		operator(t, env, root)
		first := directory(env, "a", "a")
		check(t, env, first, metav1.ConditionTrue)
		awaitPhase(env, "nightly", v1alpha1.RunPhaseCompleted)
		second := directory(env, "b", "b")
		check(t, env, second, metav1.ConditionTrue)
		awaitCondition(env, second, v1alpha1.ConditionSynced, metav1.ConditionFalse, v1alpha1.ReasonBackupsUnreadable, "odd: the API server rejected the imported Backup")
		list := backups(t, env)
		if len(list) != 2 || list[0].StoredName() != "nightly" || list[1].StoredName() != "nightly" {
			t.Fatalf("the Backups are %+v", list)
		}
		for i := range list {
			if list[i].Spec.ImportedFrom.StorageLocation == "b" {
				awaitPhase(env, list[i].Name, v1alpha1.RunPhaseCompleted)
				env.WaitForEvent(&list[i], "Warning NameTaken: Backup nightly of BackupStorageLocation b is named "+list[i].Name)
			}
		}
		if err := os.RemoveAll(filepath.Join(root, "b", "backups", "odd")); err != nil {
			t.Fatal(err)
		}
		suite.UpdateWithRetry(env, second, func(bsl *v1alpha1.BackupStorageLocation) { bsl.Spec.Default = true })
		check(t, env, second, metav1.ConditionTrue)
		awaitCondition(env, second, v1alpha1.ConditionSynced, metav1.ConditionTrue, v1alpha1.ReasonSynced, "(nightly in the location)")
	})

	It("resumes after a crash between the creation of an object and its status", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		velero(t, root, "", "nightly", "v-1")
		dying := &writing{}
		dying.broken.Store(true)
		stop := operator(t, env, root, through(dying))
		bsl := directory(env, "main", "")
		check(t, env, bsl, metav1.ConditionTrue)
		awaitCondition(env, bsl, v1alpha1.ConditionSynced, metav1.ConditionFalse, v1alpha1.ReasonSyncFailed, "the operator died")
		stop()
		if b := named(env, "nightly"); !suite.GetIfExists(env, b) || b.Status.Phase != "" {
			t.Fatalf("the Backup is %+v", b)
		}
		operator(t, env, root)
		awaitPhase(env, "nightly", v1alpha1.RunPhaseCompleted)
		awaitCondition(env, bsl, v1alpha1.ConditionSynced, metav1.ConditionTrue, v1alpha1.ReasonSynced, "")
	})

	It("records nothing when the operator stops while it waits for the limiter", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		velero(t, root, "", "a", "v-1")
		velero(t, root, "", "b", "v-2")
		turns := make(tokens)
		stop := operator(t, env, root, func(r *backupsync.Reconciler) { r.Limiter = turns })
		bsl := directory(env, "main", "")
		check(t, env, bsl, metav1.ConditionTrue)
		turns <- struct{}{}
		awaitPhase(env, "a", v1alpha1.RunPhaseCompleted)
		stop()
		suite.GetIfExists(env, bsl)
		if c := conditions.Get(bsl, v1alpha1.ConditionSynced); c != nil {
			t.Errorf("Synced is %+v", c)
		}
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(named(env, "b")), &v1alpha1.Backup{}); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("b exists although the limiter did not allow it: %v", err)
		}
	})
})

// importOf returns the Backup that a user creates to import a backup.
func importOf(name, location, storedName string) *v1alpha1.Backup {
	return &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.BackupSpec{ImportedFrom: &v1alpha1.ImportSource{StorageLocation: location, BackupName: storedName}},
	}
}

// east stores a backup as Grapnel in another cluster does.
func east(t testing.TB, root, path, name, uid string) {
	t.Helper()
	objects, err := filesystem.Open(root, path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = objects.Close() }()
	s := storage.New(objects, "")
	if err := s.Claim(t.Context(), name, storage.Claim{BackupUID: uid}); err != nil {
		t.Fatal(err)
	}
	attempt, err := s.BeginAttempt(t.Context(), name, uid)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := attempt.PutContents(t.Context(), strings.NewReader("archive"))
	if err != nil {
		t.Fatal(err)
	}
	err = attempt.Commit(t.Context(), storage.Manifest{
		VeleroBackup: []byte(manifestOf(name, uid, "Completed")),
		Grapnel: storage.GrapnelManifest{
			BackupUID: uid, Files: map[storage.File]storage.Digest{storage.Contents: digest},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}
