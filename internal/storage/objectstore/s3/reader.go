// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"
)

// maxResumes is how often in a row a stream may be interrupted without progress before Read
// returns the error.
const maxResumes = 3

// objectReader reads one version of an object and continues after broken
// connections.
type objectReader struct {
	ctx      context.Context //nolint:containedctx // A stream belongs to the call that opened it.
	endWatch func()
	store    *Store
	key      string

	body    io.ReadCloser
	etag    string
	size    int64
	offset  int64
	resumes int
	endErr  error
}

// openBodyAtOffset requests the object from the current offset.
func (r *objectReader) openBodyAtOffset() error {
	var opts minio.GetObjectOptions
	if r.offset > 0 {
		if err := opts.SetRange(r.offset, 0); err != nil {
			return err
		}
		if err := opts.SetMatchETag(r.etag); err != nil {
			return err
		}
	}
	body, info, header, err := r.store.client.GetObject(r.ctx, r.store.bucket, r.key, opts)
	if err != nil {
		return err
	}
	if r.offset == 0 {
		r.etag, r.size = info.ETag, info.Size
	} else if header.Get("Content-Range") == "" || info.ETag != r.etag {
		return errors.Join(errors.New("the object changed, or the server does not know ranges"), body.Close())
	}
	r.body = body
	return nil
}

// Read implements io.Reader. It returns no data after the context has ended: the client
// only closes the connection then, and buffered data, up to the whole rest of the object,
// could still be read.
func (r *objectReader) Read(p []byte) (int, error) {
	if r.endErr != nil {
		return 0, r.endErr
	}
	if err := r.ctx.Err(); err != nil {
		r.endErr = toStoreError("reading", r.key, toStallError(r.ctx, err))
		return 0, r.endErr
	}
	n, err := r.body.Read(p)
	r.offset += int64(n)
	if n > 0 {
		r.resumes = 0
	}
	if errors.Is(err, io.EOF) && r.offset < r.size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, io.EOF) {
		err = r.resumeStream(err)
	}
	r.endErr = err
	return n, err
}

// resumeStream tries to continue after cause, and returns nil if it succeeds.
func (r *objectReader) resumeStream(cause error) error {
	if err := r.ctx.Err(); err != nil {
		return toStoreError("reading", r.key, toStallError(r.ctx, err))
	}
	if isStallError(cause) && r.resumes+1 >= maxStalls {
		return toStoreError("reading", r.key, r.store.stalledError())
	}
	if r.resumes >= maxResumes || r.etag == "" {
		return toStoreError("reading", r.key, cause)
	}
	r.resumes++
	_ = r.body.Close() // the connection is already broken
	r.body = http.NoBody
	if err := r.openBodyAtOffset(); err != nil {
		return toStoreError("reading", r.key, fmt.Errorf("continuing at byte %d after a broken connection: %w", r.offset, toStallError(r.ctx, err)))
	}
	return nil
}

// Close implements io.Closer.
func (r *objectReader) Close() error {
	defer r.endWatch()
	return r.body.Close()
}
