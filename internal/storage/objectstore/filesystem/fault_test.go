// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package filesystem_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/filesystem"
)

// TestRemoveStaleTempFiles simulates a writer that crashed in the middle.
func TestRemoveStaleTempFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := open(t, root, "")
	put(t, s, "dir/key", "content")
	old, young := filepath.Join(root, "dir", objectstore.ReservedPrefix+"old"), filepath.Join(root, "dir", objectstore.ReservedPrefix+"young")
	elsewhere := filepath.Join(root, "only-left-over", "sub", objectstore.ReservedPrefix+"old")
	for _, path := range []string{old, young, elsewhere} {
		writeFile(t, path)
	}
	hourAgo := time.Now().Add(-2 * time.Hour)
	for _, path := range []string{old, elsewhere} {
		if err := os.Chtimes(path, hourAgo, hourAgo); err != nil {
			t.Fatal(err)
		}
	}
	wantKeys(t, s, objectstore.ListOptions{}, "dir/key")
	wantKeys(t, s, objectstore.ListOptions{Delimiter: "/"}, "dir/")
	if _, err := s.Get(t.Context(), "dir/"+objectstore.ReservedPrefix+"old"); err == nil {
		t.Error("a temporary file can be read")
	}

	put(t, s, "dir/other", "content")
	if exists(t, old) {
		t.Error("a Put into the directory did not remove the stale temporary file")
	}
	if !exists(t, young) {
		t.Error("a Put removed a temporary file that may be in use")
	}
	n, err := s.RemoveStaleTempFiles(t.Context(), "", time.Now())
	if n != 1 || err != nil {
		t.Errorf("RemoveStaleTempFiles removed %d files, error %v, want 1", n, err)
	}
	if exists(t, filepath.Join(root, "only-left-over")) {
		t.Error("RemoveStaleTempFiles left an empty directory")
	}
	wantKeys(t, s, objectstore.ListOptions{}, "dir/key", "dir/other")
}

func TestStore_NoLeftovers(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := open(t, root, "")
	errBroken := errors.New("broken")
	r := io.MultiReader(strings.NewReader("some"), readerFunc(func() error { return errBroken }))
	if _, err := s.Put(t.Context(), "a/b/c", r, objectstore.PutOptions{}); !errors.Is(err, errBroken) {
		t.Errorf("error %v, want that of the reader", err)
	}
	put(t, s, "d/e/f", "content")
	if err := s.Delete(t.Context(), "d/e/f"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"."}, tree(t, root)); diff != "" {
		t.Errorf("files and directories left (-want +got):\n%s", diff)
	}
}

// TestPut_ReaderErrors: a missing source file is not a missing object.
func TestPut_ReaderErrors(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), "")
	for _, cause := range []error{fs.ErrNotExist, fs.ErrPermission, syscall.ENOSPC} {
		_, err := s.Put(t.Context(), "key", readerFunc(func() error { return cause }), objectstore.PutOptions{})
		if !errors.Is(err, cause) {
			t.Errorf("error %v, want %v", err, cause)
		}
		for _, kind := range []error{objectstore.ErrNotExist, objectstore.ErrAccess, objectstore.ErrNoSpace} {
			if errors.Is(err, kind) {
				t.Errorf("%v of the reader was taken for %v of the store", cause, kind)
			}
		}
	}
}

// TestStore_HostileDirectory uses a directory with entries that are not objects, some of which lead
// outside.
func TestStore_HostileDirectory(t *testing.T) {
	t.Parallel()
	outside, root := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(outside, "secret"))
	s := open(t, root, "")
	put(t, s, "dir/key", "content")
	for link, target := range map[string]string{
		"dir/file-link": filepath.Join(outside, "secret"), "dir/dir-link": outside, "link": outside, "dir/loop": ".",
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "dir", "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(root, "dir", "back\\slash"))
	writeFile(t, filepath.Join(root, "lost+found", "x"))

	wantKeys(t, s, objectstore.ListOptions{}, "dir/key")
	wantKeys(t, s, objectstore.ListOptions{Delimiter: "/"}, "dir/")
	for _, key := range []string{"dir/file-link", "dir/dir-link/secret", "link/secret", "dir/fifo"} {
		if r, err := s.Get(t.Context(), key); err == nil {
			_ = r.Close()
			t.Errorf("%q can be read", key)
		}
	}
	for _, key := range []string{"link/new", "dir/dir-link/new", "dir/dir-link/sub/new"} {
		if _, err := s.Put(t.Context(), key, strings.NewReader("x"), objectstore.PutOptions{}); err == nil {
			t.Errorf("%q can be written", key)
		}
	}
	if err := s.Delete(t.Context(), "link/secret"); err == nil && !exists(t, filepath.Join(outside, "secret")) {
		t.Error("a file outside was deleted")
	}
	if diff := cmp.Diff([]string{".", "secret"}, tree(t, outside)); diff != "" {
		t.Errorf("the directory outside changed (-want +got):\n%s", diff)
	}
	// A link that has the name of an object is replaced, not followed.
	put(t, s, "dir/file-link", "ours")
	if content, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(content) != "x" {
		t.Errorf("the file outside reads %q, error %v", content, err)
	}
}

func TestPut_ObjectAndDirectory(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), "")
	put(t, s, "a", "x")
	put(t, s, "b/c", "x")
	for _, key := range []string{"a/below", "a/far/below", "b"} {
		_, err := s.Put(t.Context(), key, strings.NewReader("x"), objectstore.PutOptions{})
		if err == nil || !strings.Contains(err.Error(), "cannot hold both") {
			t.Errorf("%q: error %v, want one that explains", key, err)
		}
	}
	wantKeys(t, s, objectstore.ListOptions{}, "a", "b/c")
}

func TestStore_UnwritableDirectory(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, "store")
	put(t, s, "dir/key", "x")
	for _, dir := range []string{"store/dir", "store"} {
		if err := os.Chmod(filepath.Join(root, dir), 0o555); err != nil {
			t.Fatal(err)
		}
	}
	var errs []error
	asNobody(t, func() {
		_, putErr := s.Put(t.Context(), "dir/new", strings.NewReader("x"), objectstore.PutOptions{})
		_, newDirErr := s.Put(t.Context(), "other/new", strings.NewReader("x"), objectstore.PutOptions{})
		errs = []error{putErr, newDirErr, s.Delete(t.Context(), "dir/key")}
	})
	for i, err := range errs {
		if !errors.Is(err, objectstore.ErrAccess) {
			t.Errorf("call %d: error %v, want ErrAccess", i, err)
			continue
		}
		if !strings.Contains(err.Error(), "fsGroup") || strings.Contains(err.Error(), root) {
			t.Errorf("call %d: the message has no hint, or discloses the location of the store: %v", i, err)
		}
	}
}

// asNobody runs do with the file access rights of an unprivileged user. For root, it drops
// them in one thread, which ends with the goroutine.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		do()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread is not used again
		const nobody = 65534
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSGID, nobody, 0, 0)
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0)
		do()
	}()
	<-done
}

func TestOpen(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "file"))
	if err := os.Symlink(t.TempDir(), filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"..", "../x", "/abs", "a/../../b", "link", "link/x", "file", "file/x"} {
		if s, err := filesystem.Open(root, dir); err == nil {
			_ = s.Close()
			t.Errorf("%q was opened", dir)
		} else if strings.Contains(err.Error(), root) {
			t.Errorf("%q: the error discloses the location of the store: %v", dir, err)
		}
	}
	if _, err := filesystem.Open(filepath.Join(root, "missing"), ""); !errors.Is(err, objectstore.ErrNoStore) {
		t.Errorf("missing root: error %v, want ErrNoStore", err)
	}
}

// TestPut_FileModes: the group may take over, other users have no access.
func TestPut_FileModes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Chmod(root, 0o770|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	put(t, open(t, root, ""), "dir/key", "x")
	for path, want := range map[string]fs.FileMode{"dir": fs.ModeDir | fs.ModeSetgid | 0o770, "dir/key": 0o660} {
		info, err := os.Stat(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
	}
}

// readerFunc fails with the result of the function when it is read.
type readerFunc func() error

func (f readerFunc) Read([]byte) (int, error) { return 0, f() }

func put(t *testing.T, s *filesystem.Store, key, content string) {
	t.Helper()
	if _, err := s.Put(t.Context(), key, strings.NewReader(content), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func wantKeys(t *testing.T, s *filesystem.Store, opts objectstore.ListOptions, want ...string) {
	t.Helper()
	var got []string
	for e, err := range s.List(t.Context(), opts) {
		if err != nil {
			t.Error(err)
		}
		got = append(got, e.Key)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List(%+v) (-want +got):\n%s", opts, diff)
	}
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func tree(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, path)
		all = append(all, rel)
		return errors.Join(err, relErr)
	})
	if err != nil {
		t.Fatal(fmt.Errorf("walking: %w", err))
	}
	return all
}
