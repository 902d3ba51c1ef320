// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupstore

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

	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

// Digest is what a stored file must be.
type Digest struct {
	// SHA256 in lower-case hexadecimal.
	SHA256 string `json:"sha256"`
	// Size in bytes.
	Size int64 `json:"size"`
}

// PutContents stores the archive that r yields. It replaces the archive of an
// earlier attempt of the same UID. That uid holds the name is checked before
// the first byte and again before the upload is completed. The errors are
// ErrNotClaimed, a *TakenError or ErrCommitted; r's own error is wrapped, and
// nothing becomes visible with any of them.
func (s *Store) PutContents(ctx context.Context, name, uid string, r io.Reader) (Digest, error) {
	digest, err := s.putContents(ctx, name, uid, r)
	if err != nil {
		return Digest{}, fmt.Errorf("storing the archive of backup %q: %w", name, err)
	}
	return digest, nil
}

func (s *Store) putContents(ctx context.Context, name, uid string, r io.Reader) (Digest, error) {
	key, err := s.fileKey(name, Contents)
	if err != nil {
		return Digest{}, err
	}
	check := func() error { return s.checkWritable(ctx, name, uid) }
	if err := check(); err != nil {
		return Digest{}, err
	}
	s.abortUploads(ctx, key)
	return s.put(ctx, key, newDigester(r, check))
}

func (s *Store) checkWritable(ctx context.Context, name, uid string) error {
	st, err := s.inspect(ctx, name, uid)
	if err != nil {
		return err
	}
	return st.writable()
}

// abortUploads removes what an interrupted attempt left behind. It only costs
// space, so a missing permission must not fail the backup.
func (s *Store) abortUploads(ctx context.Context, prefix string) {
	aborter, ok := s.objects.(objectstore.UploadAborter)
	if !ok {
		return
	}
	if n, err := aborter.AbortUploads(ctx, prefix); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Aborting stray uploads failed, their parts may cost space")
	} else if n > 0 {
		logr.FromContextOrDiscard(ctx).Info("Aborted stray uploads of an interrupted run", "uploads", n)
	}
}

// PutFile stores a file of the backup, which the caller has compressed, and
// replaces what is there. Uid must hold the name or be the last that held it.
// Once the backup is complete, files whose digests are part of it cannot be
// replaced (ErrCommitted); others can, such as PostLogs.
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
		return Digest{}, errors.New("the archive is stored by PutContents")
	}
	check := func() error { return s.checkFile(ctx, name, uid, file) }
	if err := check(); err != nil {
		return Digest{}, err
	}
	if file == MergedContents { // the one that is large
		s.abortUploads(ctx, key)
	}
	return s.put(ctx, key, newDigester(r, check))
}

func (s *Store) checkFile(ctx context.Context, name, uid string, file File) error {
	st, err := s.inspect(ctx, name, uid)
	if err != nil {
		return err
	}
	if err := st.available(); err != nil {
		return err
	}
	if st.committed() {
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

// PutJSON is PutFile for the compressed JSON of v. The same v gives the same
// bytes.
func (s *Store) PutJSON(ctx context.Context, name, uid string, file File, v any) (Digest, error) {
	r, w := io.Pipe()
	encoded := make(chan struct{})
	go func() {
		defer close(encoded)
		// Ends the stream with the error, or with io.EOF if it is nil.
		w.CloseWithError(encodeGzip(w, v))
	}()
	digest, err := s.PutFile(ctx, name, uid, file, r)
	_ = r.Close() // Never fails; ends the encoder if nobody read to the end.
	<-encoded
	return digest, err
}

// encodeGzip writes compressed JSON without a file name or time, so that equal
// values give equal bytes. It writes while it encodes: encoding/json would hold
// all of it, and the list of what is in a backup is as long as the backup.
func encodeGzip(w io.Writer, v any) error {
	z := gzip.NewWriter(w)
	if err := json.MarshalWrite(z, v, jsonv1.DefaultOptionsV1()); err != nil {
		return err
	}
	if _, err := io.WriteString(z, "\n"); err != nil {
		return err
	}
	return z.Close()
}

func (s *Store) put(ctx context.Context, key string, d *digester) (Digest, error) {
	info, err := s.objects.Put(ctx, key, d, objectstore.PutOptions{})
	if err != nil {
		return Digest{}, err
	}
	if !errors.Is(d.end, io.EOF) {
		return Digest{}, errors.New("the store reported success without reading to the end")
	}
	digest := d.digest()
	if info.Size != digest.Size {
		return Digest{}, fmt.Errorf("the store kept %d of %d bytes", info.Size, digest.Size)
	}
	return digest, nil
}

// digester computes the digest of what passes through it, and has the last
// word before the end: an error of check takes the place of io.EOF, so that
// the store abandons the upload.
type digester struct {
	r     io.Reader
	check func() error
	hash  hash.Hash
	size  int64
	end   error
}

func newDigester(r io.Reader, check func() error) *digester {
	return &digester{r: r, check: check, hash: sha256.New()}
}

// Read implements io.Reader.
func (d *digester) Read(p []byte) (int, error) {
	if d.end != nil {
		return 0, d.end
	}
	n, err := d.r.Read(p)
	d.size += int64(n)
	d.hash.Write(p[:n])
	if errors.Is(err, io.EOF) && d.check != nil {
		if checkErr := d.check(); checkErr != nil {
			err = checkErr
		}
	}
	d.end = err
	return n, err
}

func (d *digester) digest() Digest {
	return Digest{SHA256: hex.EncodeToString(d.hash.Sum(nil)), Size: d.size}
}

func digestOf(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data))}
}
