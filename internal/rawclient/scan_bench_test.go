// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// droppedObjects counts the objects of a scanner and drops them.
type droppedObjects struct{ count int }

func (d *droppedObjects) handlePageMeta(pageMeta) error { return nil }

func (d *droppedObjects) handleRefused(*RefusedError) {}

func (d *droppedObjects) handleObject(s *scanner) error {
	d.count++
	s.batch.dropLastItem()
	return nil
}

// BenchmarkScanner measures the extraction of objects from a page, for objects whose
// bytes are mostly strings and for objects that are mostly structure.
func BenchmarkScanner(b *testing.B) {
	const perPage = 500
	env := make([]string, 20)
	for i := range env {
		env[i] = fmt.Sprintf(`{"name":"VAR_%d","value":"value of %d"}`, i, i)
	}
	for name, spec := range map[string]string{
		"config maps": `"data":{"a.yaml":"` + strings.Repeat(`some: text\nmore: \"text\"\n`, 40) + `"}`,
		"pods": `"spec":{"containers":[{"name":"main","image":"registry.example.org/shop/web:1.2.3","ports":[{"containerPort":8080,"protocol":"TCP"}],` +
			`"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"100m","memory":"128Mi"}},"env":[` + strings.Join(env, ",") + `]}],"restartPolicy":"Always"}`,
		"numbers": `"spec":{"matrix":[` + strings.TrimSuffix(strings.Repeat(`[1,2,3,4,5,6,7,8],`, 60), ",") + `]}`,
	} {
		b.Run(name, func(b *testing.B) {
			items := make([]string, perPage)
			for i := range items {
				items[i] = fmt.Sprintf(`{"metadata":{"name":"object-%d","namespace":"ns-%d","uid":"8c7e5a5e-0000-4000-8000-%012d",`+
					`"labels":{"app":"web","tier":"front"},"managedFields":[{"manager":"kubectl","fieldsV1":{"f:spec":{"f:a":{},"f:b":{"f:c":{}}}}}]},%s}`, i, i%7, i, spec)
			}
			body := []byte(page("", items...))
			s, sink := newScanner(), &droppedObjects{}
			if err := s.prepareForKind(pods); err != nil {
				b.Fatal(err)
			}
			s.batch = &Batch{}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := s.scanPage(bytes.NewReader(body), sink); err != nil {
					b.Fatal(err)
				}
			}
			if sink.count%perPage != 0 {
				b.Errorf("%d objects", sink.count)
			}
		})
	}
}
