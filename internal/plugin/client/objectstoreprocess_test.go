// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
	"github.com/grapnel-dev/grapnel/internal/testing/storeplugin"
)

// processes runs plugins for a test.
type processes struct {
	t         *testing.T
	catalog   *catalog.Catalog
	directory *storeplugin.BucketDir
}

func newProcesses(t *testing.T, buckets ...string) *processes {
	t.Helper()
	c := catalog.New(catalog.Options{Grace: 100 * time.Millisecond})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		c.Close(ctx)
	})
	p := &processes{t: t, catalog: c, directory: storeplugin.NewBucketDir(t, buckets...)}
	if _, err := c.Load(t.Context(), p.directory.PluginSpec("directory")); err != nil {
		t.Fatal(err)
	}
	return p
}

// store returns the store of a location in a bucket.
func (p *processes) store(location, inBucket string) *pluginclient.Store {
	resolve := p.catalog.ObjectStore(catalog.StoreSpec{
		Plugin: "directory", Name: storeplugin.Provider, Location: location, Config: map[string]string{"bucket": inBucket},
	})
	return pluginclient.NewStore(pluginclient.NewCaller(resolve, redact.New()), pluginclient.StoreOptions{Action: storeplugin.Provider, Bucket: inBucket})
}

func TestStore_ConformanceOfProcess(t *testing.T) {
	t.Parallel()
	p, n := newProcesses(t), 0
	storetest.RunConformance(t, func() objectstore.Store {
		n++
		name := fmt.Sprintf("bucket-%d", n)
		p.directory.CreateBucket(name)
		return p.store("location", name)
	})
}

// TestStore_ConformanceOfExamplePlugin tests the example that authors copy.
func TestStore_ConformanceOfExamplePlugin(t *testing.T) {
	t.Parallel()
	root, err := program.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "exampleplugin")
	if err := program.Build(t.Context(), filepath.Join(root, "test", "exampleplugin"), binary); err != nil {
		t.Fatal(err)
	}
	p := newProcesses(t)
	spec := catalog.Spec{Name: "example", Process: catalog.ProcessSpec{Path: binary}}
	if _, err := p.catalog.Load(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	n := 0
	storetest.RunConformance(t, func() objectstore.Store {
		n++
		resolve := p.catalog.ObjectStore(catalog.StoreSpec{
			Plugin: "example", Name: exampleDirectory, Location: fmt.Sprintf("location-%d", n), Config: map[string]string{"directory": t.TempDir()},
		})
		return pluginclient.NewStore(pluginclient.NewCaller(resolve, redact.New()), pluginclient.StoreOptions{Action: exampleDirectory, Bucket: bucket})
	})
}

const exampleDirectory = "example.io/directory"

// TestStore_ExitDuringPut kills the process after a part of the object has arrived: no object is
// created, and an existing object stays.
func TestStore_ExitDuringPut(t *testing.T) {
	t.Parallel()
	p := newProcesses(t, bucket)
	s := p.store("location", bucket)
	put(t, s, "backups/"+storeplugin.KillOnGetPrefix, "old")
	content := bytes.Repeat([]byte("x"), 5<<20)
	_, err := s.Put(t.Context(), "backups/"+storeplugin.KillOnPutPrefix, bytes.NewReader(content), objectstore.PutOptions{})
	if !errors.Is(err, objectstore.ErrUnavailable) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("error %v, want ErrUnavailable and why", err)
	}
	keys, err := collect(s.List(t.Context(), objectstore.ListOptions{}))
	if err != nil || len(keys) != 1 {
		t.Errorf("after the process exited there is %q, error %v", keys, err)
	}
	if starts := p.directory.AcceptedInits(); len(starts) != 2 || starts[0].PID == starts[1].PID || starts[1].Config["bucket"] != bucket {
		t.Errorf("the store was initialized with %+v", starts)
	}
}

// TestStore_ExitDuringGet kills the process after a part of the object was read.
func TestStore_ExitDuringGet(t *testing.T) {
	t.Parallel()
	p := newProcesses(t, bucket)
	s := p.store("location", bucket)
	const size = 20 << 20
	put(t, s, storeplugin.KillOnGetPrefix, strings.Repeat("x", size))
	r, err := s.Get(t.Context(), storeplugin.KillOnGetPrefix)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, r)
	if n == 0 || n >= size || !errors.Is(err, objectstore.ErrUnavailable) {
		t.Errorf("read %d bytes, error %v", n, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	put(t, s, "key", "content")
	if content, err := read(t, s, "key"); content != "content" || err != nil {
		t.Errorf("read %q after the process exited, error %v", content, err)
	}
}

// TestStore_PutBreaks uses a source that fails after several messages: the plugin must not take
// the failure for the end of the object.
func TestStore_PutBreaks(t *testing.T) {
	t.Parallel()
	p := newProcesses(t, bucket)
	s := p.store("location", bucket)
	errBroken := errors.New("the source is broken")
	for range 20 {
		r := io.MultiReader(bytes.NewReader(make([]byte, 3<<20)), failing{errBroken})
		if _, err := s.Put(t.Context(), "key", r, objectstore.PutOptions{}); !errors.Is(err, errBroken) {
			t.Fatalf("error %v, want that of the source", err)
		}
		if found, err := collect(s.List(t.Context(), objectstore.ListOptions{})); err != nil || len(found) > 0 {
			t.Fatalf("a broken upload left %q, error %v", found, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestStore_TwoLocations: a process has only one configuration.
func TestStore_TwoLocations(t *testing.T) {
	t.Parallel()
	p := newProcesses(t, "first", "second")
	first, second := p.store("1", "first"), p.store("2", "second")
	for range 3 {
		put(t, first, "key", "first")
		put(t, second, "key", "second")
	}
	for s, want := range map[*pluginclient.Store]string{first: "first", second: "second"} {
		if got, err := read(t, s, "key"); got != want || err != nil {
			t.Errorf("%s holds %q, error %v", want, got, err)
		}
	}
	if starts := p.directory.AcceptedInits(); len(starts) != 2 || starts[0].PID == starts[1].PID {
		t.Errorf("the stores were initialized with %+v", starts)
	}
}

// TestStore_InitRefused shows the message for a wrong configuration.
func TestStore_InitRefused(t *testing.T) {
	t.Parallel()
	p := newProcesses(t)
	_, err := p.store("location", "missing").Get(t.Context(), "key")
	if !errors.Is(err, objectstore.ErrUnavailable) || !strings.Contains(err.Error(), `the bucket "missing" does not exist`) {
		t.Errorf("error %v", err)
	}
}

// TestStore_NoLeftovers: interrupted calls leave no process behind.
func TestStore_NoLeftovers(t *testing.T) {
	p := newProcesses(t, bucket)
	s := p.store("location", bucket)
	put(t, s, "key", strings.Repeat("x", 10<<20))
	r, err := s.Get(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	p.catalog.Close(t.Context())
	if starts := p.directory.AcceptedInits(); len(starts) == 0 {
		t.Error("nothing was started")
	}
	for _, process := range plugintesting.ListChildren("/nowhere") {
		if strings.Contains(process, "--log-level") {
			t.Errorf("left behind: %s", process)
		}
	}
}
