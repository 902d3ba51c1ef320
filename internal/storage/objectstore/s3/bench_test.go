// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/s3"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

func BenchmarkPut(b *testing.B) {
	for _, size := range []int64{1 << 10, 100 << 10, 64 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			s, err := s3.New(s3server.Start(b, s3server.Options{}).S3Options())
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				r := io.LimitReader(rand.NewChaCha8([32]byte{}), size)
				if _, err := s.Put(b.Context(), "key", r, objectstore.PutOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
