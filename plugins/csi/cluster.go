// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// clientQPS and clientBurst are high enough for hundreds of claims at once. The API server
	// limits its clients by itself.
	clientQPS   = 200
	clientBurst = 400
	// maxConcurrentCreates limits how many snapshots are created at the same time. How many
	// the driver takes at the same time is up to csi-snapshotter (--worker-threads).
	maxConcurrentCreates = 16
	// classesMaxAge is how long classes are cached: a backup reads them once, not per claim.
	classesMaxAge = 5 * time.Second
)

// clients are the clients of the API server.
type clients struct {
	core      kubernetes.Interface
	snapshots snapshotclient.Interface
}

// connectFromEnvironment connects to the API server in the file KUBECONFIG, which
// spec.executor.process.env of the Plugin may set, or to that of the pod.
func connectFromEnvironment() (clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	if err != nil {
		return clients{}, fmt.Errorf("finding the API server: run in a pod, or set KUBECONFIG in the env of the Plugin: %w", err)
	}
	config.QPS, config.Burst, config.UserAgent = clientQPS, clientBurst, "grapnel-plugin-csi"
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("connecting to the API server: %w", err)
	}
	snapshots, err := snapshotclient.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("connecting to the API server: %w", err)
	}
	return clients{core: core, snapshots: snapshots}, nil
}

// cluster is what the actions share. It is safe for concurrent use.
type cluster struct {
	// connect returns the same clients each time.
	connect func() (clients, error)
	// watchSnapshots starts the watch of the VolumeSnapshots of this plugin, once, and returns
	// its store.
	watchSnapshots func() (cache.SharedIndexInformer, error)
	// creates limits concurrent creations.
	creates chan struct{}
	// snapshotContents and groupContents are the contents of single snapshots and of groups.
	snapshotContents contents[snapshotv1.VolumeSnapshotContent]
	groupContents    contents[groupsnapshotv1.VolumeGroupSnapshotContent]

	classes memo[observedClasses]
	groups  memo[observedGroupClasses]
	handles memo[map[string]string]
	// failing has the snapshots with an error, by the UID of the VolumeSnapshot; retained and
	// captured those whose content is retained, and those that the driver has taken. ready has those whose content is ready to
	// use: an operation that has completed stays so, although its VolumeSnapshot is ready later.
	failing, retained, captured, ready recentSet
	// waiting has the snapshots that are not ready, since csi-snapshotter was reminded of them.
	waiting recentSet
	// canceled has the operations that were canceled, by their ID. discarded has the UIDs of the VolumeSnapshots and
	// VolumeGroupSnapshots whose removal this process requested: their contents must not be retained anymore.
	canceled, discarded recentSet
	// completed has the operations that have completed, and superseded those whose work a later call continues, by their ID.
	completed, superseded recentSet
	// removing has the contents that are being removed, as far as this process requested it.
	removing recentSet
	// removed has the contents whose snapshots this process has deleted in the driver.
	removed recentSet
	// restoring has the operations of restores, by their ID. leaving has the VolumeSnapshots of restores that are being
	// removed, and orphans those without their claim, by their UID.
	restoring, leaving, orphans recentSet
}

// newCluster returns the cluster. ctx ends its watch.
func newCluster(ctx context.Context, connect func() (clients, error)) *cluster {
	c := &cluster{connect: retryUntilConnected(connect), creates: make(chan struct{}, maxConcurrentCreates)}
	c.snapshotContents, c.groupContents = c.newSnapshotContents(), c.newGroupContents()
	c.watchSnapshots = sync.OnceValues(func() (cache.SharedIndexInformer, error) {
		api, err := c.connect()
		if err != nil {
			return nil, err
		}
		informer := newSnapshotInformer(api.snapshots)
		if err := informer.SetTransform(stripSnapshot); err != nil {
			return nil, err
		}
		go informer.RunWithContext(ctx)
		return informer, nil
	})
	return c
}

// retryUntilConnected returns the clients of the first call that succeeds, each time.
func retryUntilConnected(connect func() (clients, error)) func() (clients, error) {
	var mu sync.Mutex
	var connected *clients
	return func() (clients, error) {
		mu.Lock()
		defer mu.Unlock()
		if connected != nil {
			return *connected, nil
		}
		api, err := connect()
		if err == nil {
			connected = &api
		}
		return api, err
	}
}

// newSnapshotInformer returns an informer for the VolumeSnapshots of backups of this plugin.
func newSnapshotInformer(client snapshotclient.Interface) cache.SharedIndexInformer {
	list := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = labelRunUID
			return client.SnapshotV1().VolumeSnapshots(metav1.NamespaceAll).List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = labelRunUID
			return client.SnapshotV1().VolumeSnapshots(metav1.NamespaceAll).Watch(ctx, options)
		},
	}
	return cache.NewSharedIndexInformer(list, &snapshotv1.VolumeSnapshot{}, 0, cache.Indexers{})
}

// stripSnapshot removes what no action needs, to save memory.
func stripSnapshot(object any) (any, error) {
	if snapshot, ok := object.(*snapshotv1.VolumeSnapshot); ok {
		snapshot.ManagedFields = nil
	}
	return object, nil
}

// getSnapshot returns a VolumeSnapshot from the watch, or else from the API server. It returns
// nil if the VolumeSnapshot does not exist, or has another UID. The caller must not change it.
func (c *cluster) getSnapshot(ctx context.Context, key types.NamespacedName, uid types.UID) (*snapshotv1.VolumeSnapshot, error) {
	informer, err := c.watchSnapshots()
	if err != nil {
		return nil, err
	}
	if object, found, err := informer.GetStore().GetByKey(key.String()); err == nil && found {
		if snapshot, ok := object.(*snapshotv1.VolumeSnapshot); ok && snapshot.UID == uid {
			return snapshot, nil
		}
	}
	return c.readSnapshot(ctx, key, uid)
}

// readSnapshot is getSnapshot without the watch, which may be behind.
func (c *cluster) readSnapshot(ctx context.Context, key types.NamespacedName, uid types.UID) (*snapshotv1.VolumeSnapshot, error) {
	api, err := c.connect()
	if err != nil {
		return nil, err
	}
	snapshot, err := getIfExists(ctx, api.snapshots.SnapshotV1().VolumeSnapshots(key.Namespace), "VolumeSnapshot", key.Name)
	if err != nil || snapshot == nil || snapshot.UID != uid {
		return nil, err // another object may have its name
	}
	return snapshot, nil
}

// getIfExists returns an object, nil if it does not exist.
func getIfExists[T any](ctx context.Context, client interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*T, error)
}, kind, name string,
) (*T, error) {
	object, err := client.Get(ctx, name, metav1.GetOptions{})
	return ifExists(object, err, "reading "+kind+" "+name)
}

// ifExists returns what a request for an object returned, and neither object nor error if it does not exist.
func ifExists[T any](object *T, err error, what string) (*T, error) {
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // nil means that it does not exist
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return object, nil
}

// deleteWithUID deletes an object with a UID, and reports whether there was one.
func deleteWithUID(ctx context.Context, client interface {
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}, kind string, key types.NamespacedName, uid types.UID,
) (existed bool, err error) {
	err = client.Delete(ctx, key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("deleting %s %s: %w", kind, key, err)
	}
	return true, nil
}

// acquireCreate waits until a snapshot may be created. The caller calls release afterwards.
func (c *cluster) acquireCreate(ctx context.Context) (release func(), err error) {
	select {
	case c.creates <- struct{}{}:
		return func() { <-c.creates }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// memo keeps a value for a short time, and reads it once for all that need it.
type memo[T any] struct {
	mu      sync.Mutex
	value   T
	expires time.Time
}

func (m *memo[T]) get(read func() (T, error)) (T, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Now().Before(m.expires) {
		return m.value, nil
	}
	value, err := read()
	if err == nil {
		m.value, m.expires = value, time.Now().Add(classesMaxAge)
	}
	return value, err
}

// maxRecent bounds a recentSet. Beyond, it forgets everything, which costs some requests.
const maxRecent = 20_000

// recentSet remembers keys, and since when, for as long as the process lives. It measures by the monotonic clock, which does
// not depend on whether the time of the machine is correct.
type recentSet struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// add adds a key, and returns for how long it has been in the set.
func (s *recentSet) add(key string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since, ok := s.since[key]; ok {
		return time.Since(since)
	}
	if s.since == nil || len(s.since) >= maxRecent {
		s.since = map[string]time.Time{}
	}
	s.since[key] = time.Now()
	return 0
}

func (s *recentSet) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.since[key]
	return ok
}

func (s *recentSet) keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.since))
}

func (s *recentSet) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.since, key)
}

// installSnapshotter is what to do if the cluster does not serve the API of snapshots or of group snapshots.
const installSnapshotter = "install the CustomResourceDefinitions and the snapshot-controller of kubernetes-csi/external-snapshotter"

// errNotServed means that the cluster does not serve the API of snapshots.
var errNotServed = errors.New("the cluster does not serve snapshot.storage.k8s.io/v1")

// isNotServed reports whether an error of a list means that its resource does not exist.
func isNotServed(err error) bool { return apierrors.IsNotFound(err) }
