// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
)

// onlyReader hides other methods of a reader, such as one that returns its size.
type onlyReader struct{ io.Reader }

// failingReader is the end of a broken source.
type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// callOnRead is an empty reader that calls a function when it is read.
type callOnRead func()

func (c callOnRead) Read([]byte) (int, error) {
	c()
	return 0, io.EOF
}

// newRandomReader returns an endless, reproducible stream.
func newRandomReader(seed byte) io.Reader {
	return rand.NewChaCha8([32]byte{seed})
}

func randomBytes(size int, seed byte) []byte {
	b := make([]byte, size)
	_, _ = io.ReadFull(newRandomReader(seed), b) // never fails
	return b
}

func sortedKeys(keys []string) []string {
	return slices.Sorted(slices.Values(keys))
}

func wantSameStream(t *testing.T, got, want io.Reader) {
	t.Helper()
	a, b := make([]byte, 1<<20), make([]byte, 1<<20)
	for offset := 0; ; {
		n, errA := io.ReadFull(got, a)
		m, errB := io.ReadFull(want, b)
		if !bytes.Equal(a[:n], b[:m]) || !errors.Is(errA, errB) {
			t.Errorf("streams differ after %d bytes: %d and %d more bytes, errors %v and %v", offset, n, m, errA, errB)
			return
		}
		if errA != nil {
			return
		}
		offset += n
	}
}
