// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

var _ = Describe("An undisturbed operator", func() {
	It("completes a Backup", func() {
		t := GinkgoTB()
		s := world.StartOperator(t)
		b := env.Create(t, world.Client, s.NewBackup(world.CreateApp(t, 2)))
		env.WaitFor(t, world.Client, b, "it has completed", func(b *v1alpha1.Backup) bool {
			return b.Status.Phase == v1alpha1.RunPhaseCompleted
		})
	})
})
