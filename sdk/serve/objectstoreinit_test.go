// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	objectstorev1 "github.com/grapnel-dev/grapnel/sdk/objectstore/v1"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	objectstorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/objectstore/v1"
)

func TestObjectStore_InitFirst(t *testing.T) {
	t.Parallel()
	attempts := 0
	client := startStore(t, &memoryStore{init: func(config map[string]string) error {
		attempts++
		if attempts == 1 {
			return errors.New("no such bucket: " + config["bucket"])
		}
		return nil
	}})
	exists := func() error {
		_, err := client.ObjectExists(t.Context(), &objectstorepb.ObjectExistsRequest{Plugin: testName, Bucket: "b", Key: "k"})
		return err
	}
	initialise := func() error {
		_, err := client.Init(t.Context(), &objectstorepb.InitRequest{Plugin: testName, Config: map[string]string{"bucket": "b"}})
		return err
	}
	for _, step := range []struct {
		call func() error
		want string
	}{
		{call: exists, want: "call Init first"},
		{call: initialise, want: "no such bucket: b"},
		{call: exists, want: "call Init first"},
		{call: initialise},
		{call: exists},
	} {
		checkError(t, "the call", step.call(), step.want)
	}
}

// TestObjectStore_InitOnce: a Velero server calls Init each time it opens a
// location, also while other calls use the process.
func TestObjectStore_InitOnce(t *testing.T) {
	t.Parallel()
	var created, initialised atomic.Int32
	entered, release := make(chan struct{}), make(chan struct{})
	conn, _ := connect(t, New().RegisterObjectStoreV1(testName, func() (objectstorev1.ObjectStore, error) {
		created.Add(1)
		attempts := 0
		return &memoryStore{init: func(config map[string]string) error {
			if attempts++; attempts > 1 {
				t.Error("a store that is in use was initialized")
			}
			initialised.Add(1)
			if config["bucket"] == "missing" {
				return errors.New("no such bucket")
			}
			return nil
		}, put: func(context.Context, io.Reader) error {
			close(entered)
			<-release
			return nil
		}}, nil
	}))
	client := objectstorepb.NewObjectStoreClient(proto.VeleroConn(conn))
	initialise := func(bucket string) error {
		_, err := client.Init(t.Context(), &objectstorepb.InitRequest{Plugin: testName, Config: map[string]string{"bucket": bucket}})
		return err
	}
	checkError(t, "the first call of Init", initialise("first"), "")
	done := make(chan error, 1)
	go func() { done <- upload(t.Context(), client, "") }()
	<-entered
	checkError(t, "the second call of Init", initialise("second"), "")
	checkError(t, "the third call of Init", initialise("missing"), "no such bucket")
	close(release)
	checkError(t, "the upload", <-done, "")
	if created.Load() != 3 || initialised.Load() != 3 {
		t.Errorf("%d stores were created and %d initialized, want 3", created.Load(), initialised.Load())
	}
}

// TestObjectStore_InitAfterFailure checks that Init is called again on the same instance,
// as the SDK promises to authors.
func TestObjectStore_InitAfterFailure(t *testing.T) {
	t.Parallel()
	var created atomic.Int32
	conn, _ := connect(t, New().RegisterObjectStoreV1(testName, func() (objectstorev1.ObjectStore, error) {
		created.Add(1)
		attempts := 0
		return &memoryStore{init: func(map[string]string) error {
			switch attempts++; attempts {
			case 1:
				return errors.New("no such bucket")
			case 2:
				panic("no such region")
			default:
				return nil
			}
		}}, nil
	}))
	client := objectstorepb.NewObjectStoreClient(proto.VeleroConn(conn))
	for _, want := range []string{"no such bucket", "no such region", ""} {
		_, err := client.Init(t.Context(), &objectstorepb.InitRequest{Plugin: testName})
		checkError(t, "Init", err, want)
	}
	if n := created.Load(); n != 1 {
		t.Errorf("%d stores were created, want 1", n)
	}
}

// listenWithStores serves stores at a socket until the test ends. It returns a function that
// connects to them.
func listenWithStores(t *testing.T, create func() (objectstorev1.ObjectStore, error)) (dial func() objectstorepb.ObjectStoreClient) {
	t.Helper()
	options := socketOptions(t)
	listening, ended := make(chan struct{}), make(chan error, 1)
	options.Listening = func(net.Addr) { close(listening) }
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s := New().SetLogOutput(io.Discard).RegisterObjectStoreV1(testName, create)
	go func() { ended <- s.Listen(ctx, options) }()
	select {
	case <-listening:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Listen returned %v", err)
		}
	})
	return func() objectstorepb.ObjectStoreClient {
		conn, err := grpc.NewClient(options.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return objectstorepb.NewObjectStoreClient(proto.VeleroConn(conn))
	}
}

// TestObjectStore_HungInit checks that a store that hangs in Init does not affect other stores
// of the same server.
func TestObjectStore_HungInit(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	dial := listenWithStores(t, func() (objectstorev1.ObjectStore, error) {
		return &memoryStore{init: func(config map[string]string) error {
			if config["bucket"] == "far away" {
				close(begun)
				<-release
			}
			return nil
		}}, nil
	})
	initialise := func(client objectstorepb.ObjectStoreClient, bucket string) error {
		_, err := client.Init(t.Context(), &objectstorepb.InitRequest{Plugin: testName, Config: map[string]string{"bucket": bucket}})
		return err
	}
	exists := func(client objectstorepb.ObjectStoreClient) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := client.ObjectExists(ctx, &objectstorepb.ObjectExistsRequest{Plugin: testName, Bucket: "b", Key: "k"})
		return err
	}
	near, far, late := dial(), dial(), dial()
	checkError(t, "the first call of Init", initialise(near, "near"), "")
	done := make(chan error, 1)
	go func() { done <- initialise(far, "far away") }()
	<-begun
	checkError(t, "a call of another connection", exists(near), "")
	checkError(t, "a call before its store is initialized", exists(far), "call Init first")
	if t.Failed() {
		close(release)
		t.FailNow()
	}
	checkError(t, "the call of Init of a later connection", initialise(late, "near"), "")
	checkError(t, "a call of the later connection", exists(late), "")
	close(release)
	checkError(t, "the call of Init that hung", <-done, "")
	checkError(t, "a call after it", exists(far), "")
}
