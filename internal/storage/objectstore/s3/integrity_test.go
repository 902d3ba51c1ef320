// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/s3"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

// putBoth stores an object with one request, and one in parts.
func putBoth(t *testing.T, s *s3.Store) error {
	t.Helper()
	var errs []error
	for key, size := range map[string]int{"small": 10, "large": 5 << 19} {
		_, err := s.Put(t.Context(), key, bytes.NewReader(make([]byte, size)), objectstore.PutOptions{})
		if _, statErr := s.Stat(t.Context(), key); (err == nil) != (statErr == nil) {
			t.Errorf("Put returns %v, but Stat %v", err, statErr)
		}
		errs = append(errs, err)
	}
	if (errs[0] == nil) != (errs[1] == nil) {
		t.Errorf("only one of two objects could be stored: %v, %v", errs[0], errs[1])
	}
	return errors.Join(errs...)
}

// TestStore_Checksums uses servers that refuse requests with another checksum than theirs.
func TestStore_Checksums(t *testing.T) {
	t.Parallel()
	algorithms := []s3.ChecksumAlgorithm{s3.ChecksumMD5, s3.ChecksumNone, s3.ChecksumCRC32, s3.ChecksumCRC32C, s3.ChecksumSHA1, s3.ChecksumSHA256}
	for i, required := range algorithms {
		t.Run(string(required), func(t *testing.T) {
			t.Parallel()
			opts := s3server.Start(t, s3server.Options{RequireChecksum: required}).S3Options()
			opts.PartSize, opts.Checksum = 1<<20, required
			if err := putBoth(t, open(t, opts)); err != nil {
				t.Errorf("storing with %s: %v", required, err)
			}
			opts.Checksum = algorithms[(i+1)%len(algorithms)]
			if putBoth(t, emptied(t, open(t, opts))) == nil {
				t.Errorf("the server accepts %s instead of %s: it proves nothing", opts.Checksum, required)
			}
		})
	}
}

// TestPut_DamagedContent: a server stores nothing that was damaged on its way.
func TestPut_DamagedContent(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{})
	for _, algorithm := range []s3.ChecksumAlgorithm{"", s3.ChecksumCRC32, s3.ChecksumCRC32C, s3.ChecksumSHA1, s3.ChecksumSHA256} {
		t.Run("algorithm "+string(algorithm), func(t *testing.T) {
			opts := server.S3Options()
			opts.PartSize, opts.Checksum = 1<<20, algorithm
			opts.Transport = newTransport(t, func(next http.RoundTripper, r *http.Request, _ int) (*http.Response, error) {
				if r.Method == http.MethodPut {
					content, err := io.ReadAll(r.Body)
					if err != nil {
						return nil, err
					}
					content[len(content)/2] ^= 1
					r.Body = io.NopCloser(bytes.NewReader(content))
				}
				return next.RoundTrip(r)
			})
			if err := putBoth(t, open(t, opts)); err == nil || !strings.Contains(err.Error(), "BadDigest") {
				t.Errorf("storing damaged content: %v", err)
			}
		})
	}
}

// TestStore_Encryption uses a bucket whose policy requires an encryption.
func TestStore_Encryption(t *testing.T) {
	t.Parallel()
	for required, encryption := range map[string]s3.Encryption{
		"AES256":            {Algorithm: s3.EncryptionAES256},
		"aws:kms":           {Algorithm: s3.EncryptionKMS},
		"aws:kms=alias/one": {Algorithm: s3.EncryptionKMS, KMSKeyID: "alias/one"},
	} {
		t.Run(required, func(t *testing.T) {
			t.Parallel()
			opts := s3server.Start(t, s3server.Options{RequireEncryption: required}).S3Options()
			opts.PartSize = 1 << 20
			if err := putBoth(t, open(t, opts)); !errors.Is(err, objectstore.ErrAccess) {
				t.Errorf("storing without encryption: %v, want ErrAccess", err)
			}
			opts.Encryption = encryption
			if err := putBoth(t, open(t, opts)); err != nil {
				t.Errorf("storing with encryption: %v", err)
			}
			opts.Encryption = s3.Encryption{Algorithm: s3.EncryptionKMS, KMSKeyID: "alias/other"}
			if err := putBoth(t, emptied(t, open(t, opts))); !errors.Is(err, objectstore.ErrAccess) {
				t.Errorf("storing with another key: %v, want ErrAccess", err)
			}
		})
	}
}

// TestStore_TLS uses a server whose certificate nobody signed.
func TestStore_TLS(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{TLS: true})
	other := s3server.Start(t, s3server.Options{TLS: true})
	for name, tc := range map[string]struct {
		change func(*s3.Options)
		want   error
	}{
		"its certificate":          {func(*s3.Options) {}, nil},
		"no certificate":           {func(o *s3.Options) { o.CACert = nil }, objectstore.ErrUnavailable},
		"another one":              {func(o *s3.Options) { o.CACert = other.CACert }, objectstore.ErrUnavailable},
		"no verification":          {func(o *s3.Options) { o.CACert, o.InsecureSkipVerify = nil, true }, nil},
		"a bundle of certificates": {func(o *s3.Options) { o.CACert = append(bytes.Clone(other.CACert), o.CACert...) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := server.S3Options()
			opts.MaxRetries = 1
			tc.change(&opts)
			_, err := open(t, opts).Put(t.Context(), strings.ReplaceAll(name, " ", "-"), strings.NewReader("x"), objectstore.PutOptions{})
			if !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}
