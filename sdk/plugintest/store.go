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

// uploadPartBytes is the size of the part of an object in one message of an upload.
const uploadPartBytes = 64 << 10

// ObjectStoreV1 returns version 1 of the ObjectStore with a name. Init must be called before its
// other methods. If the body of PutObject, or its ctx, ends with an error, the method returns after
// the call has also ended inside the plugin. Errors are as for PreBackup; the error for a missing
// object matches objectstore's ErrNotExist.
func (p *Plugin) ObjectStoreV1(name string) objectstorev1.ObjectStore {
	return &storeClientV1{plugin: p, name: name, client: objectstorepb.NewObjectStoreClient(proto.VeleroConn(p.conn))}
}

type storeClientV1 struct {
	plugin *Plugin
	name   string
	client objectstorepb.ObjectStoreClient
}

// Init makes one call.
func (s *storeClientV1) Init(ctx context.Context, config map[string]string) error {
	_, err := callStoreMethod(ctx, s.plugin, s.client.Init, &objectstorepb.InitRequest{Plugin: s.name, Config: config})
	return err
}

// PutObject sends an object in parts.
func (s *storeClientV1) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	callID := s.plugin.nextCallID()
	call := s.plugin.calls.trackUpcomingCall(callID)
	ctx, cancel := context.WithCancel(withCallID(ctx, callID))
	defer cancel()
	ctx, err := s.plugin.withCallMetadata(ctx)
	if err != nil {
		return err
	}
	stream, err := s.client.PutObject(ctx)
	if err != nil {
		return err
	}
	first := &objectstorepb.PutObjectRequest{Plugin: s.name, Bucket: bucket, Key: key}
	if err := sendUploadBody(stream, first, body); err != nil {
		// Not CloseAndRecv, which marks the object as complete. The call is canceled only
		// after it has reached the plugin: otherwise nothing of the plugin would be tested.
		waitWithTimeout(defaultPatience, call.begun)
		cancel()
		waitWithTimeout(defaultPatience, call.ended)
		return err
	}
	_, err = stream.CloseAndRecv()
	if ctx.Err() != nil {
		waitWithTimeout(defaultPatience, call.ended)
	}
	return err
}

type uploadStream = grpc.ClientStreamingClient[objectstorepb.PutObjectRequest, emptypb.Empty]

// sendUploadBody sends at least one message. It returns only errors of the body: errors of
// the stream are returned when the stream ends.
func sendUploadBody(stream uploadStream, message *objectstorepb.PutObjectRequest, body io.Reader) error {
	for sent := false; ; sent = true {
		part := make([]byte, uploadPartBytes)
		n, err := body.Read(part)
		if n > 0 || !sent {
			message.Body = part[:n]
			if stream.Send(message) != nil {
				return nil //nolint:nilerr // CloseAndRecv returns the reason
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
func (s *storeClientV1) ObjectExists(ctx context.Context, bucket, key string) (bool, error) {
	resp, err := callStoreMethod(ctx, s.plugin, s.client.ObjectExists, &objectstorepb.ObjectExistsRequest{Plugin: s.name, Bucket: bucket, Key: key})
	return resp.GetExists(), err
}

// GetObject returns an object that is read while it arrives.
func (s *storeClientV1) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	object := &objectReader{cancel: cancel}
	ctx, err := s.plugin.withCallMetadata(ctx)
	if err == nil {
		object.stream, err = s.client.GetObject(ctx, &objectstorepb.GetObjectRequest{Plugin: s.name, Bucket: bucket, Key: key})
	}
	if err == nil {
		// The first message shows whether the object exists.
		err = object.receiveNextMessage()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		cancel()
		return nil, err
	}
	return object, nil
}

// objectReader is an object that arrives in messages.
type objectReader struct {
	stream grpc.ServerStreamingClient[objectstorepb.Bytes]
	cancel context.CancelFunc
	unread []byte
	err    error
}

func (d *objectReader) receiveNextMessage() error {
	message, err := d.stream.Recv()
	d.unread, d.err = message.GetData(), toStoreError(err)
	return d.err
}

// Read implements io.Reader.
func (d *objectReader) Read(p []byte) (int, error) {
	for len(p) > 0 && len(d.unread) == 0 {
		if d.err != nil || d.receiveNextMessage() != nil {
			return 0, d.err
		}
	}
	n := copy(p, d.unread)
	d.unread = d.unread[n:]
	return n, nil
}

// Close ends the call.
func (d *objectReader) Close() error {
	d.cancel()
	return nil
}

// ListCommonPrefixes makes one call.
func (s *storeClientV1) ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error) {
	resp, err := callStoreMethod(ctx, s.plugin, s.client.ListCommonPrefixes, &objectstorepb.ListCommonPrefixesRequest{
		Plugin: s.name, Bucket: bucket, Prefix: prefix, Delimiter: delimiter,
	})
	return resp.GetPrefixes(), err
}

// ListObjects makes one call.
func (s *storeClientV1) ListObjects(ctx context.Context, bucket, prefix string) ([]string, error) {
	resp, err := callStoreMethod(ctx, s.plugin, s.client.ListObjects, &objectstorepb.ListObjectsRequest{Plugin: s.name, Bucket: bucket, Prefix: prefix})
	return resp.GetKeys(), err
}

// DeleteObject makes one call.
func (s *storeClientV1) DeleteObject(ctx context.Context, bucket, key string) error {
	_, err := callStoreMethod(ctx, s.plugin, s.client.DeleteObject, &objectstorepb.DeleteObjectRequest{Plugin: s.name, Bucket: bucket, Key: key})
	return err
}

// CreateSignedURL makes one call.
func (s *storeClientV1) CreateSignedURL(ctx context.Context, bucket, key string, ttl time.Duration) (string, error) {
	resp, err := callStoreMethod(ctx, s.plugin, s.client.CreateSignedURL, &objectstorepb.CreateSignedURLRequest{
		Plugin: s.name, Bucket: bucket, Key: key, Ttl: int64(ttl),
	})
	return resp.GetUrl(), err
}

// callStoreMethod makes one call of a method without a stream.
func callStoreMethod[In, Out any](ctx context.Context, p *Plugin, method clientMethod[In, Out], in *In) (*Out, error) {
	ctx, err := p.withCallMetadata(ctx)
	if err != nil {
		return nil, err
	}
	out, err := method(ctx, in)
	return out, toStoreError(err)
}

// toStoreError converts errors of the wire to errors of the interface.
func toStoreError(err error) error {
	if status.Code(err) == codes.NotFound {
		return fmt.Errorf("%w: %w", objectstorev1.ErrNotExist, err)
	}
	return err
}
