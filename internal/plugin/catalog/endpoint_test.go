// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	objectstorev1 "github.com/grapnel-dev/grapnel/sdk/objectstore/v1"
	prebackupv1 "github.com/grapnel-dev/grapnel/sdk/prebackupaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// greeter logs and responds.
type greeter struct{}

func (greeter) Execute(ctx context.Context, req *hook.Request) (*hook.Response, error) {
	sdk.Logger(ctx).Info("hello")
	return hook.Done().WithOutput("key", req.IdempotencyKey), nil
}

// greeting serves a greeter for each name.
func greeting(names ...string) *serve.Server {
	s := serve.New().SetLogOutput(io.Discard)
	for _, name := range names {
		s.RegisterPreBackupActionV1(name, func() (prebackupv1.PreBackupAction, error) { return greeter{}, nil })
	}
	return s
}

// listen serves at a socket until stop is called or the test ends.
func listen(t *testing.T, socket string, s *serve.Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended, listening := make(chan error, 1), make(chan struct{})
	options := serve.ListenOptions{Address: socket, Listening: func(net.Addr) { close(listening) }}
	go func() { ended <- s.Listen(ctx, options) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Listen returned %v", err)
			}
		})
	}
	t.Cleanup(stop)
	select {
	case <-listening:
	case err := <-ended:
		t.Fatal(err)
	}
	return stop
}

func served(socket string) catalog.Spec {
	return catalog.Spec{Name: "p", Endpoint: &catalog.EndpointSpec{Address: socket, ConnectTimeout: safety}}
}

// TestEndpoint loads a plugin that is served at an address, and follows it through an upgrade.
func TestEndpoint(t *testing.T) {
	lost := make(chan string, 9)
	c := newCatalog(t, catalog.Options{OnExit: func(name string) { lost <- name }})
	socket := "unix://" + filepath.Join(t.TempDir(), "s")
	stop := listen(t, socket, greeting("example.io/greet"))
	info := load(t, c, served(socket))
	want := []catalog.Action{{Kind: "PreBackupAction", Version: "v1", Name: "example.io/greet"}}
	if !slices.Equal(info.Actions, want) || info.Digest != "" {
		t.Errorf("loaded %+v, want the actions %v", info, want)
	}
	greet := func() {
		t.Helper()
		log := plugintesting.NewLog(t)
		call := preBackup("k", nil)
		call.Action = "example.io/greet"
		answer, err := execute(t, c, "p", call, log)
		log.Close()
		if err != nil || answer.Outputs["key"] != "k" {
			t.Errorf("the action returned %+v, %v", answer, err)
		}
	}
	greet()
	stop()
	if name := <-lost; name != "p" {
		t.Errorf("lost %s", name)
	}
	if _, err := c.Load(t.Context(), served(socket)); err == nil {
		t.Error("a plugin that is not served was loaded")
	}
	listen(t, socket, greeting("example.io/greet", "example.io/more"))
	want = append(want, catalog.Action{Kind: "PreBackupAction", Version: "v1", Name: "example.io/more"})
	if info = load(t, c, served(socket)); !slices.Equal(info.Actions, want) {
		t.Errorf("after an upgrade it provides %v, want %v", info.Actions, want)
	}
	greet()
}

// TestEndpoint_DropsDuplicateAction checks that a release that lists an action of an older
// Plugin is refused only as long as it is served. Only listing the actions shows this.
func TestEndpoint_DropsDuplicateAction(t *testing.T) {
	const taken = "example.io/taken"
	for name, before := range map[string][]string{
		"the first release is refused":                nil,
		"a later release is refused, and rolled back": {"example.io/greet"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCatalog(t, catalog.Options{})
			older := declares("older", "", time.Unix(1, 0), catalog.ActionID{Kind: "PreBackupAction", Name: taken})
			load(t, c, older)
			socket := "unix://" + filepath.Join(t.TempDir(), "s")
			younger := served(socket)
			younger.Created = time.Unix(2, 0)
			if before != nil {
				stop := listen(t, socket, greeting(before...))
				load(t, c, younger)
				stop()
			}
			stop := listen(t, socket, greeting("example.io/greet", taken))
			for range 2 {
				expectRefused(t, c, younger, "older")
			}
			expectLoaded(t, c, older, catalog.ConflictingPlugin{Plugin: "p", Action: catalog.ActionID{Kind: "PreBackupAction", Name: taken}})
			stop()
			listen(t, socket, greeting("example.io/greet"))
			expectLoaded(t, c, younger)
			expectLoaded(t, c, older)
			call := preBackup("k", nil)
			call.Action = "example.io/greet"
			if answer, err := execute(t, c, "p", call, nil); err != nil || answer.Outputs["key"] != "k" {
				t.Errorf("the action returned %+v, %v", answer, err)
			}
		})
	}
}

// hang accepts connections at a socket until the test ends, and never responds.
func hang(t *testing.T, socket string) (accepted <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("unix", strings.TrimPrefix(socket, "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	came := make(chan struct{}, 9)
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			came <- struct{}{}
			open.Go(func() {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		open.Wait()
	})
	return came
}

// TestEndpoint_ReplacedByDeclaredActions checks that a call that waits for an endpoint fails as unreachable
// when declared actions replace the endpoint.
func TestEndpoint_ReplacedByDeclaredActions(t *testing.T) {
	socket := "unix://" + filepath.Join(t.TempDir(), "s")
	lost := make(chan string, 9)
	c := newCatalog(t, catalog.Options{OnExit: func(name string) { lost <- name }})
	stop := listen(t, socket, greeting(freeze.Name))
	load(t, c, served(socket))
	stop()
	<-lost
	accepted := hang(t, socket)
	call := preBackup("k", nil)
	call.Action = freeze.Name
	run, err := c.Executor("p", call.ActionKind(), call.Action)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				failed <- fmt.Errorf("panic: %v", r)
			}
		}()
		_, err := run.Execute(t.Context(), call)
		failed <- err
	}()
	<-accepted
	load(t, c, declares("p", "declared", time.Time{}, freeze))
	if err := <-failed; executor.ErrorKindOf(err) != executor.Unreachable || !strings.Contains(err.Error(), "was replaced") {
		t.Errorf("the call that waited returned %v, want that it is unreachable", err)
	}
	if got := answerOf(t, c, "p", freeze); got != "declared" {
		t.Errorf("the next attempt returned %q", got)
	}
}

// kept has the objects of all stores of a server, by the configured directory.
type kept struct {
	mu      sync.Mutex
	objects map[string]string
}

// directory is a store that keeps its objects below its configured directory.
type directory struct {
	kept *kept
	dir  string
}

func (f *directory) Init(_ context.Context, config map[string]string) error {
	if f.dir != "" {
		return errors.New("the store is in use")
	}
	f.dir = config["dir"]
	return nil
}

func (f *directory) PutObject(_ context.Context, _, key string, body io.Reader) error {
	content, err := io.ReadAll(body)
	f.kept.mu.Lock()
	defer f.kept.mu.Unlock()
	f.kept.objects[f.dir+"/"+key] = string(content)
	return err
}

func (f *directory) GetObject(_ context.Context, _, key string) (io.ReadCloser, error) {
	f.kept.mu.Lock()
	defer f.kept.mu.Unlock()
	return io.NopCloser(strings.NewReader(f.kept.objects[f.dir+"/"+key])), nil
}

func (*directory) ObjectExists(context.Context, string, string) (bool, error) { return false, nil }

func (*directory) ListCommonPrefixes(context.Context, string, string, string) ([]string, error) {
	return nil, nil
}

func (*directory) ListObjects(context.Context, string, string) ([]string, error) { return nil, nil }

func (*directory) DeleteObject(context.Context, string, string) error { return nil }

func (*directory) CreateSignedURL(context.Context, string, string, time.Duration) (string, error) {
	return "", nil
}

// TestEndpoint_ObjectStores checks that the locations of one server are isolated: neither accesses
// the directory of the other, in any order of calls.
func TestEndpoint_ObjectStores(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	socket := "unix://" + filepath.Join(t.TempDir(), "s")
	all := &kept{objects: map[string]string{}}
	listen(t, socket, serve.New().SetLogOutput(io.Discard).RegisterObjectStoreV1(storeName,
		func() (objectstorev1.ObjectStore, error) { return &directory{kept: all}, nil }))
	load(t, c, served(socket))
	one, other := openBucket(t, c, "l1", "one"), openBucket(t, c, "l2", "other")
	one.mustPut("k", "of one")
	other.mustPut("k", "of the other")
	one.mustPut("k2", "of one again")
	if all.objects["one/k"] != "of one" || all.objects["other/k"] != "of the other" || all.objects["one/k2"] != "of one again" || len(all.objects) != 3 {
		t.Errorf("kept is %v", all.objects)
	}
	var got bytes.Buffer
	if err := one.get("k", &got); err != nil || got.String() != "of one" {
		t.Errorf("read %q, %v", got.String(), err)
	}
	c.ReleaseStore(t.Context(), "l1")
	if err := one.put(t.Context(), "k", strings.NewReader("too late")); err == nil {
		t.Error("a removed location was written to")
	}
	other.mustPut("k", "still there")
}
