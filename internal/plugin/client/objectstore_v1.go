// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/grapnel-dev/grapnel/sdk/proto"
	objectstorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/objectstore/v1"
)

const (
	// putChunkBytes is the size of the part of a body in one message: with the names, a
	// message stays below 1 MiB, far from the 4 MiB that plugins accept.
	putChunkBytes = 1<<20 - 16<<10
	// maxGetChunkBytes is the largest part of an object that a plugin may send at once.
	maxGetChunkBytes = 16 << 20
	// maxListResponseBytes is the size of the largest list of keys. A list is one message:
	// this is half a million keys of typical length.
	maxListResponseBytes = 64 << 20
)

// objectStoreV1 calls version 1 of ObjectStore.
type objectStoreV1 struct{}

var _ ObjectStore = objectStoreV1{}

func (objectStoreV1) newClient(conn grpc.ClientConnInterface) objectstorepb.ObjectStoreClient {
	return objectstorepb.NewObjectStoreClient(proto.VeleroConn(conn))
}

// Init configures the store.
func (s objectStoreV1) Init(ctx context.Context, call ItemCall, config map[string]string) error {
	_, err := callItemAction(ctx, call, s.newClient(call.Conn).Init, &objectstorepb.InitRequest{Plugin: call.Action, Config: config})
	return err
}

// Put stores an object. A plugin treats the end of the stream as the end of the object: on
// any error here, the call is canceled and the stream is not ended.
func (s objectStoreV1) Put(
	ctx context.Context, call ItemCall, object StoredObject, body io.Reader,
) error {
	ctx, cancel := context.WithCancel(withCallMetadata(ctx, call))
	defer cancel()
	stream, err := s.newClient(call.Conn).PutObject(ctx)
	if err != nil {
		return err
	}
	if err := sendObjectBody(stream, call.Action, object, body); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err = stream.CloseAndRecv()
	return explainDataLoss(object, err)
}

// sendObjectBody sends everything except the end.
func sendObjectBody(stream objectstorepb.ObjectStore_PutObjectClient, action string, object StoredObject, body io.Reader) error {
	buffer := make([]byte, putChunkBytes)
	for first := true; ; first = false {
		n, end, err := fillBuffer(body, buffer)
		if err != nil {
			return &CopyError{Op: "reading the content for " + object.Key, Err: err}
		}
		// The body is encoded, and so copied, before Send returns.
		message := &objectstorepb.PutObjectRequest{Body: buffer[:n]}
		if first {
			message.Plugin, message.Bucket, message.Key = action, object.Bucket, object.Key
		}
		if n > 0 || first {
			if err := stream.Send(message); err != nil {
				return toPutError(stream, object, err)
			}
		}
		if end {
			return nil
		}
	}
}

// maxEmptyReads is how often a body may return neither data nor an error.
const maxEmptyReads = 100

// fillBuffer reads until the buffer is full or the body has ended, which it reports. Unlike
// io.ReadFull, it does not treat a body that failed with io.ErrUnexpectedEOF as ended.
func fillBuffer(body io.Reader, buffer []byte) (filled int, end bool, err error) {
	for empty := 0; filled < len(buffer); {
		n, err := body.Read(buffer[filled:])
		filled += n
		switch {
		case err == io.EOF:
			return filled, true, nil
		case err != nil:
			return filled, false, err
		case n > 0:
			empty = 0
		case empty == maxEmptyReads:
			return filled, false, io.ErrNoProgress
		default:
			empty++
		}
	}
	return filled, false, nil
}

// toPutError returns why a plugin did not accept a part of an object. Send returns io.EOF
// when the call has already ended; the response has the reason.
func toPutError(stream objectstorepb.ObjectStore_PutObjectClient, object StoredObject, err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
		return explainDataLoss(object, err)
	}
	return newEarlyAnswerError(object)
}

// explainDataLoss returns the error of a plugin, or a *ContractError if the error says that
// a store took a part of an object as the whole object: the SDK detects this in the plugin.
func explainDataLoss(object StoredObject, err error) error {
	if status.Code(err) != codes.DataLoss {
		return err
	}
	early := newEarlyAnswerError(object)
	early.Message += ": " + status.Convert(err).Message()
	return early
}

func newEarlyAnswerError(object StoredObject) *ContractError {
	return &ContractError{Message: fmt.Sprintf("reported %s as stored before it had read all of it, which is not part of the contract", object.Key)}
}

// Exists reports whether an object exists.
func (s objectStoreV1) Exists(ctx context.Context, call ItemCall, object StoredObject) (bool, error) {
	out, err := callItemAction(ctx, call, s.newClient(call.Conn).ObjectExists,
		&objectstorepb.ObjectExistsRequest{Plugin: call.Action, Bucket: object.Bucket, Key: object.Key})
	return out.GetExists(), err
}

// Get writes an object to out. If writing fails, the call is canceled.
func (s objectStoreV1) Get(
	ctx context.Context, call ItemCall, object StoredObject, out io.Writer,
) error {
	ctx, cancel := context.WithCancel(withCallMetadata(ctx, call))
	defer cancel()
	request := &objectstorepb.GetObjectRequest{Plugin: call.Action, Bucket: object.Bucket, Key: object.Key}
	stream, err := s.newClient(call.Conn).GetObject(ctx, request, grpc.MaxCallRecvMsgSize(maxGetChunkBytes))
	if err != nil {
		return err
	}
	for {
		part, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return explainSizeError(err, protobuf.Size(request), maxGetChunkBytes)
		}
		if _, err := out.Write(part.GetData()); err != nil {
			return &CopyError{Op: "writing the content of " + object.Key, Err: err}
		}
	}
}

// List returns keys or, with a delimiter, common prefixes.
func (s objectStoreV1) List(
	ctx context.Context, call ItemCall, bucket, prefix, delimiter string,
) ([]string, error) {
	call.MaxResponseBytes = maxListResponseBytes
	if delimiter == "" {
		out, err := callItemAction(ctx, call, s.newClient(call.Conn).ListObjects,
			&objectstorepb.ListObjectsRequest{Plugin: call.Action, Bucket: bucket, Prefix: prefix})
		return out.GetKeys(), err
	}
	out, err := callItemAction(ctx, call, s.newClient(call.Conn).ListCommonPrefixes, &objectstorepb.ListCommonPrefixesRequest{
		Plugin: call.Action, Bucket: bucket, Prefix: prefix, Delimiter: delimiter,
	})
	return out.GetPrefixes(), err
}

// Delete removes an object.
func (s objectStoreV1) Delete(ctx context.Context, call ItemCall, object StoredObject) error {
	_, err := callItemAction(ctx, call, s.newClient(call.Conn).DeleteObject,
		&objectstorepb.DeleteObjectRequest{Plugin: call.Action, Bucket: object.Bucket, Key: object.Key})
	return err
}

// SignedURL returns a URL.
func (s objectStoreV1) SignedURL(
	ctx context.Context, call ItemCall, object StoredObject, ttl time.Duration,
) (string, error) {
	out, err := callItemAction(ctx, call, s.newClient(call.Conn).CreateSignedURL, &objectstorepb.CreateSignedURLRequest{
		Plugin: call.Action, Bucket: object.Bucket, Key: object.Key, Ttl: ttl.Nanoseconds(),
	})
	return out.GetUrl(), err
}
