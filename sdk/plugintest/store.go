// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	objectstorev1 "github.com/grapnel-dev/grapnel/sdk/objectstore/v1"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	objectstorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/objectstore/v1"
)

// partBytes is how much of an object one message of an upload has.
const partBytes = 64 << 10

// ObjectStoreV1 returns version 1 of the ObjectStore of a name. It has to be initialised before its
// other methods are called. If the body of PutObject, or its ctx, ends with an error,
// the method returns when the call has ended inside of the plugin, too. Errors are as
// for PreBackup; one that there is no object matches objectstore's ErrNotExist.
func (p *Plugin) ObjectStoreV1(name string) objectstorev1.ObjectStore {
	return &storeV1{plugin: p, name: name, client: objectstorepb.NewObjectStoreClient(proto.VeleroConn(p.conn))}
}

type storeV1 struct {
	plugin *Plugin
	name   string
	client objectstorepb.ObjectStoreClient
}

// Init makes one call.
func (s *storeV1) Init(ctx context.Context, config map[string]string) error {
	_, err := callStore(ctx, s.plugin, s.client.Init, &objectstorepb.InitRequest{Plugin: s.name, Config: config})
	return err
}

// PutObject sends an object in parts.
func (s *storeV1) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	callID := s.plugin.newCallID()
	call := s.plugin.calls.follow(callID)
	ctx, cancel := context.WithCancel(withCallID(ctx, callID))
	defer cancel()
	ctx, err := s.plugin.outgoing(ctx)
	if err != nil {
		return err
	}
	stream, err := s.client.PutObject(ctx)
	if err != nil {
		return err
	}
	first := &objectstorepb.PutObjectRequest{Plugin: s.name, Bucket: bucket, Key: key}
	if err := sendBody(stream, first, body); err != nil {
		// Not CloseAndRecv, which says that the object is complete. The call is ended
		// once it is there: otherwise nothing of the plugin would be tried.
		within(defaultPatience, call.begun)
		cancel()
		within(defaultPatience, call.ended)
		return err
	}
	_, err = stream.CloseAndRecv()
	if ctx.Err() != nil {
		within(defaultPatience, call.ended)
	}
	return err
}

type uploadStream = grpc.ClientStreamingClient[objectstorepb.PutObjectRequest, emptypb.Empty]

// sendBody sends at least one message. It returns an error of the body only: one of the
// stream is what the stream ends with.
func sendBody(stream uploadStream, message *objectstorepb.PutObjectRequest, body io.Reader) error {
	for sent := false; ; sent = true {
		part := make([]byte, partBytes)
		n, err := body.Read(part)
		if n > 0 || !sent {
			message.Body = part[:n]
			if stream.Send(message) != nil {
				return nil //nolint:nilerr // CloseAndRecv says why
			}
			message = &objectstorepb.PutObjectRequest{Plugin: message.GetPlugin(), Bucket: message.GetBucket(), Key: message.GetKey()}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// ObjectExists makes one call.
func (s *storeV1) ObjectExists(ctx context.Context, bucket, key string) (bool, error) {
	resp, err := callStore(ctx, s.plugin, s.client.ObjectExists, &objectstorepb.ObjectExistsRequest{Plugin: s.name, Bucket: bucket, Key: key})
	return resp.GetExists(), err
}

// GetObject returns an object as it arrives.
func (s *storeV1) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	object := &download{cancel: cancel}
	ctx, err := s.plugin.outgoing(ctx)
	if err == nil {
		object.stream, err = s.client.GetObject(ctx, &objectstorepb.GetObjectRequest{Plugin: s.name, Bucket: bucket, Key: key})
	}
	if err == nil {
		// The first message says whether there is an object.
		err = object.next()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		cancel()
		return nil, err
	}
	return object, nil
}

// download is an object that arrives in messages.
type download struct {
	stream grpc.ServerStreamingClient[objectstorepb.Bytes]
	cancel context.CancelFunc
	rest   []byte
	err    error
}

func (d *download) next() error {
	message, err := d.stream.Recv()
	d.rest, d.err = message.GetData(), storeError(err)
	return d.err
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	for len(p) > 0 && len(d.rest) == 0 {
		if d.err != nil || d.next() != nil {
			return 0, d.err
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// Close ends the call.
func (d *download) Close() error {
	d.cancel()
	return nil
}

// ListCommonPrefixes makes one call.
func (s *storeV1) ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error) {
	resp, err := callStore(ctx, s.plugin, s.client.ListCommonPrefixes, &objectstorepb.ListCommonPrefixesRequest{
		Plugin: s.name, Bucket: bucket, Prefix: prefix, Delimiter: delimiter,
	})
	return resp.GetPrefixes(), err
}

// ListObjects makes one call.
func (s *storeV1) ListObjects(ctx context.Context, bucket, prefix string) ([]string, error) {
	resp, err := callStore(ctx, s.plugin, s.client.ListObjects, &objectstorepb.ListObjectsRequest{Plugin: s.name, Bucket: bucket, Prefix: prefix})
	return resp.GetKeys(), err
}

// DeleteObject makes one call.
func (s *storeV1) DeleteObject(ctx context.Context, bucket, key string) error {
	_, err := callStore(ctx, s.plugin, s.client.DeleteObject, &objectstorepb.DeleteObjectRequest{Plugin: s.name, Bucket: bucket, Key: key})
	return err
}

// CreateSignedURL makes one call.
func (s *storeV1) CreateSignedURL(ctx context.Context, bucket, key string, ttl time.Duration) (string, error) {
	resp, err := callStore(ctx, s.plugin, s.client.CreateSignedURL, &objectstorepb.CreateSignedURLRequest{
		Plugin: s.name, Bucket: bucket, Key: key, Ttl: int64(ttl),
	})
	return resp.GetUrl(), err
}

// callStore makes one call of a method without a stream.
func callStore[In, Out any](ctx context.Context, p *Plugin, method method[In, Out], in *In) (*Out, error) {
	ctx, err := p.outgoing(ctx)
	if err != nil {
		return nil, err
	}
	out, err := method(ctx, in)
	return out, storeError(err)
}

// storeError makes errors of the wire those of the interface.
func storeError(err error) error {
	if status.Code(err) == codes.NotFound {
		return fmt.Errorf("%w: %w", objectstorev1.ErrNotExist, err)
	}
	return err
}
