// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
	"github.com/grapnel-dev/grapnel/test/interop/plugins/actions"
)

const bucket = "backups"

// locate returns a way to the store of a location in a directory that it makes.
func (h *host) locate(location, name string) (to target[pluginclient.ObjectStore], root string) {
	h.t.Helper()
	root = h.t.TempDir()
	if err := os.Mkdir(filepath.Join(root, bucket), 0o755); err != nil {
		h.t.Fatal(err)
	}
	return h.store(location, name, map[string]string{actions.ConfigRoot: root, "bucket": bucket}), root
}

func (h *host) store(location, name string, config map[string]string) target[pluginclient.ObjectStore] {
	resolve := h.catalog.ObjectStore(catalog.StoreSpec{Plugin: pluginObject, Name: name, Location: location, Config: config})
	return target[pluginclient.ObjectStore]{resolve, name, h.log.Logger()}
}

func TestObjectStore_Conformance(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		stores := 0
		storetest.RunConformance(t, func() objectstore.Store {
			stores++
			to, _ := h.locate(fmt.Sprintf("location-%d", stores), actions.Directory)
			return pluginclient.NewStore(pluginclient.NewCaller(to.resolve, h.catalog.Redactor()),
				pluginclient.StoreOptions{Action: actions.Directory, Bucket: bucket, Log: h.log.Logger()})
		})
	})
}

// TestObjectStore_SeparateLocations: a plugin for Velero keeps one configuration per process.
func TestObjectStore_SeparateLocations(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		first, firstRoot := h.locate("first", actions.Directory)
		second, secondRoot := h.locate("second", actions.Directory)
		other, otherRoot := h.locate("first-too", actions.DirectoryToo)
		for root, to := range map[string]target[pluginclient.ObjectStore]{firstRoot: first, secondRoot: second, otherRoot: other} {
			if err := h.put(to, "who", root); err != nil {
				t.Fatal(err)
			}
		}
		for _, root := range []string{firstRoot, secondRoot, otherRoot} {
			if got, err := os.ReadFile(filepath.Join(root, bucket, "who")); err != nil || string(got) != root {
				t.Errorf("the location in %s holds %q, error %v", root, got, err)
			}
		}
	})
}

// put stores a text.
func (h *host) put(to target[pluginclient.ObjectStore], key, text string) error {
	_, err := ask(h.t.Context(), h, to, func(ctx context.Context, store pluginclient.ObjectStore, on pluginclient.ItemCall) (struct{}, error) {
		return struct{}{}, store.Put(ctx, on, pluginclient.StoredObject{Bucket: bucket, Key: key}, strings.NewReader(text))
	})
	return err
}

func TestObjectStore_SignedURL(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		to, root := h.locate("main", actions.Directory)
		direct := actions.NewDirectory()
		if err := direct.Init(map[string]string{actions.ConfigRoot: root}); err != nil {
			t.Fatal(err)
		}
		want, err := direct.CreateSignedURL(bucket, "backups/a/a.tar.gz", 10*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ask(t.Context(), h, to,
			func(ctx context.Context, store pluginclient.ObjectStore, on pluginclient.ItemCall) (string, error) {
				return store.SignedURL(ctx, on, pluginclient.StoredObject{Bucket: bucket, Key: "backups/a/a.tar.gz"}, 10*time.Minute)
			})
		if err != nil || got != want {
			t.Errorf("the URL is %q, error %v; want %q", got, err, want)
		}
	})
}

func TestObjectStore_InvalidConfig(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		if err := h.put(h.store("main", actions.Directory, nil), "key", "text"); err == nil || !strings.Contains(err.Error(), `the configuration has no "root"`) {
			t.Errorf("a store without its configuration answers %v", err)
		}
	})
}
