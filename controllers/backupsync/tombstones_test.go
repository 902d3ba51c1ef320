// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

var _ = Describe("The record of removed Backups", Label("import"), func() {
	It("does not import again a removed Backup whose data stays", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		stop := operator(t, env, root)
		bsl := directory(env, "main", "")
		check(t, env, bsl, metav1.ConditionTrue)
		awaitCondition(env, bsl, v1alpha1.ConditionSynced, metav1.ConditionTrue, v1alpha1.ReasonSynced, "")

		b := suite.Create(env, named(env, "nightly"))
		east(t, root, "", "nightly", string(b.UID))
		b.Status.Phase, b.Status.StorageLocation = v1alpha1.RunPhaseCompleted, "main"
		b.Status.CompletionTimestamp = &metav1.Time{Time: time.Now()}
		if err := env.Client.Status().Update(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		suite.Eventually(t, func() string {
			noted, err := tombstone.LoadRecords(t.Context(), env.Client, env.Namespace, "main")
			if err == nil && noted.IsCreatedHere("nightly", string(b.UID)) {
				return ""
			}
			return "it is not noted"
		})
		env.Delete(b)
		env.WaitForDeletion(b)

		for _, last := range []string{"z-1", "z-2"} {
			stop()
			velero(t, root, "", last, last) // the last one in the list
			stop = operator(t, env, root)
			awaitPhase(env, last, v1alpha1.RunPhaseCompleted)
			for _, there := range backups(t, env) {
				if there.StoredName() == "nightly" {
					t.Errorf("it exists again, as %s", there.Name)
				}
			}
			again := suite.Create(env, importOf("nightly", "main", ""))
			awaitPhase(env, "nightly", v1alpha1.RunPhaseCompleted)
			env.Delete(again)
			env.WaitForDeletion(again)
		}
	})

	It("survives concurrent writers", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		directory(env, "main", "")
		want := tombstone.Records{}
		var all sync.WaitGroup
		for i := range 40 {
			one := tombstone.Records{}
			one.Add(fmt.Sprintf("b-%d", i), fmt.Sprintf("u-%d", i), true)
			maps.Copy(want, one)
			all.Go(func() {
				if err := tombstone.AddRecords(t.Context(), env.Client, env.Client, env.Namespace, "main", one); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		noted, err := tombstone.LoadRecords(t.Context(), env.Client, env.Namespace, "main")
		if err != nil || !maps.Equal(noted, want) {
			t.Errorf("the tombstones are %v, %v, want %v", noted, err, want)
		}

		late := &replacing{Client: env.Client, replace: sync.OnceFunc(func() {
			old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: tombstone.ConfigMapName("main")}}
			suite.GetIfExists(env, old)
			anew := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, Name: old.Name, Labels: old.Labels, OwnerReferences: old.OwnerReferences},
			}
			anew.OwnerReferences[0].UID = "of-before"
			env.Delete(old)
			suite.Create(env, anew)
		})}
		if err := tombstone.AddRecords(t.Context(), late, env.Client, env.Namespace, "main", tombstone.Records{"last": "u"}); err != nil {
			t.Fatal(err)
		}
		noted, err = tombstone.LoadRecords(t.Context(), env.Client, env.Namespace, "main")
		if want := (tombstone.Records{"last": "u"}); err != nil || !maps.Equal(noted, want) {
			t.Errorf("the tombstones are %v, %v, want %v: those of another location are neither trusted nor extended", noted, err, want)
		}
	})

	It("imports the backups of a read-only location, and writes nothing there", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		velero(t, root, "", "theirs", "v-1")
		before := files(t, root)
		operator(t, env, root)
		bsl := suite.Create(env, &v1alpha1.BackupStorageLocation{
			ObjectMeta: metav1.ObjectMeta{Name: "main"},
			Spec:       v1alpha1.BackupStorageLocationSpec{Filesystem: &v1alpha1.FilesystemLocation{}, AccessMode: v1alpha1.AccessModeReadOnly},
		})
		check(t, env, bsl, metav1.ConditionTrue)
		awaitPhase(env, "theirs", v1alpha1.RunPhaseCompleted)
		awaitCondition(env, bsl, v1alpha1.ConditionSynced, metav1.ConditionTrue, v1alpha1.ReasonSynced, "")
		if after := files(t, root); !slices.Equal(before, after) {
			t.Errorf("the files were %q and are %q", before, after)
		}
	})
})

// replacing is a client that calls a function before its first patch.
type replacing struct {
	client.Client
	replace func()
}

// Patch implements client.Client.
func (r *replacing) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	r.replace()
	return r.Client.Patch(ctx, o, p, opts...)
}

// files returns the paths of all files below a directory.
func files(t testing.TB, root string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
