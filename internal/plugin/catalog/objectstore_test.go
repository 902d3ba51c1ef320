// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
)

const storeName = "fault.example.io/store"

// bucket is a location of an ObjectStore of faultplugin.
type bucket struct {
	t       *testing.T
	catalog *catalog.Catalog
	spec    catalog.StoreSpec
	caller  *pluginclient.Caller[pluginclient.ObjectStore]
}

// openBucket returns a location in dir; pairs are more of its configuration.
func openBucket(t *testing.T, c *catalog.Catalog, location, dir string, config ...string) *bucket {
	t.Helper()
	spec := catalog.StoreSpec{Plugin: "p", Name: storeName, Location: location, Config: map[string]string{"dir": dir}}
	for i := 0; i < len(config); i += 2 {
		spec.Config[config[i]] = config[i+1]
	}
	return &bucket{t: t, catalog: c, spec: spec, caller: pluginclient.NewCaller(c.ObjectStore(spec), c.Redactor())}
}

func (b *bucket) do(ctx context.Context, fn func(context.Context, pluginclient.ItemCall, pluginclient.ObjectStore) error) error {
	call, err := b.caller.Begin(ctx, host.Call{})
	if err != nil {
		return err
	}
	err = fn(ctx, pluginclient.ItemCall{Conn: call.Conn(), Action: storeName, CallID: call.ID()}, call.Action)
	call.End(&err)
	return err
}

func object(key string) pluginclient.StoredObject {
	return pluginclient.StoredObject{Bucket: "b", Key: key}
}

func (b *bucket) put(ctx context.Context, key string, body io.Reader) error {
	return b.do(ctx, func(ctx context.Context, call pluginclient.ItemCall, store pluginclient.ObjectStore) error {
		return store.Put(ctx, call, object(key), body)
	})
}

func (b *bucket) get(key string, out io.Writer) error {
	return b.do(b.t.Context(), func(ctx context.Context, call pluginclient.ItemCall, store pluginclient.ObjectStore) error {
		return store.Get(ctx, call, object(key), out)
	})
}

func (b *bucket) list(prefix, delimiter string) []string {
	b.t.Helper()
	var keys []string
	err := b.do(b.t.Context(), func(ctx context.Context, call pluginclient.ItemCall, store pluginclient.ObjectStore) error {
		var err error
		keys, err = store.List(ctx, call, "b", prefix, delimiter)
		return err
	})
	if err != nil {
		b.t.Errorf("listing %q: %v", prefix, err)
	}
	return keys
}

func (b *bucket) mustPut(key, body string) {
	b.t.Helper()
	if err := b.put(b.t.Context(), key, strings.NewReader(body)); err != nil {
		b.t.Errorf("storing %s: %v", key, err)
	}
}

// storePlugin loads faultplugin with an ObjectStore. Its process does not belong to a
// location.
func storePlugin(t *testing.T, c *catalog.Catalog, env ...string) catalog.Spec {
	t.Helper()
	spec := velero("p", append(env, "FAULT_VELERO", "ObjectStore:"+storeName)...)
	load(t, c, spec)
	return spec
}

func TestObjectStore(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	storePlugin(t, c)
	b := openBucket(t, c, "l", t.TempDir())
	big := bytes.Repeat([]byte("0123456789abcdef"), 200<<10) // more than three parts
	for name, tc := range map[string]struct {
		body io.Reader
		want []byte
	}{
		"empty":              {body: strings.NewReader(""), want: nil},
		"small":              {body: strings.NewReader("small"), want: []byte("small")},
		"several parts":      {body: bytes.NewReader(big), want: big},
		"whole parts":        {body: bytes.NewReader(big[:2*(1<<20-16<<10)]), want: big[:2*(1<<20-16<<10)]},
		"data with EOF":      {body: iotest.DataErrReader(strings.NewReader("at the end")), want: []byte("at the end")},
		"byte by byte":       {body: iotest.OneByteReader(strings.NewReader("bytes")), want: []byte("bytes")},
		"nothing, then data": {body: &hesitant{data: "late"}, want: []byte("late")},
	} {
		t.Run(name, func(t *testing.T) {
			key := "d/" + name
			if err := b.put(t.Context(), key, tc.body); err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := b.get(key, &got); err != nil || !bytes.Equal(got.Bytes(), tc.want) {
				t.Errorf("got %d bytes, want %d; error %v", got.Len(), len(tc.want), err)
			}
		})
	}
	if got := b.list("d/s", ""); !slices.Equal(got, []string{"d/several parts", "d/small"}) {
		t.Errorf("keys %q", got)
	}
	if got := b.list("", "/"); !slices.Equal(got, []string{"d/"}) {
		t.Errorf("prefixes %q", got)
	}
	err := b.do(t.Context(), func(ctx context.Context, call pluginclient.ItemCall, store pluginclient.ObjectStore) error {
		if there, err := store.Exists(ctx, call, object("d/small")); !there || err != nil {
			t.Errorf("there is no d/small: %v", err)
		}
		if err := store.Delete(ctx, call, object("d/small")); err != nil {
			return err
		}
		if there, err := store.Exists(ctx, call, object("d/small")); there || err != nil {
			t.Errorf("there is d/small after it was removed: %v", err)
		}
		url, err := store.SignedURL(ctx, call, object("k"), 90*time.Second)
		if url != "https://x/k?ttl=1m30s" {
			t.Errorf("URL %s", url)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// hesitant returns no data a few times before its data.
type hesitant struct {
	data  string
	reads int
}

func (h *hesitant) Read(p []byte) (int, error) {
	h.reads++
	if h.reads <= 10 {
		return 0, nil
	}
	if h.data == "" {
		return 0, io.EOF
	}
	n := copy(p, h.data)
	h.data = h.data[n:]
	return n, nil
}

// TestObjectStore_InterruptedPut checks that an interruption does not look like the end of the object,
// because a plugin treats the end of the stream as the end of the object.
func TestObjectStore_InterruptedPut(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	storePlugin(t, c)
	dir := t.TempDir()
	b := openBucket(t, c, "l", dir)
	broken := errors.New("the archive is broken")
	enough := strings.Repeat("x", 3<<20)
	for name, tc := range map[string]struct {
		end  error
		want executor.ErrorKind
	}{
		"error":                  {end: broken, want: executor.Failed},
		"looks like a short end": {end: io.ErrUnexpectedEOF, want: executor.Failed},
		"of another plugin":      {end: status.Error(codes.Unavailable, "gone"), want: executor.Failed},
		"never any progress":     {end: nil, want: executor.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			err := b.put(t.Context(), name, io.MultiReader(strings.NewReader(enough), iotest.ErrReader(tc.end)))
			if kindOf(err) != tc.want || tc.end != nil && !errors.Is(err, tc.end) || !strings.Contains(err.Error(), name) {
				t.Errorf("error is %v (%s), want %s for %v", err, kindOf(err), tc.want, tc.end)
			}
		})
	}
	t.Run("ctx ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := b.put(ctx, "cancelled", io.MultiReader(strings.NewReader(enough), readerFunc(func([]byte) (int, error) {
			cancel()
			return 0, io.EOF
		})))
		if kindOf(err) != executor.Interrupted {
			t.Errorf("error is %v (%s), want Interrupted", err, kindOf(err))
		}
	})
	b.mustPut("whole", "whole")
	var left []string
	plugintesting.Eventually(t, "the plugin has noticed", func() bool {
		left = left[:0]
		files, err := os.ReadDir(filepath.Join(dir, "b"))
		for _, file := range files {
			left = append(left, file.Name())
		}
		return err == nil && len(left) == 1
	})
	if left[0] != "whole" {
		t.Errorf("stored is %q", left)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestObjectStore_Failures(t *testing.T) {
	c := newCatalog(t, catalog.Options{Grace: 50 * time.Millisecond})
	storePlugin(t, c)
	dir := t.TempDir()
	big := strings.Repeat("x", 20<<20)
	for name, want := range map[string]string{"fails": "the bucket is full", "early": "before it had read all of it"} {
		b := openBucket(t, c, "l-"+name, dir, "put", name)
		if err := b.put(t.Context(), "k", strings.NewReader(big)); kindOf(err) != executor.Failed || !strings.Contains(err.Error(), want) {
			t.Errorf("put that %s: error %v, want %q", name, err, want)
		}
	}
	hangs := openBucket(t, c, "l-hangs", dir, "put", "hangs")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := hangs.put(ctx, "k", strings.NewReader(big)); kindOf(err) != executor.Timeout {
		t.Errorf("put that hangs: error %v, want Timeout", err)
	}
	good := openBucket(t, c, "l", dir)
	good.mustPut("k", big)
	full := errors.New("the disk is full")
	if err := good.get("k", writerFunc(func([]byte) (int, error) { return 0, full })); kindOf(err) != executor.Failed || !errors.Is(err, full) {
		t.Errorf("get into a full disk: error %v", err)
	}
	half := openBucket(t, c, "l-half", dir, "get", "fails")
	if err := half.get("k", io.Discard); kindOf(err) != executor.Failed || err.Error() != "the disk broke" {
		t.Errorf("get that breaks: error %v", err)
	}
	if err := good.get("none", io.Discard); kindOf(err) != executor.Failed || err.Error() != "no such object" {
		t.Errorf("get of a missing object: error %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestObjectStore_InvalidConfig(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	storePlugin(t, c)
	b := openBucket(t, c, "l", t.TempDir(), "refuse", "no region, password=hunter2", "secretKey", "env-secret-value")
	err := b.put(t.Context(), "k", strings.NewReader("x"))
	var start *host.StartError
	if !errors.As(err, &start) || start.Reason != catalog.ReasonInitFailed || !strings.Contains(err.Error(), "refused its configuration: no region") {
		t.Errorf("error is %v, want InitFailed", err)
	}
	checkNoSecret(t, "the error", err.Error())
	if running := plugintesting.ListChildren(plugins); len(running) != 1 {
		t.Errorf("running are %q, want only the plugin's own process", running)
	}
}

// inits returns the configurations passed to Init, in order.
func inits(t *testing.T, log string) []string {
	t.Helper()
	data, err := os.ReadFile(log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Fields(strings.ReplaceAll(string(data), "init ", ""))
}

// TestObjectStore_ProcessPerLocation checks that every location has its own process, because a
// plugin for Velero has one configuration per process.
func TestObjectStore_ProcessPerLocation(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	log := filepath.Join(t.TempDir(), "inits")
	storePlugin(t, c, "FAULT_CALL_LOG", log)
	dirs := []string{t.TempDir(), t.TempDir()}
	buckets := []*bucket{openBucket(t, c, "one", dirs[0]), openBucket(t, c, "two", dirs[1])}
	if running := plugintesting.ListChildren(plugins); len(running) != 1 {
		t.Errorf("before the first call %q are running, want the plugin's own process", running)
	}
	for round := range 3 {
		var calls sync.WaitGroup
		for i, b := range buckets {
			for n := range 4 {
				calls.Go(func() { b.mustPut(fmt.Sprintf("k-%d-%d-%d", i, round, n), "x") })
			}
		}
		calls.Wait()
	}
	for i, b := range buckets {
		for _, key := range b.list("", "") {
			if !strings.HasPrefix(key, fmt.Sprintf("k-%d-", i)) {
				t.Errorf("location %d holds %s", i, key)
			}
		}
	}
	if got := inits(t, log); len(got) != 2 {
		t.Errorf("configured were %q, want each once", got)
	}
	c.ReleaseStore(t.Context(), "one")
	c.ReleaseStore(t.Context(), "unknown")
	if running := plugintesting.ListChildren(plugins); len(running) != 2 {
		t.Errorf("running are %q, want two", running)
	}
	if err := buckets[0].put(t.Context(), "k", strings.NewReader("x")); kindOf(err) != executor.Unreachable || !strings.Contains(err.Error(), "removed") {
		t.Errorf("error of a call to a location that was removed: %v", err)
	}
	c.Unload(t.Context(), "p")
	if running := plugintesting.ListChildren(plugins); len(running) > 0 {
		t.Errorf("after the plugin was unloaded %q are running", running)
	}
	if err := buckets[1].put(t.Context(), "k", strings.NewReader("x")); kindOf(err) != executor.Unreachable || !strings.Contains(err.Error(), "not loaded") {
		t.Errorf("error of a call to a plugin that was removed: %v", err)
	}
}

// TestObjectStore_Reconfigured configures the store again after everything that starts a new process.
func TestObjectStore_Reconfigured(t *testing.T) {
	c := newCatalog(t, catalog.Options{OnExit: func(string) { t.Error("the exit of a location's process was reported for the Plugin") }})
	log := filepath.Join(t.TempDir(), "inits")
	binary := filepath.Join(t.TempDir(), "plugin")
	copyPlugin(t, "faultplugin", binary)
	spec := velero("p", "FAULT_VELERO", "ObjectStore:"+storeName, "FAULT_CALL_LOG", log)
	spec.Process.Path = binary
	load(t, c, spec)
	own := pidsOf(t, binary)
	first, second := t.TempDir(), t.TempDir()
	b := openBucket(t, c, "l", first)
	b.mustPut("k1", "x")
	for _, pid := range pidsOf(t, binary) {
		if !slices.Contains(own, pid) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A call may still reach the process that is about to end.
	plugintesting.Eventually(t, "the store works again", func() bool {
		return b.put(t.Context(), "k2", strings.NewReader("x")) == nil
	})

	// A new configuration does not affect callers that began with the first one.
	changed := openBucket(t, c, "l", second)
	changed.mustPut("k3", "x")
	b.mustPut("k4", "x")
	if got := b.list("", ""); !slices.Equal(got, []string{"k1", "k2", "k4"}) {
		t.Errorf("the first store holds %q", got)
	}
	// Calling ObjectStore again stops outdated stores.
	openBucket(t, c, "l", second)
	plugintesting.Eventually(t, "only one store is left", func() bool { return len(pidsOf(t, binary)) == 2 })

	// A changed environment restarts all processes.
	spec.Process.Env["MORE"] = "x"
	load(t, c, spec)
	changed.mustPut("k5", "x")
	if diff := cmp.Diff([]string{first, first, second, first, second}, inits(t, log)); diff != "" {
		t.Errorf("configurations (-want +got):\n%s", diff)
	}
	if got := changed.list("", ""); !slices.Equal(got, []string{"k3", "k5"}) {
		t.Errorf("the second store holds %q", got)
	}
}

// pidsOf returns the processes that run a binary.
func pidsOf(t *testing.T, binary string) []int {
	t.Helper()
	var pids []int
	for _, line := range plugintesting.FindProcesses(binary) {
		pid, err := strconv.Atoi(strings.Fields(line)[0])
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}
