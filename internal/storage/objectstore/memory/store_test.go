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

func TestConformance_WithoutPutIfAbsent(t *testing.T) {
	t.Parallel()
	storetest.RunConformance(t, func() objectstore.Store { return memory.New(memory.WithoutPutIfAbsent()) })
}

func TestConformance_WithoutMetadata(t *testing.T) {
	t.Parallel()
	storetest.RunConformance(t, func() objectstore.Store { return memory.New(memory.WithoutMetadata()) })
}

func TestConformance_FaultyStore(t *testing.T) {
	t.Parallel()
	storetest.RunConformance(t, func() objectstore.Store { return storetest.NewFaultyStore(memory.New()) })
}
