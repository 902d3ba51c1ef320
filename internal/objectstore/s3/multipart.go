// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

const (
	// buffers is the number of parts in memory: one is filled while the
	// others are sent.
	buffers = 3

	// abortTimeout bounds the clean-up after a failure, which goes on when the
	// caller's context has ended.
	abortTimeout = 30 * time.Second
)

// parts stores first and everything that follows in r as a multipart upload.
func (p *put) parts(ctx context.Context, first []byte, r io.Reader) error {
	if p.ifAbsent {
		// Saves sending everything in vain; the condition decides in the end.
		if err := p.absent(ctx); err != nil {
			return err
		}
	}
	s := p.store
	id, err := s.client.NewMultipartUpload(ctx, s.bucket, p.key, p.options(false))
	if err != nil {
		return fmt.Errorf("starting a multipart upload: %w", err)
	}
	u := &upload{put: p, id: id, free: make(chan []byte, buffers)}
	err = u.sendAll(ctx, first, r)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = u.complete(ctx)
	}
	if err != nil {
		u.abort(ctx)
	}
	return err
}

// upload is one multipart upload under way.
type upload struct {
	*put
	id   string
	free chan []byte // Buffers to fill; nil ones have yet to be made.

	mu   sync.Mutex
	done []minio.CompletePart
	err  error // The first of a part.
}

// sendAll sends all parts and waits for them.
func (u *upload) sendAll(ctx context.Context, first []byte, r io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range buffers - 1 {
		u.free <- nil
	}
	var wg sync.WaitGroup
	err := u.read(ctx, first, r, func(number int, part []byte) {
		wg.Go(func() {
			if err := u.send(ctx, number, part); err != nil {
				u.fail(err)
				cancel()
			}
			u.free <- part[:0]
		})
	})
	if err != nil {
		// After a failed part this is only the cancelled context, and stays
		// behind the cause; before one, it is the cause.
		u.fail(err)
		cancel()
	}
	wg.Wait()
	return u.err
}

// read cuts the stream into parts and hands them to start, as fast as buffers
// become free.
func (u *upload) read(ctx context.Context, part []byte, r io.Reader, start func(int, []byte)) error {
	more := true
	for number := 1; ; number++ {
		if number > u.store.maxParts {
			return fmt.Errorf("%w: it has more than %d parts of %d bytes", objectstore.ErrTooLarge, u.store.maxParts, u.store.partSize)
		}
		u.size += int64(len(part))
		start(number, part)
		if !more {
			return nil
		}
		var buf []byte
		select {
		case buf = <-u.free:
		case <-ctx.Done():
			return ctx.Err()
		}
		if buf == nil {
			buf = make([]byte, 0, u.store.partSize)
		}
		var err error
		if part, more, err = readPart(ctx, r, buf, u.store.partSize); err != nil {
			return err
		}
		if len(part) == 0 {
			return nil
		}
	}
}

func (u *upload) send(ctx context.Context, number int, part []byte) error {
	md5Sum, sha256Sum := digests(part)
	sent, err := u.store.client.PutObjectPart(ctx, u.store.bucket, u.key, u.id, number, bytes.NewReader(part), int64(len(part)),
		minio.PutObjectPartOptions{Md5Base64: md5Sum, Sha256Hex: sha256Sum, DisableContentSha256: true})
	if err != nil {
		return fmt.Errorf("sending part %d: %w", number, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done = append(u.done, minio.CompletePart{PartNumber: number, ETag: sent.ETag})
	return nil
}

func (u *upload) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil {
		u.err = err
	}
}

// complete makes the object visible.
func (u *upload) complete(ctx context.Context) error {
	slices.SortFunc(u.done, func(a, b minio.CompletePart) int { return cmp.Compare(a.PartNumber, b.PartNumber) })
	var opts minio.PutObjectOptions
	if u.ifAbsent && u.store.conditional.Load() != conditionalNo {
		opts.SetMatchETagExcept("*")
	}
	info, err := u.store.client.CompleteMultipartUpload(ctx, u.store.bucket, u.key, u.id, u.done, opts)
	switch {
	case err == nil:
		u.etag = info.ETag
	case codeIs(err, "NoSuchUpload", "PreconditionFailed", "ConditionalRequestConflict"):
		err = u.settle(ctx, err)
	}
	if err != nil {
		return fmt.Errorf("completing the multipart upload: %w", err)
	}
	return nil
}

// abort frees the space of the parts. It must also work after the caller's
// context ended; if it fails, AbortUploads or a lifecycle rule of the bucket
// remains.
func (u *upload) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	_ = u.store.client.AbortMultipartUpload(ctx, u.store.bucket, u.key, u.id)
}
