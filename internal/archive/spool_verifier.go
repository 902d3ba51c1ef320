// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
)

// ErrDigestMismatch is returned by NewSpool for an archive that does not have the expected
// digest or size.
var ErrDigestMismatch = errors.New("archive is not what was stored")

// verifier passes through the content of r, and returns ErrDigestMismatch instead of io.EOF
// if it is not as expected. It fails as soon as there is more than expected.
type verifier struct {
	r      io.Reader
	check  func() error
	sha256 string
	size   int64
	hash   hash.Hash
	read   int64
	endErr error
}

// newVerifier does not check an empty digest or a size of 0. An error of check ends the
// stream.
func newVerifier(r io.Reader, digest string, size int64, check func() error) *verifier {
	return &verifier{r: r, check: check, sha256: strings.ToLower(digest), size: size, hash: sha256.New()}
}

// Read implements io.Reader.
func (v *verifier) Read(p []byte) (int, error) {
	if v.endErr != nil {
		return 0, v.endErr
	}
	if v.endErr = v.check(); v.endErr != nil {
		return 0, v.endErr
	}
	n, err := v.r.Read(p)
	v.read += int64(n)
	v.hash.Write(p[:n])
	switch {
	case v.size != 0 && v.read > v.size:
		err = fmt.Errorf("%w: it has more than %d bytes", ErrDigestMismatch, v.size)
	case errors.Is(err, io.EOF):
		err = v.checkDigest()
	}
	v.endErr = err
	return n, err
}

// checkDigest returns io.EOF if the content is as expected.
func (v *verifier) checkDigest() error {
	if v.size != 0 && v.read != v.size {
		return fmt.Errorf("%w: it has %d bytes of %d", ErrDigestMismatch, v.read, v.size)
	}
	if sum := hex.EncodeToString(v.hash.Sum(nil)); v.sha256 != "" && v.sha256 != sum {
		return fmt.Errorf("%w: its SHA-256 is %s instead of %s", ErrDigestMismatch, sum, v.sha256)
	}
	return io.EOF
}
