// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// world is what all specs share: a control plane, the programs, and a client.
var world env.Env

var (
	_ = BeforeSuite(func() { Expect(world.Start(env.Options{ControllerManager: true})).To(Succeed()) })
	_ = AfterSuite(func() { Expect(world.Stop()).To(Succeed()) })
)

func TestFaults(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	RunSpecs(t, "Faults")
}
