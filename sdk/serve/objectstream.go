// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	objectstorev1 "github.com/grapnel-dev/grapnel/sdk/objectstore/v1"
	objectstorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/objectstore/v1"
)

// chunkBytes is the maximum size of the part of an object in one message of GetObject.
const chunkBytes = 1 << 20

// PutObject passes the messages of a stream to the store as one body.
func (o objectStoreV1) PutObject(stream grpc.ClientStreamingServer[objectstorepb.PutObjectRequest, emptypb.Empty]) error {
	first, err := stream.Recv()
	in := o.callInfoFromMetadata(stream.Context(), first.GetPlugin())
	if err != nil {
		// Without a message there is neither a name nor content to store.
		in.requestErr = newStatusError(codes.InvalidArgument, fmt.Errorf("receiving the name of the object: %w", err))
	}
	done, err := serveStoreCall(stream.Context(), o, in,
		func(ctx context.Context, store objectstorev1.ObjectStore) (*emptypb.Empty, error) {
			body := &uploadBody{receive: stream.Recv, rest: first.GetBody()}
			if err := store.PutObject(ctx, first.GetBucket(), first.GetKey(), body); err != nil {
				return nil, err
			}
			err := body.checkFullyRead()
			if err != nil && ctx.Err() == nil {
				// The store reported success. The operator has to know that a part may be
				// visible as the object.
				err = newStatusError(codes.DataLoss, err)
			}
			return &emptypb.Empty{}, err
		})
	if err != nil {
		return err
	}
	return stream.SendAndClose(done)
}

// uploadBody is an object that arrives in messages. It ends with io.EOF only if the sender
// marked it as complete.
type uploadBody struct {
	receive func() (*objectstorepb.PutObjectRequest, error)

	mu   sync.Mutex
	rest []byte
	// err is the final error, nil before the end.
	err error
}

// Read implements io.Reader.
func (u *uploadBody) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(p) > 0 && len(u.rest) == 0 && u.err == nil {
		u.receiveNextMessage()
	}
	if len(u.rest) == 0 {
		return 0, u.err
	}
	n := copy(p, u.rest)
	u.rest = u.rest[n:]
	return n, nil
}

func (u *uploadBody) receiveNextMessage() {
	message, err := u.receive()
	if err == nil || err == io.EOF { //nolint:errorlint // a wrapped io.EOF is not the end
		u.rest, u.err = message.GetBody(), err
		return
	}
	// Never io.ErrUnexpectedEOF either: some clients of object stores treat it as the end
	// of the last part.
	u.err = errors.New("the upload was interrupted: " + status.Convert(err).Message())
}

// checkFullyRead returns an error unless the whole body was read: otherwise the store does
// not have the whole object.
func (u *uploadBody) checkFullyRead() error {
	if !u.mu.TryLock() {
		return errors.New("the object store returned while it was still reading the object")
	}
	defer u.mu.Unlock()
	for len(u.rest) == 0 && u.err == nil {
		u.receiveNextMessage()
	}
	if len(u.rest) > 0 {
		return errors.New("the object store returned before it had read the whole object")
	}
	if u.err != io.EOF { //nolint:errorlint // as above
		return u.err
	}
	return nil
}

// GetObject sends an object in parts.
func (o objectStoreV1) GetObject(in *objectstorepb.GetObjectRequest, stream grpc.ServerStreamingServer[objectstorepb.Bytes]) error {
	_, err := serveStoreCall(stream.Context(), o, o.callInfoFromMetadata(stream.Context(), in.GetPlugin()),
		func(ctx context.Context, store objectstorev1.ObjectStore) (sent struct{}, err error) {
			object, err := store.GetObject(ctx, in.GetBucket(), in.GetKey())
			if err != nil {
				return sent, err
			}
			if object == nil {
				return sent, errors.New("the object store returned no object and no error")
			}
			defer func() {
				// Some readers verify checksums only in Close.
				if closeErr := object.Close(); closeErr != nil && err == nil {
					err = fmt.Errorf("closing the object: %w", closeErr)
				}
			}()
			return sent, sendObjectParts(object, stream)
		})
	return err
}

func sendObjectParts(object io.Reader, stream grpc.ServerStreamingServer[objectstorepb.Bytes]) error {
	for {
		part, err := readObjectPart(object)
		if len(part) > 0 {
			if err := stream.Send(&objectstorepb.Bytes{Data: part}); err != nil {
				return fmt.Errorf("sending the object: %w", err)
			}
		}
		if err == io.EOF { //nolint:errorlint // a wrapped io.EOF is not the end
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the object: %w", err)
		}
	}
}

// readObjectPart fills one message. io.ReadFull is not usable: it returns the same error
// for a short part and for a truncated object.
func readObjectPart(object io.Reader) ([]byte, error) {
	// A new buffer each time: gRPC may read a message after it was sent.
	part := make([]byte, chunkBytes)
	n := 0
	for n < len(part) {
		read, err := object.Read(part[n:])
		n += read
		if err != nil {
			return part[:n], err
		}
	}
	return part, nil
}
