// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/go-logr/logr"
	"github.com/klauspost/compress/gzip"

	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// Digest is the expected size and hash of a stored file.
type Digest struct {
	// SHA256 in lower-case hexadecimal.
	SHA256 string `json:"sha256"`
	// Size in bytes.
	Size int64 `json:"size"`
}

// abortUploads removes the leftovers of an interrupted attempt. They only use space, so a
// missing permission must not fail the backup.
func (s *Store) abortUploads(ctx context.Context, prefix string) {
	aborter, ok := s.objects.(objectstore.UploadAborter)
	if !ok {
		return
	}
	if n, err := aborter.AbortUploads(ctx, prefix); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Aborting leftover uploads failed; their parts may use space")
	} else if n > 0 {
		logr.FromContextOrDiscard(ctx).Info("Aborted leftover uploads of an interrupted run", "uploads", n)
	}
}

// PutFile stores a file that is not part of what an [Attempt] commits, such as the log of
// later actions, or the reason why there is no backup. The caller has compressed it. It
// replaces an existing file. Uid must hold the name or be its last holder. Once the backup
// is complete, files whose digests are part of it cannot be replaced (ErrCommitted); others
// can, such as PostLogs.
func (s *Store) PutFile(ctx context.Context, name, uid string, file File, r io.Reader) (Digest, error) {
	digest, err := s.putFile(ctx, name, uid, file, r)
	if err != nil {
		return Digest{}, fmt.Errorf("storing %s of backup %q: %w", file, name, err)
	}
	return digest, nil
}

func (s *Store) putFile(ctx context.Context, name, uid string, file File, r io.Reader) (Digest, error) {
	key, err := s.fileKey(name, file)
	if err != nil {
		return Digest{}, err
	}
	if file == Contents {
		return Digest{}, errors.New("the archive is stored by an Attempt")
	}
	check := func() error { return s.checkWritable(ctx, name, uid, file) }
	if err := check(); err != nil {
		return Digest{}, err
	}
	digest, _, err := s.putWithDigest(ctx, key, newDigester(r, check), objectstore.PutOptions{})
	return digest, err
}

func (s *Store) checkWritable(ctx context.Context, name, uid string, file File) error {
	st, err := s.inspectBackup(ctx, name, uid)
	if err != nil {
		return err
	}
	if err := st.checkAvailable(); err != nil {
		return err
	}
	if st.isCommitted() {
		if _, sealed := st.grapnel.Files[file]; sealed {
			return ErrCommitted
		}
		return nil
	}
	if st.claim == nil || st.claim.BackupUID != uid {
		return ErrNotClaimed
	}
	return nil
}

// PutJSON is PutFile for the compressed JSON of v. Equal values result in equal bytes.
func (s *Store) PutJSON(ctx context.Context, name, uid string, file File, v any) (Digest, error) {
	return putJSONFile(v, func(r io.Reader) (Digest, error) { return s.PutFile(ctx, name, uid, file, r) })
}

// putJSONFile passes the compressed JSON of v to put while it is encoded.
func putJSONFile(v any, put func(io.Reader) (Digest, error)) (Digest, error) {
	r, w := io.Pipe()
	encoded := make(chan struct{})
	go func() {
		defer close(encoded)
		var err error
		// This ends the stream with the error, or with io.EOF if it is nil.
		defer func() { w.CloseWithError(err) }()
		defer panics.Recover(&err)
		err = encodeJSONGzip(w, v)
	}()
	defer func() {
		_ = r.Close() // never fails; ends the encoder if put did not read to the end, or panicked
		<-encoded
	}()
	return put(r)
}

// encodeJSONGzip writes compressed JSON without a file name or time, so that equal values
// result in equal bytes. It writes while it encodes: encoding/json would buffer all of it,
// and the list of the contents is as long as the backup.
func encodeJSONGzip(w io.Writer, v any) error {
	z := gzip.NewWriter(w)
	if err := json.MarshalWrite(z, v, jsonv1.DefaultOptionsV1()); err != nil {
		return err
	}
	if _, err := io.WriteString(z, "\n"); err != nil {
		return err
	}
	return z.Close()
}

// putWithDigest returns the digest of the stored content, and the ETag from the store.
func (s *Store) putWithDigest(ctx context.Context, key string, d *digester, opts objectstore.PutOptions) (Digest, string, error) {
	info, err := s.objects.Put(ctx, key, d, opts)
	if err != nil {
		return Digest{}, "", err
	}
	if !errors.Is(d.endErr, io.EOF) {
		return Digest{}, "", errors.New("the store reported success without reading to the end")
	}
	digest := d.finalDigest()
	if info.Size != digest.Size {
		return Digest{}, "", fmt.Errorf("the store stored %d of %d bytes", info.Size, digest.Size)
	}
	return digest, info.ETag, nil
}

// digester computes the digest of the content. Its check runs before the end of the stream:
// an error of check replaces io.EOF, so that the store aborts the upload.
type digester struct {
	r      io.Reader
	check  func() error
	hash   hash.Hash
	size   int64
	endErr error
}

func newDigester(r io.Reader, check func() error) *digester {
	return &digester{r: r, check: check, hash: sha256.New()}
}

// Read implements io.Reader.
func (d *digester) Read(p []byte) (int, error) {
	if d.endErr != nil {
		return 0, d.endErr
	}
	n, err := d.r.Read(p)
	d.size += int64(n)
	d.hash.Write(p[:n])
	if errors.Is(err, io.EOF) && d.check != nil {
		if checkErr := d.check(); checkErr != nil {
			err = checkErr
		}
	}
	d.endErr = err
	return n, err
}

func (d *digester) finalDigest() Digest {
	return Digest{SHA256: hex.EncodeToString(d.hash.Sum(nil)), Size: d.size}
}

func computeDigest(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data))}
}
