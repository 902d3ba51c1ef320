// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"

	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/sdk"
	objectstorev1 "github.com/grapnel-dev/grapnel/sdk/objectstore/v1"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	objectstorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/objectstore/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// early is the ObjectStore of a plugin that stores the first message of an object and
// reports success.
type early struct {
	objectstorepb.UnimplementedObjectStoreServer
	deleted chan string
}

func (early) PutObject(stream grpc.ClientStreamingServer[objectstorepb.PutObjectRequest, emptypb.Empty]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	return stream.SendAndClose(&emptypb.Empty{})
}

func (early) Init(context.Context, *objectstorepb.InitRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

func (e early) DeleteObject(_ context.Context, in *objectstorepb.DeleteObjectRequest) (*emptypb.Empty, error) {
	e.deleted <- in.GetKey()
	return &emptypb.Empty{}, nil
}

// direct makes calls over a connection.
type direct struct{ conn grpc.ClientConnInterface }

func (d direct) Begin(context.Context, host.Call) (host.OpenCall, error) {
	return plugintesting.Call{Connection: d.conn, CallID: "1"}, nil
}

// connect serves what install registers, and returns a connection to it.
func connect(t *testing.T, install func(r grpc.ServiceRegistrar) error) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	g := grpc.NewServer()
	if err := install(g); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn
}

// over returns the initialized Store behind a connection, which the newest version calls.
func over(t *testing.T, conn *grpc.ClientConn) *pluginclient.Store {
	t.Helper()
	action := pluginclient.ListedAction{Kind: string(sdk.KindObjectStore), Version: sdk.V1, Name: "example.io/early"}
	version := pluginclient.SelectVersions(pluginclient.SupportedKinds(), []pluginclient.ListedAction{action})[action.ID()]
	if err := version.ObjectStore.Init(t.Context(), pluginclient.ItemCall{Conn: conn, Action: action.Name}, nil); err != nil {
		t.Fatal(err)
	}
	return pluginclient.NewStore(pluginclient.NewCaller(func() (pluginclient.Connection, pluginclient.ObjectStore, error) {
		return direct{conn}, version.ObjectStore, nil
	}, redact.New()), pluginclient.StoreOptions{Action: action.Name, Bucket: bucket})
}

// author is the early store of an author who uses the SDK. It implements no other methods.
type author struct {
	objectstorev1.ObjectStore
	reads   int64
	deleted chan string
}

func (author) Init(context.Context, map[string]string) error { return nil }

func (a author) PutObject(_ context.Context, _, _ string, body io.Reader) error {
	_, err := io.CopyN(io.Discard, body, a.reads)
	return err
}

func (a author) DeleteObject(_ context.Context, _, key string) error {
	a.deleted <- key
	return nil
}

// TestStore_PutAnsweredEarly: the plugin has stored only a part of the object, which must
// be deleted because it looks like the whole object.
func TestStore_PutAnsweredEarly(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// reads is how much the store reads; negative means a server without the SDK, which
		// reads one message.
		reads, size int64
		want        string
	}{
		"without the SDK":                  {reads: -1, size: 20 << 20},
		"while the operator still sends":   {reads: 1, size: 20 << 20, want: "the object store returned before it had read the whole object"},
		"after the operator sent its last": {reads: 1, size: 100, want: "the object store returned before it had read the whole object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deleted := make(chan string, 1)
			install := func(r grpc.ServiceRegistrar) error {
				proto.RegisterVelero(r, &objectstorepb.ObjectStore_ServiceDesc, early{deleted: deleted})
				return nil
			}
			if tc.reads >= 0 {
				install = serve.New().RegisterObjectStoreV1("example.io/early", func() (objectstorev1.ObjectStore, error) {
					return author{reads: tc.reads, deleted: deleted}, nil
				}).SetLogOutput(io.Discard).Install
			}
			_, err := over(t, connect(t, install)).Put(t.Context(), "key", io.LimitReader(zeros{}, tc.size), objectstore.PutOptions{})
			if err == nil || !strings.Contains(err.Error(), "before it had read all of it") || !strings.Contains(err.Error(), tc.want) ||
				errors.Is(err, objectstore.ErrUnavailable) {
				t.Errorf("error %v", err)
			}
			select {
			case key := <-deleted:
				if key != "key" {
					t.Errorf("%s was deleted", key)
				}
			default:
				t.Error("a part of the object is left")
			}
		})
	}
}

// zeros is an endless stream.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
