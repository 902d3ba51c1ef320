// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

const (
	// markKey is the metadata key of the random mark of each Put.
	markKey = "Grapnel-Put"

	maxConflictAttempts = 5
	conflictBackoff     = 100 * time.Millisecond
)

// Put implements objectstore.Store. For objects of more than one part, IfAbsent is atomic
// only on servers that also honor the condition on completion of a multipart upload, as
// Amazon does.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	const op = "putting"
	if err := objectstore.ValidateKey(key); err != nil {
		return objectstore.Info{}, &objectstore.Error{Op: op, Key: key, Err: err}
	}
	p := &putCall{store: s, key: key, mark: rand.Text(), ifAbsent: opts.IfAbsent}
	first, more, err := readPart(ctx, r, nil, s.partSize)
	if err == nil && more {
		err = p.putMultipart(ctx, first, r)
	} else if err == nil {
		err = p.putSingleRequest(ctx, first)
	}
	var info objectstore.Info
	if err == nil {
		info, err = p.verifyStored(ctx)
	}
	if err != nil {
		return objectstore.Info{}, toStoreError(op, key, err)
	}
	return info, nil
}

// putCall is one Put in progress.
type putCall struct {
	store    *Store
	key      string
	mark     string
	ifAbsent bool

	size int64  // set when everything was read
	etag string // set when the object is stored
}

// readPart reads until buf holds size bytes, and returns whether there may be more. An
// empty buf grows with the content, so that a small object stays cheap.
func readPart(ctx context.Context, r io.Reader, buf []byte, size int) ([]byte, bool, error) {
	if buf == nil {
		buf = make([]byte, 0, min(64<<10, size))
	}
	for len(buf) < size {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(4*cap(buf), size))
			copy(grown, buf)
			buf = grown
		}
		n, err := r.Read(buf[len(buf):min(cap(buf), size)])
		buf = buf[:len(buf)+n]
		switch {
		case errors.Is(err, io.EOF):
			return buf, false, ctx.Err()
		case err != nil:
			return nil, false, &sourceError{err: err}
		}
	}
	return buf, true, nil
}

// putSingleRequest stores the object with one request.
func (p *putCall) putSingleRequest(ctx context.Context, data []byte) error {
	p.size = int64(len(data))
	s := p.store
	if !p.ifAbsent {
		return p.sendObject(ctx, data, false)
	}
	if s.conditionalWrites.Load() == conditionalNo {
		return p.checkThenSend(ctx, data)
	}
	err := p.sendIfAbsent(ctx, data)
	if hasErrorCode(err, "NotImplemented") {
		s.conditionalWrites.Store(conditionalNo)
		return p.checkThenSend(ctx, data)
	}
	if err != nil || s.conditionalWrites.Load() == conditionalYes {
		return err
	}
	return p.detectConditional(ctx, data)
}

// detectConditional repeats a conditional write that succeeded, to learn whether the server
// honors the condition. A server that does not writes the same content a second time.
func (p *putCall) detectConditional(ctx context.Context, data []byte) error {
	err := p.sendObject(ctx, data, true)
	switch {
	case err == nil:
		p.store.conditionalWrites.Store(conditionalNo)
	case hasErrorCode(err, "PreconditionFailed"):
		p.store.conditionalWrites.Store(conditionalYes)
	}
	return nil // the object is stored in any case
}

// sendIfAbsent sends a conditional write and resolves ambiguous outcomes.
func (p *putCall) sendIfAbsent(ctx context.Context, data []byte) error {
	for attempt := 1; ; attempt++ {
		err := p.sendObject(ctx, data, true)
		switch {
		case hasErrorCode(err, "PreconditionFailed"):
			p.store.conditionalWrites.Store(conditionalYes)
			return p.resolveOwnWrite(ctx, err)
		case hasErrorCode(err, "ConditionalRequestConflict") && attempt < maxConflictAttempts:
			// Another conditional write is in progress; Amazon recommends a retry.
			if err := sleepContext(ctx, time.Duration(attempt)*conflictBackoff); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func sleepContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resolveOwnWrite checks whether the object that made a request fail was written by an
// earlier attempt of this Put whose reply was lost. In that case it returns no error.
func (p *putCall) resolveOwnWrite(ctx context.Context, cause error) error {
	stat, err := p.statObject(ctx)
	if err == nil && stat.UserMetadata[markKey] == p.mark {
		p.etag = stat.ETag
		return nil
	}
	return cause
}

// checkThenSend is the best possible without conditional writes.
func (p *putCall) checkThenSend(ctx context.Context, data []byte) error {
	if err := p.checkObjectAbsent(ctx); err != nil {
		return err
	}
	return p.sendObject(ctx, data, false)
}

func (p *putCall) checkObjectAbsent(ctx context.Context) error {
	_, err := p.store.Stat(ctx, p.key)
	switch {
	case err == nil:
		return &objectstore.Error{Op: "putting", Key: p.key, Kind: objectstore.ErrExists}
	case errors.Is(err, objectstore.ErrNotExist):
		return nil
	}
	return err
}

// sendObject makes one request, which the client retries if that may help.
func (p *putCall) sendObject(ctx context.Context, data []byte, conditional bool) error {
	digests, opts := p.store.computeDigests(data), p.putOptions(conditional)
	for name, values := range digests.header() {
		opts.UserMetadata[name] = values[0] // the client sends such names as they are
	}
	return p.store.requestWithStallLimit(ctx, maxStalls, func(ctx context.Context) error {
		info, err := p.store.client.PutObject(ctx, p.store.bucket, p.key, bytes.NewReader(data), int64(len(data)),
			digests.md5, digests.sha256, opts)
		if err == nil {
			p.etag = info.ETag
		}
		return err
	})
}

func (p *putCall) putOptions(conditional bool) minio.PutObjectOptions {
	opts := minio.PutObjectOptions{
		UserMetadata: map[string]string{markKey: p.mark},
		// The digest of the whole body is signed instead of a signature per chunk, which
		// some servers do not support.
		DisableContentSha256: true,
		ServerSideEncryption: p.store.encryption,
	}
	if conditional {
		opts.SetMatchETagExcept("*")
	}
	return opts
}

// verifyStored compares the stored size with the sent size, and returns the server's
// description of the object. Some servers return another ETag for a read than for a write.
// An object that another writer replaced meanwhile proves nothing.
func (p *putCall) verifyStored(ctx context.Context) (objectstore.Info, error) {
	stat, err := p.statObject(ctx)
	if hasErrorCode(err, "NoSuchKey", "NotFound") {
		return objectstore.Info{}, fmt.Errorf("the object vanished right after it was stored: %w", objectstore.ErrUnavailable)
	}
	if err != nil {
		return objectstore.Info{}, fmt.Errorf("verifying what was stored: %w", err)
	}
	if stat.UserMetadata[markKey] != p.mark && stat.ETag != p.etag {
		return objectstore.Info{Key: p.key, Size: p.size, ModTime: stat.LastModified, ETag: p.etag}, nil
	}
	if stat.Size != p.size {
		err := fmt.Errorf("%d bytes were sent and the server says it stored %d", p.size, stat.Size)
		return objectstore.Info{}, errors.Join(err, p.store.Delete(ctx, p.key))
	}
	info := toObjectInfo(stat)
	info.Key = p.key
	return info, nil
}

// statObject requests the description of the object and the mark of its Put.
func (p *putCall) statObject(ctx context.Context) (stat minio.ObjectInfo, err error) {
	s := p.store
	err = s.requestWithStallLimit(ctx, maxStalls, func(ctx context.Context) (err error) {
		stat, err = s.client.StatObject(ctx, s.bucket, p.key, minio.StatObjectOptions{})
		return err
	})
	return stat, err
}
