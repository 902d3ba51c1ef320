// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package location

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lease"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
)

// refusing is a store with read-only credentials.
type refusing struct{ objectstore.Store }

// Put implements objectstore.Store.
func (refusing) Put(_ context.Context, key string, _ io.Reader, _ objectstore.PutOptions) (objectstore.Info, error) {
	return objectstore.Info{}, &objectstore.Error{Op: "putting", Key: key, Kind: objectstore.ErrAccess}
}

// TestNewStore_RefusedWrite: a refused write is final in a read-only location. In another location a user
// may still grant the permission.
func TestNewStore_RefusedWrite(t *testing.T) {
	for mode, unwritable := range map[v1alpha1.AccessMode]bool{
		v1alpha1.AccessModeReadOnly: true, v1alpha1.AccessModeReadWrite: false, "": false,
	} {
		bsl := &v1alpha1.BackupStorageLocation{Spec: v1alpha1.BackupStorageLocationSpec{AccessMode: mode}}
		store := new(Opener).newStore(refusing{memory.New()}, bsl, func() error { return nil })
		_, err := store.PutRestoreFile(t.Context(), "again", storage.RestoreLogs, strings.NewReader(""))
		if !errors.Is(err, objectstore.ErrAccess) || objectstore.IsUnwritable(err) != unwritable {
			t.Errorf("accessMode %q: %v is unwritable: %t, want %t", mode, err, !unwritable, unwritable)
		}
	}
}

// extended is a store with every optional interface.
type extended struct{ objectstore.Store }

func (extended) AbortUploads(context.Context, string) (int, error) { return 3, nil }

func (extended) Space(context.Context) (objectstore.Space, error) {
	return objectstore.Space{Total: 100, Free: 10}, nil
}

func (extended) CommonPrefixes(context.Context, objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	return func(yield func(objectstore.Entry, error) bool) {
		yield(objectstore.Entry{Info: objectstore.Info{Key: "shortcut/"}, IsPrefix: true}, nil)
	}
}

// TestGuardObjectStore_KeepsOptionalInterfaces: the wrappers keep the optional interfaces of a
// store, and add implementations without effect to a store that lacks them.
func TestGuardObjectStore_KeepsOptionalInterfaces(t *testing.T) {
	plain := memory.New()
	for _, key := range []string{"a/1", "b", "c/2"} {
		if _, err := plain.Put(t.Context(), key, strings.NewReader(""), objectstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		store    objectstore.Store
		space    objectstore.Space
		aborted  int
		prefixes []string
	}{
		"a store with them":    {store: extended{plain}, space: objectstore.Space{Total: 100, Free: 10}, aborted: 3, prefixes: []string{"shortcut/"}},
		"a store without them": {store: plain, prefixes: []string{"a/", "c/"}},
	} {
		for _, mode := range []v1alpha1.AccessMode{v1alpha1.AccessModeReadWrite, v1alpha1.AccessModeReadOnly} {
			for _, fence := range []*lease.Fence{nil, lease.New(15*time.Second, 10*time.Second)} {
				t.Run(fmt.Sprintf("%s, %s, leader election %t", name, mode, fence != nil), func(t *testing.T) {
					bsl := &v1alpha1.BackupStorageLocation{Spec: v1alpha1.BackupStorageLocationSpec{AccessMode: mode}}
					o := &Opener{Fence: fence}
					if space, err := o.newStore(tc.store, bsl, nil).Space(t.Context()); space != tc.space || err != nil {
						t.Errorf("Space: %+v, %v", space, err)
					}
					s := o.guardObjectStore(tc.store, bsl)
					var prefixes []string
					for entry, err := range s.CommonPrefixes(t.Context(), objectstore.ListOptions{Delimiter: "/"}) {
						if err != nil {
							t.Fatal(err)
						}
						prefixes = append(prefixes, entry.Key)
					}
					if !slices.Equal(prefixes, tc.prefixes) {
						t.Errorf("CommonPrefixes: %q", prefixes)
					}
					n, err := s.AbortUploads(t.Context(), "")
					if fence != nil { // this operator is not the leader
						if !errors.Is(err, lease.ErrNotLeading) {
							t.Errorf("AbortUploads without the lease: %v", err)
						}
					} else if n != tc.aborted || err != nil {
						t.Errorf("AbortUploads: %d, %v", n, err)
					}
				})
			}
		}
	}
}
