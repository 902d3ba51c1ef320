// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/backupsync"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

const namespace = "grapnel-system"

// world is a location in memory and a fake cluster, with explicit syncs.
type world struct {
	t       testing.TB
	objects *memory.Store
	store   *store
	client  client.Client
	looker  *backupsync.Syncer
	memory  *backupsync.Cache
	bsl     *v1alpha1.BackupStorageLocation
	events  *events.FakeRecorder
	turns   *turns
	now     time.Time

	mu     sync.Mutex
	writes []string
	// refuse, if set, answers a write instead of the cluster.
	refuse func(verb string, object client.Object) error
}

// turns counts the writes, and fails after a number of them, if that is set.
type turns struct{ taken, most int }

var errNoTurn = errors.New("the limiter allows no more writes")

// Wait implements backupsync.Limiter.
func (l *turns) Wait(context.Context) error {
	if l.most > 0 && l.taken == l.most {
		return errNoTurn
	}
	l.taken++
	return nil
}

// waits is a limiter that calls a function during each wait.
type waits func()

// Wait implements backupsync.Limiter.
func (w waits) Wait(context.Context) error {
	w()
	return nil
}

// staleCache lists from another cluster.
type staleCache struct {
	client.Client
	lists client.Reader
}

// List implements client.Client.
func (s staleCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return s.lists.List(ctx, list, opts...)
}

// cached is a cache that contains only these Backups.
type cached []v1alpha1.Backup

// Get implements client.Reader.
func (cached) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the test reads no single objects")
}

// List implements client.Reader.
func (c cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if backups, ok := list.(*v1alpha1.BackupList); ok {
		backups.Items = slices.Clone(c)
	}
	return nil
}

// store counts reads, and hides names from the list.
type store struct {
	*storage.Store
	lists int
	reads []string
	hides map[string]bool
	// fails answers instead of the store.
	fails func(name string) error
}

// ListEntries implements backupsync.Store.
func (s *store) ListEntries(ctx context.Context) iter.Seq2[storage.Entry, error] {
	s.lists++
	return func(yield func(storage.Entry, error) bool) {
		for found, err := range s.Store.ListEntries(ctx) {
			if !s.hides[found.Name] && !yield(found, err) {
				return
			}
		}
	}
}

// ReadManifest implements backupsync.Store.
func (s *store) ReadManifest(ctx context.Context, name string) ([]byte, *storage.GrapnelManifest, error) {
	s.reads = append(s.reads, name)
	if s.fails != nil {
		if err := s.fails(name); err != nil {
			return nil, nil, err
		}
	}
	return s.Store.ReadManifest(ctx, name)
}

func newWorld(t testing.TB, options ...memory.Option) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, objects: memory.New(options...), memory: &backupsync.Cache{}, events: events.NewFakeRecorder(1000), turns: &turns{},
		bsl: &v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "main", UID: "location-1"}},
		now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC),
	}
	w.store = &store{Store: storage.New(w.objects, ""), hides: map[string]bool{}}
	w.client = interceptor.NewClient(
		fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Backup{}, &v1alpha1.DeletionRun{}).Build(), w.watched())
	w.must(w.client.Create(t.Context(), w.bsl.DeepCopy()))
	w.looker = &backupsync.Syncer{
		Client: w.client, Reader: w.client, Recorder: w.events, Redactor: redact.New("hunter22"), Limiter: w.turns,
		RereadBackoff: time.Minute, Now: func() time.Time { return w.now },
	}
	w.writes = nil
	return w
}

// watched records the writes.
func (w *world) watched() interceptor.Funcs {
	note := func(verb string, o client.Object) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.refuse != nil {
			if err := w.refuse(verb, o); err != nil {
				return err
			}
		}
		w.writes = append(w.writes, verb+" "+o.GetName())
		return nil
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := note("create", o); err != nil {
				return err
			}
			if o.GetUID() == "" {
				o.SetUID(types.UID("object-" + o.GetName()))
			}
			o.SetCreationTimestamp(metav1.NewTime(w.now))
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return errors.Join(note("patch", o), c.Patch(ctx, o, p, opts...))
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, _ string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := note("status of", o); err != nil {
				return err
			}
			return c.Status().Patch(ctx, o, p, opts...)
		},
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) put(key, content string) {
	w.t.Helper()
	_, err := w.objects.Put(w.t.Context(), key, bytes.NewReader([]byte(content)), objectstore.PutOptions{})
	w.must(err)
}

func (w *world) drop(name string) { w.t.Helper(); w.must(w.store.Delete(w.t.Context(), name)) }

// manifestOf returns an abridged manifest as Velero writes it.
func manifestOf(name, uid, phase string) string {
	return fmt.Sprintf(`{"kind":"Backup","apiVersion":"velero.io/v1","metadata":{"name":%q,"namespace":"velero","uid":%q},
		"spec":{"includedNamespaces":["shop"]},"status":{"phase":%q,"formatVersion":"1.1.0","startTimestamp":"2025-01-02T03:04:05Z",
		"completionTimestamp":"2025-01-02T03:05:00Z","progress":{"totalItems":3,"itemsBackedUp":3}}}`, name, uid, phase)
}

// velero stores a backup as Velero does.
func (w *world) velero(name, uid string) {
	w.t.Helper()
	w.put("backups/"+name+"/velero-backup.json", manifestOf(name, uid, "Completed"))
}

// grapnel stores a backup as Grapnel does.
func (w *world) grapnel(name, uid string) {
	w.t.Helper()
	ctx, s := w.t.Context(), w.store.Store
	w.must(s.Claim(ctx, name, storage.Claim{BackupUID: uid}))
	attempt, err := s.BeginAttempt(ctx, name, uid)
	w.must(err)
	digest, err := attempt.PutContents(ctx, strings.NewReader("archive"))
	w.must(err)
	w.must(attempt.Commit(ctx, storage.Manifest{
		VeleroBackup: []byte(manifestOf(name, uid, "Completed")),
		Grapnel: storage.GrapnelManifest{
			BackupUID: uid, Files: map[storage.File]storage.Digest{storage.Contents: digest},
		},
	}))
}

// try syncs the location.
func (w *world) try() (backupsync.Report, error) {
	w.t.Helper()
	return w.looker.Sync(w.t.Context(), w.store, w.bsl, w.memory)
}

// look syncs the location, and returns what was written.
func (w *world) look() (backupsync.Report, []string) {
	w.t.Helper()
	w.writes, w.store.reads = nil, nil
	report, err := w.try()
	w.must(err)
	return report, w.writes
}

// quiet syncs the location, and expects no reads and no writes.
func (w *world) quiet() {
	w.t.Helper()
	if _, writes := w.look(); len(writes) > 0 || len(w.store.reads) > 0 {
		w.t.Errorf("nothing changed, but %q were written and %q read", writes, w.store.reads)
	}
}

// restart clears the cache.
func (w *world) restart() { w.memory = &backupsync.Cache{} }

func (w *world) get(name string) *v1alpha1.Backup {
	w.t.Helper()
	b := &v1alpha1.Backup{}
	w.must(w.client.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, b))
	return b
}

// names returns the names of all Backups, with their stored names.
func (w *world) names() map[string]string {
	w.t.Helper()
	var list v1alpha1.BackupList
	w.must(w.client.List(w.t.Context(), &list))
	names := map[string]string{}
	for i := range list.Items {
		names[list.Items[i].Name] = list.Items[i].StoredName()
	}
	return names
}

func (w *world) wantNames(want ...string) {
	w.t.Helper()
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(w.names())); !slices.Equal(got, want) {
		w.t.Errorf("the Backups are %q, want %q", got, want)
	}
}

// local creates a Backup that this cluster made.
func (w *world) local(name, uid, location string, phase v1alpha1.RunPhase, completed time.Time) *v1alpha1.Backup {
	w.t.Helper()
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
	w.must(w.client.Create(w.t.Context(), b))
	b.Status.Phase, b.Status.StorageLocation = phase, location
	if !completed.IsZero() {
		at := metav1.NewTime(completed)
		b.Status.CompletionTimestamp = &at
	}
	w.must(w.client.Status().Update(w.t.Context(), b))
	return b
}

// bare creates a Backup as a user does to import a backup.
func (w *world) bare(name, storedName, uid string) *v1alpha1.Backup {
	w.t.Helper()
	b := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.BackupSpec{ImportedFrom: &v1alpha1.ImportSource{
			StorageLocation: "main", BackupUID: uid, BackupName: storedName,
		}},
	}
	w.must(w.client.Create(w.t.Context(), b))
	return b
}

// forget removes an object, as a user does.
func (w *world) forget(name string) {
	w.t.Helper()
	w.must(w.client.Delete(w.t.Context(), w.get(name)))
}

func (w *world) remember(storedName, uid string) {
	w.t.Helper()
	w.must(tombstone.AddRecords(w.t.Context(), w.client, w.client, namespace, "main", tombstone.Records{storedName: uid}))
}

// said returns the status, reason and message of a condition; "" if there is none.
func (w *world) said(name, condition string) (status metav1.ConditionStatus, reason, message string) {
	w.t.Helper()
	c := conditions.Get(w.get(name), condition)
	if c == nil {
		return "", "", ""
	}
	return c.Status, c.Reason, c.Message
}

// event returns the next event; "" if there is none.
func (w *world) event() string {
	select {
	case text := <-w.events.Events:
		return text
	default:
		return ""
	}
}
