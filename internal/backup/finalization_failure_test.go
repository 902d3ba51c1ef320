// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	tarball "github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

// finalized is the expected result of an undisturbed backup with operations.
func finalized(t *testing.T) (backup.Result, map[string]any) {
	t.Helper()
	objects := memory.New()
	result, err := waiting(t, objects, &operator{}).Finalize(t.Context(), open(objects), withOperations(), completed())
	if err != nil {
		t.Fatal(err)
	}
	return result, stable(t, objects)
}

func TestFinalize_Crashes(t *testing.T) {
	t.Parallel()
	_, undisturbed := finalized(t)
	n := 0
	everyCrash(t, func(j *backup.Runner, store *storage.Store) error {
		j.Engine = &operator{}
		if err := j.Claim(t.Context(), store, withOperations()); err != nil {
			return err
		}
		_, err := j.Archive(t.Context(), store, withOperations())
		return err
	}, func(j *backup.Runner, store *storage.Store) error {
		j.Engine = &operator{}
		result, err := j.Finalize(t.Context(), store, withOperations(), completed())
		if err == nil && (result.Items != 5 || result.Warnings != 2 || result.Labels["copied"] != "yes") {
			t.Errorf("the result is %+v", result)
		}
		return err
	}, func(t *testing.T, objects objectstore.Store, crash string) {
		t.Helper()
		n++
		if diff := cmp.Diff(undisturbed, stable(t, objects)); diff != "" {
			t.Errorf("%s: files (-undisturbed +got):\n%s", crash, diff)
		}
		if err := open(objects).Verify(t.Context(), "nightly"); err != nil {
			t.Errorf("%s: %v", crash, err)
		}
	})
	if n < 2*len(complete()) {
		t.Errorf("there were %d crashes, less than files are written", n)
	}
}

// TestFinalize_FailedWrites calls Finalize again after each write that failed
// halfway, also if a part of it became visible.
func TestFinalize_FailedWrites(t *testing.T) {
	t.Parallel()
	want, undisturbed := finalized(t)
	objects := memory.New()
	j := waiting(t, objects, &operator{})
	counting := storetest.NewFaultyStore(objects)
	if _, err := j.Finalize(t.Context(), open(counting), withOperations(), completed()); err != nil {
		t.Fatal(err)
	}
	all := counting.CountCalls(storetest.MethodPut, "*")
	if all < 12 {
		t.Fatalf("only %d writes", all)
	}
	for kind, fault := range map[string]storetest.Fault{
		"halfway": {Cut: true, CutAt: 20, CutErr: errBroken}, "half of it stays": {Cut: true, CutAt: 20},
	} {
		writes := all
		if kind == "half of it stays" {
			writes -= 2 // the last are the manifests, which Commit writes
		}
		for nth := 1; nth <= writes; nth++ {
			t.Run(fmt.Sprintf("%s write %d", kind, nth), func(t *testing.T) {
				t.Parallel()
				objects := memory.New()
				j := waiting(t, objects, &operator{})
				fault := fault
				fault.Method, fault.Nth = storetest.MethodPut, nth
				got, err := j.Finalize(t.Context(), open(storetest.NewFaultyStore(objects, fault)), withOperations(), completed())
				if err != nil {
					if errors.Is(err, backup.ErrNoDraft) {
						t.Errorf("it is of no use to call it again: %v", err)
					}
					got, err = j.Finalize(t.Context(), open(objects), withOperations(), completed())
				}
				if err != nil {
					t.Fatal(err)
				}
				if got.Bytes == 0 {
					got.Bytes = want.Bytes // it had already succeeded
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("result (-undisturbed +got):\n%s", diff)
				}
				if diff := cmp.Diff(undisturbed, stable(t, objects)); diff != "" {
					t.Errorf("files (-undisturbed +got):\n%s", diff)
				}
				if err := open(objects).Verify(t.Context(), "nightly"); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestFinalize_Failures: there is no manifest, no file remains in the scratch directory, and
// another call succeeds.
func TestFinalize_Failures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fail  error
		fault *storetest.Fault
		text  string
	}{
		"the engine":      {fail: errBroken, text: "archiving the results of operations"},
		"the draft":       {fault: &storetest.Fault{Method: storetest.MethodGet, Key: "*draft.json.gz", Before: errBroken}, text: "getting draft"},
		"the archive":     {fault: &storetest.Fault{Method: storetest.MethodGet, Key: "*y.tar.gz", Cut: true, CutAt: 50, CutErr: errBroken}, text: "adding the results of operations"},
		"the new archive": {fault: &storetest.Fault{Method: storetest.MethodGet, Key: "*merged.tar.gz", Cut: true, CutAt: 50, CutErr: errBroken}, text: "replacing the archive"},
		"the look":        {fault: &storetest.Fault{Method: storetest.MethodList, Nth: 1, Before: errBroken}, text: "looking for an earlier attempt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, o := memory.New(), &operator{}
			j := waiting(t, objects, o)
			faulty := storetest.NewFaultyStore(objects)
			if tc.fault != nil {
				faulty.AddFaults(*tc.fault)
			}
			if tc.fail != nil {
				o.fail = func() error { return tc.fail }
			}
			_, err := j.Finalize(t.Context(), open(faulty), withOperations(), completed())
			if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error %v, want %q", err, tc.text)
			}
			if committed, err := open(objects).IsCommitted(t.Context(), "nightly", "u-1"); committed || err != nil {
				t.Errorf("it is committed: %t, %v", committed, err)
			}
			if left, err := os.ReadDir(j.Scratch.Path); err != nil || len(left) > 0 {
				t.Errorf("left in the scratch directory: %v, %v", left, err)
			}
			o.fail = nil
			if _, err := j.Finalize(t.Context(), open(objects), withOperations(), completed()); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, objects, complete()...)
		})
	}
}

// TestFinalize_WrongArchive: the archive in the store is not the stored one, valid or
// not.
func TestFinalize_WrongArchive(t *testing.T) {
	t.Parallel()
	var good bytes.Buffer
	out, err := tarball.NewWriter(&good, tarball.WriterOptions{})
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		put  func(ctx context.Context, s *storage.Store) error
		want error
	}{
		"the first": {func(ctx context.Context, s *storage.Store) error {
			_, err := putContents(ctx, s, "nightly", "u-1", &good)
			return err
		}, tarball.ErrDigestMismatch},
		"that with the results of operations": {func(ctx context.Context, s *storage.Store) error {
			_, err := s.PutFile(ctx, "nightly", "u-1", storage.MergedContents, strings.NewReader("another"))
			return err
		}, backup.ErrNoDraft},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := memory.New()
			j := waiting(t, objects, &operator{})
			if errors.Is(tc.want, backup.ErrNoDraft) {
				faulty := storetest.NewFaultyStore(objects, storetest.Fault{Method: storetest.MethodGet, Key: "*merged.tar.gz", Before: errBroken})
				if _, err := j.Finalize(t.Context(), open(faulty), withOperations(), completed()); !errors.Is(err, errBroken) {
					t.Fatal(err)
				}
			}
			if err := tc.put(t.Context(), open(objects)); err != nil {
				t.Fatal(err)
			}
			if _, err := j.Finalize(t.Context(), open(objects), withOperations(), completed()); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if committed, err := open(objects).IsCommitted(t.Context(), "nightly", "u-1"); committed || err != nil {
				t.Errorf("it is committed: %t, %v", committed, err)
			}
		})
	}
}

// TestArchive_OperationNotRecorded starts operations that cannot be recorded. They end in the engine.
func TestArchive_OperationNotRecorded(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	j := worker(t, t.TempDir(), &operator{})
	req := withOperations(func(r *backup.Request) { r.Attempt = 3 })
	req.OnOperationStarted = func(context.Context, itemaction.Operation) error { return errBroken }
	if err := j.Claim(t.Context(), open(objects), req); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Archive(t.Context(), open(objects), req); !errors.Is(err, errBroken) {
		t.Errorf("error %v, want that of Started", err)
	}
}
