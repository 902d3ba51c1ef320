// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package location

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/filesystem"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/watchdog"
)

// volumeLimits returns how long a volume may make no progress. Its system calls cannot be ended.
// Written data may stay in memory until the end of a write, which then takes long.
func volumeLimits() watchdog.Timeouts {
	return watchdog.Timeouts{Call: 2 * time.Minute, Stream: time.Minute, Finish: 15 * time.Minute}
}

// locationStuckCalls counts the calls that hang in the store of a location, by the name of the
// location.
type locationStuckCalls struct {
	mu    sync.Mutex
	calls map[types.NamespacedName]*watchdog.StuckCalls
}

func (s *locationStuckCalls) callsForLocation(key types.NamespacedName) *watchdog.StuckCalls {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == nil {
		s.calls = map[types.NamespacedName]*watchdog.StuckCalls{}
	}
	if s.calls[key] == nil {
		s.calls[key] = &watchdog.StuckCalls{}
	}
	return s.calls[key]
}

// pruneLocation drops the count of a deleted location, unless calls hang: another
// location of that name may use the same store.
func (s *locationStuckCalls) pruneLocation(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.calls[key]; c != nil && c.Count() == 0 {
		delete(s.calls, key)
	}
}

// watchdogOptions returns the watchdog options for the store of a location. A bucket or the store
// of a plugin has no limits here: both end a stalled transfer themselves, because they know which
// bytes move on the wire.
func (o *Opener) watchdogOptions(bsl *v1alpha1.BackupStorageLocation) watchdog.Options {
	options := watchdog.Options{
		Name:       "the store of BackupStorageLocation " + bsl.Name,
		Hint:       "check the storage service",
		StuckCalls: o.stuckCalls.callsForLocation(client.ObjectKeyFromObject(bsl)),
	}
	if bsl.Spec.Filesystem != nil {
		options.Name = "the volume of BackupStorageLocation " + bsl.Name
		options.Hint = "check the volume and its backend (an NFS server, the node's disk)"
		options.Timeouts = volumeLimits()
	}
	return options
}

// openVolumeStore opens the store of a filesystem location.
func (o *Opener) openVolumeStore(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*Store, error) {
	if o.Root == "" {
		return nil, fmt.Errorf("%w: filesystem locations need the flag --store-root on the operator", ErrInvalidSpec)
	}
	options := o.watchdogOptions(bsl)
	store, err := watchdog.RunWithTimeout(ctx, options, options.Timeouts.Call, func(context.Context) (*filesystem.Store, error) {
		return filesystem.Open(o.Root, bsl.Spec.Filesystem.Path)
	}, func(late *filesystem.Store) { _ = late.Close() })
	if err != nil {
		return nil, fmt.Errorf("opening directory: %w", err)
	}
	return o.newStore(store, bsl, store.Close), nil
}

// newStore returns a Store whose calls end, whatever the object store does.
func (o *Opener) newStore(objects objectstore.Store, bsl *v1alpha1.BackupStorageLocation, closer func() error) *Store {
	return &Store{Store: storage.New(o.guardObjectStore(objects, bsl), bsl.Spec.Prefix), closeFunc: closer}
}

// guardObjectStore wraps an object store with everything that limits or refuses its calls. The
// fence is outermost, because its delays must not count as delays of the store.
func (o *Opener) guardObjectStore(objects objectstore.Store, bsl *v1alpha1.BackupStorageLocation) objectstore.ExtendedStore {
	var guarded objectstore.ExtendedStore = watchdog.New(objects, o.watchdogOptions(bsl))
	if o.Metrics != nil {
		guarded = measuredStore{guarded, o.Metrics, bsl.Name}
	}
	if bsl.Spec.AccessMode == v1alpha1.AccessModeReadOnly {
		guarded = readOnly{guarded}
	}
	return o.Fence.WrapObjectStore(guarded)
}

// readOnly is the store of a location with spec.accessMode ReadOnly. Logs and results of Restores
// are still stored there if the credentials allow that.
type readOnly struct{ objectstore.ExtendedStore }

// Put implements objectstore.Store. A refused write is expected in a read-only location.
func (s readOnly) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	info, err := s.ExtendedStore.Put(ctx, key, r, opts)
	if errors.Is(err, objectstore.ErrAccess) {
		err = fmt.Errorf("%w: %w", objectstore.ErrReadOnly, err)
	}
	return info, err
}
