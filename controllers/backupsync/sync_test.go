// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupimport"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// TestSync_StoreUnavailable ends a sync whose list cannot be trusted.
func TestSync_StoreUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.local("ours", "u-1", "main", v1alpha1.RunPhaseCompleted, w.now.Add(-time.Hour))
	w.velero("a", "v-a")
	w.store.fails = func(string) error { return objectstore.ErrUnavailable }
	for _, prepare := range []func(){func() {}, func() { w.drop("a") }} {
		prepare()
		w.writes = nil
		if _, err := w.try(); !errors.Is(err, objectstore.ErrUnavailable) || len(w.writes) > 0 {
			t.Errorf("error %v, written: %q", err, w.writes)
		}
	}
	w.store.fails = nil
	w.refuse = func(string, client.Object) error { return apierrors.NewServiceUnavailable("busy") }
	w.velero("a", "v-a")
	if _, err := w.try(); err == nil {
		t.Error("a failed creation is no error")
	}
	w.refuse = nil
	w.look()
	w.wantNames("a", "ours")
}

// TestSync_ConcurrentChanges changes the cluster while a sync waits for the limiter.
func TestSync_ConcurrentChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.velero(name, "v-"+name)
	}
	w.looker.Limiter = waits(func() {
		if w.now = w.now.Add(10 * time.Second); len(w.names()) == 1 { // after the first one
			w.remember("b", "v-b")
			w.bare("mine", "c", "v-c")
		}
	})
	w.look()
	w.wantNames("a", "mine")
	w.look()
	w.wantNames("a", "mine")
	if b := w.get("mine"); b.Status.Phase != v1alpha1.RunPhaseCompleted {
		t.Errorf("the Backup is %+v", b)
	}
}

// TestSync_ThousandsOfBackups syncs 5,000 backups, none of which is new, with an operator that was just
// started: it lists them once, and reads and writes nothing.
func TestSync_ThousandsOfBackups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.thousands()
	w.restart()
	w.store.lists = 0
	w.quiet()
	if w.store.lists != 1 || w.turns.taken != 0 {
		t.Errorf("the location was listed %d times, and %d turns were taken", w.store.lists, w.turns.taken)
	}
}

// BenchmarkUnchanged measures such a sync.
func BenchmarkUnchanged(b *testing.B) {
	w := newWorld(b)
	w.thousands()
	b.ResetTimer()
	for range b.N {
		w.restart()
		w.quiet()
	}
}

// thousands stores 5,000 backups, which have Backups and tombstones.
func (w *world) thousands() {
	w.t.Helper()
	var all cached
	for i := range 5000 {
		name, uid := fmt.Sprintf("nightly-%04d", i), fmt.Sprintf("v-%d", i)
		for _, file := range []string{name + ".tar.gz", name + "-logs.gz", name + "-results.gz", name + "-grapnel.json", name + "-claim.json"} {
			w.put("backups/"+name+"/"+file, "x")
		}
		w.velero(name, uid)
		made, err := backupimport.BackupFromManifest(backupimport.Source{Namespace: namespace, Location: "main", Name: name}, []byte(manifestOf(name, uid, "Completed")), nil)
		w.must(err)
		all = append(all, *made)
	}
	w.looker.Client = staleCache{Client: w.client, lists: all}
	w.look() // records all of them
}
