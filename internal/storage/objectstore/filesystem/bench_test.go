// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package filesystem_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/filesystem"
)

func BenchmarkPut(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 64 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			s, err := filesystem.Open(b.TempDir(), "")
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			content := make([]byte, size)
			_, _ = rand.NewChaCha8([32]byte{}).Read(content)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Put(b.Context(), "dir/key", bytes.NewReader(content), objectstore.PutOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
