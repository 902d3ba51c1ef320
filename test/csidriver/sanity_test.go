// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
)

// notImplemented are the reasons of csi-sanity to leave a test out. All are optional capabilities
// that the driver does not claim.
var notImplemented = []string{
	"ControllerExpandVolume not supported",
	"ControllerGetVolumeHealth not supported",
	"ControllerListVolumeHealth not supported",
	"ControllerModifyVolume not supported",
	"ControllerPublishVolume not supported",
	"ControllerUnpublishVolume not supported",
	"Controller Publish, UnpublishVolume not supported",
	"GetCapacity not supported",
	"Modify Volume not supported",
	"Modify volume not supported",
	"NodeExpandVolume not supported",
	"NodeGetStorageHealth not supported",
	"NodeGetVolume not supported",
	"NodeGetVolumeHealth not supported",
	"NodeStageVolume not supported",
	"NodeUnstageVolume not supported",
	"SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported",
	"Service does not have single node multi writer capability",
	"Volume Cloning not supported",
}

// TestSanity runs csi-sanity, which the authors of CSI provide to check a driver.
func TestSanity(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("csi-sanity mounts volumes, which needs root")
	}
	d := startDriver(t, options{})
	config := sanity.NewTestConfig()
	config.Address = "unix:" + d.options.endpoint
	config.TargetPath = filepath.Join(t.TempDir(), "mount")
	config.StagingPath = filepath.Join(t.TempDir(), "staging")
	config.IdempotentCount = 3
	sanity.Test(t, config)
}

var _ = ginkgo.ReportAfterSuite("csi-sanity leaves out what is not implemented, and only that", func(report ginkgo.Report) {
	passed := 0
	for _, spec := range report.SpecReports {
		switch {
		case spec.State == types.SpecStatePassed && spec.LeafNodeType == types.NodeTypeIt:
			passed++
		case spec.State == types.SpecStateSkipped && !slices.Contains(notImplemented, spec.Failure.Message):
			ginkgo.Fail(spec.FullText() + " was skipped: " + spec.Failure.Message)
		}
	}
	const expected = 50
	if passed < expected {
		ginkgo.Fail(fmt.Sprintf("only %d tests of csi-sanity ran, want %d or more", passed, expected))
	}
})
