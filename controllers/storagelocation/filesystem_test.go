// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storagelocation_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

func write(t testing.TB, elements ...string) string {
	t.Helper()
	path := filepath.Join(elements...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("in the way"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// files returns the regular files below a directory.
func files(t testing.TB, root string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var _ = Describe("A location in a directory", Label("import"), func() {
	It("becomes Available", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		operator(t, env, root)
		bsl := directory(env, "archives/main")
		await(env, bsl, available)
		if bsl.Status.PutIfAbsent == nil || !*bsl.Status.PutIfAbsent {
			t.Errorf("putIfAbsent is %v", bsl.Status.PutIfAbsent)
		}
		if left := files(t, root); len(left) > 0 {
			t.Errorf("the check left %q behind", left)
		}
		env.WaitForEvent(bsl, "Normal Available: The location can be used")

		// A change is checked immediately, not within the hour.
		write(t, root, "occupied")
		suite.UpdateWithRetry(env, bsl, func(bsl *v1alpha1.BackupStorageLocation) { bsl.Spec.Filesystem.Path = "occupied/below" })
		await(env, bsl, unavailable(`opening directory "occupied/below"`))
		env.WaitForEvent(bsl, "Warning Unavailable: opening directory")
	})

	It("reports why, and affects no other location", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		write(t, root, "file")
		write(t, root, "unwritable/backups")
		write(t, root, "foreign/photos/summer.jpg")
		if err := os.Symlink(t.TempDir(), filepath.Join(root, "away")); err != nil {
			t.Fatal(err)
		}
		operator(t, env, root)
		for path, want := range map[string]verdict{
			"file":       unavailable(`opening directory "file"`),
			"unwritable": unavailable("checking the storage location: writing to it"),
			"foreign":    unavailable("photos"),
			"away":       unavailable(`opening directory "away"`),
			"good":       available,
		} {
			bsl := directory(env, path)
			await(env, bsl, want)
			if bsl.Status.Phase == v1alpha1.LocationPhaseUnavailable && bsl.Status.PutIfAbsent != nil {
				t.Errorf("%s: the location is unavailable, but putIfAbsent is %v", path, *bsl.Status.PutIfAbsent)
			}
		}
		bsl := directory(env, "shared", func(bsl *v1alpha1.BackupStorageLocation) { bsl.Spec.Prefix = "cluster-1" })
		await(env, bsl, available)
	})

	It("is accepted when it cannot be written, and is not written", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		write(t, root, "unwritable/backups")
		operator(t, env, root)
		bsl := directory(env, "unwritable", readOnly)
		await(env, bsl, available)
		suite.UpdateWithRetry(env, bsl, func(bsl *v1alpha1.BackupStorageLocation) { bsl.Spec.AccessMode = v1alpha1.AccessModeReadWrite })
		await(env, bsl, unavailable("writing to it"))
	})

	Context("is refused by an operator without --store-root", func() {
		It("not set", func() {
			t := GinkgoTB()
			env := cluster.NewEnv(t)
			operator(t, env, "")
			await(env, directory(env, "main"), invalid("--store-root"))
		})
		It("not there", func() {
			t := GinkgoTB()
			env := cluster.NewEnv(t)
			operator(t, env, filepath.Join(t.TempDir(), "not-mounted"))
			await(env, directory(env, "main"), unavailable("opening the root of filesystem locations"))
		})
	})

	It("becomes Available again without the operator's involvement", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		operator(t, env, root, often)
		bsl := directory(env, "main")
		await(env, bsl, available)
		obstacle := write(t, root, "main/foreign/file")
		await(env, bsl, unavailable("foreign"))
		if bsl.Status.PutIfAbsent == nil || !*bsl.Status.PutIfAbsent {
			t.Errorf("putIfAbsent was true and is %v", bsl.Status.PutIfAbsent)
		}
		if err := os.RemoveAll(filepath.Dir(obstacle)); err != nil {
			t.Fatal(err)
		}
		await(env, bsl, available)
		env.WaitForEvent(bsl, "Warning Unavailable")
	})
})
