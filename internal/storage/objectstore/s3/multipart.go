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

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

const (
	// partBuffers is the number of parts in memory: one is filled while the
	// others are sent.
	partBuffers = 3

	// abortTimeout bounds the clean-up after a failure, which continues after the caller's
	// context has ended.
	abortTimeout = 30 * time.Second
)

// putMultipart stores first and the rest of r as a multipart upload.
func (p *putCall) putMultipart(ctx context.Context, first []byte, r io.Reader) error {
	if p.ifAbsent {
		// This avoids sending everything in vain; the condition decides in the end.
		if err := p.checkObjectAbsent(ctx); err != nil {
			return err
		}
	}
	s, opts := p.store, p.putOptions(false)
	if storedChecksums[s.checksum].IsSet() {
		opts.UserMetadata[uploadHeader] = string(s.checksum)
	}
	var id string
	err := s.requestWithStallLimit(ctx, maxStalls, func(ctx context.Context) (err error) {
		id, err = s.client.NewMultipartUpload(ctx, s.bucket, p.key, opts)
		return err
	})
	if err != nil {
		return fmt.Errorf("starting a multipart upload: %w", err)
	}
	u := &upload{putCall: p, id: id, freeBuffers: make(chan []byte, partBuffers)}
	err = u.sendParts(ctx, first, r)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = u.completeUpload(ctx)
	}
	if err != nil {
		u.abortUpload(ctx)
	}
	return err
}

// upload is one multipart upload in progress.
type upload struct {
	*putCall
	id          string
	freeBuffers chan []byte // buffers to fill; nil buffers are not allocated yet

	mu             sync.Mutex
	completedParts []minio.CompletePart
	err            error // the first error of a part
}

// sendParts sends all parts and waits for them.
func (u *upload) sendParts(ctx context.Context, first []byte, r io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range partBuffers - 1 {
		u.freeBuffers <- nil
	}
	var wg sync.WaitGroup
	err := u.splitIntoParts(ctx, first, r, func(number int, part []byte) {
		wg.Go(func() {
			if err := u.sendPart(ctx, number, part); err != nil {
				u.recordPartError(err)
				cancel()
			}
			u.freeBuffers <- part[:0]
		})
	})
	if err != nil {
		// After a failed part, this is only the canceled context, and the error of the part
		// takes precedence. Otherwise this is the cause.
		u.recordPartError(err)
		cancel()
	}
	wg.Wait()
	return u.err
}

// splitIntoParts splits the stream into parts and passes them to start as buffers become
// free.
func (u *upload) splitIntoParts(ctx context.Context, part []byte, r io.Reader, start func(int, []byte)) error {
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
		case buf = <-u.freeBuffers:
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

func (u *upload) sendPart(ctx context.Context, number int, part []byte) error {
	digests := u.store.computeDigests(part)
	var sent minio.ObjectPart
	err := u.store.requestWithStallLimit(ctx, maxStalls, func(ctx context.Context) (err error) {
		sent, err = u.store.client.PutObjectPart(ctx, u.store.bucket, u.key, u.id, number, bytes.NewReader(part), int64(len(part)),
			minio.PutObjectPartOptions{
				Md5Base64: digests.md5, Sha256Hex: digests.sha256, CustomHeader: digests.header(), DisableContentSha256: true,
			})
		return err
	})
	if err != nil {
		return fmt.Errorf("sending part %d: %w", number, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.completedParts = append(u.completedParts, digests.newCompletePart(number, sent.ETag))
	return nil
}

func (u *upload) recordPartError(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil {
		u.err = err
	}
}

// completeUpload makes the object visible. The server may succeed and the reply still get
// lost: the server stops answering while it assembles the parts, or a proxy times out
// first.
func (u *upload) completeUpload(ctx context.Context) error {
	slices.SortFunc(u.completedParts, func(a, b minio.CompletePart) int { return cmp.Compare(a.PartNumber, b.PartNumber) })
	var opts minio.PutObjectOptions
	if u.ifAbsent && u.store.conditionalWrites.Load() != conditionalNo {
		opts.SetMatchETagExcept("*")
	}
	err := u.assembleParts(ctx, opts)
	if u.ifAbsent && hasErrorCode(err, "NotImplemented") { // the server supports the condition only for single requests
		if err = u.checkObjectAbsent(ctx); err == nil {
			err = u.assembleParts(ctx, minio.PutObjectOptions{})
		}
	}
	if err != nil && ctx.Err() == nil {
		err = u.resolveOwnWrite(ctx, err)
	}
	if err != nil {
		return fmt.Errorf("completing the multipart upload: %w", err)
	}
	return nil
}

// assembleParts requests that the server assemble the parts to the object.
func (u *upload) assembleParts(ctx context.Context, opts minio.PutObjectOptions) error {
	return u.store.requestWithStallLimit(ctx, maxAssemblyStalls, func(ctx context.Context) error {
		info, err := u.store.client.CompleteMultipartUpload(ctx, u.store.bucket, u.key, u.id, u.completedParts, opts)
		if err == nil {
			u.etag = info.ETag
		}
		return err
	})
}

// abortUpload frees the space of the parts. It must also work after the caller's context
// ended. If it fails, AbortUploads or a lifecycle rule of the bucket frees the space.
func (u *upload) abortUpload(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	_ = u.store.client.AbortMultipartUpload(ctx, u.store.bucket, u.key, u.id)
}
