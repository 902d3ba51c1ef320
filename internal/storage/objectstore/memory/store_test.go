// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.RunConformance(t, func() objectstore.Store { return memory.New() })
}

func TestConformanceWithoutPutIfAbsent(t *testing.T) {
	t.Parallel()
	storetest.RunConformance(t, func() objectstore.Store { return memory.New(memory.WithoutPutIfAbsent()) })
}

func TestConformanceWithoutMetadata(t *testing.T) {
	t.Parallel()
	storetest.RunConformance(t, func() objectstore.Store { return memory.New(memory.WithoutMetadata()) })
}

func TestConformanceOfFaultyWithoutFaults(t *testing.T) {
	t.Parallel()
	storetest.RunConformance(t, func() objectstore.Store { return storetest.NewFaultyStore(memory.New()) })
}
