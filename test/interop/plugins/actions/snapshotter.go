// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package actions

import (
	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// snapshotter is a VolumeSnapshotter. Grapnel never calls it.
type snapshotter struct{}

var errNoSnapshots = errors.New("there are no snapshots here")

// Init accepts every configuration.
func (snapshotter) Init(map[string]string) error { return nil }

// CreateVolumeFromSnapshot fails.
func (snapshotter) CreateVolumeFromSnapshot(string, string, string, *int64) (string, error) {
	return "", errNoSnapshots
}

// GetVolumeID knows no volume.
func (snapshotter) GetVolumeID(runtime.Unstructured) (string, error) { return "", nil }

// SetVolumeID changes nothing.
func (snapshotter) SetVolumeID(pv runtime.Unstructured, _ string) (runtime.Unstructured, error) {
	return pv, nil
}

// GetVolumeInfo fails.
func (snapshotter) GetVolumeInfo(string, string) (string, *int64, error) {
	return "", nil, errNoSnapshots
}

// CreateSnapshot fails.
func (snapshotter) CreateSnapshot(string, string, map[string]string) (string, error) {
	return "", errNoSnapshots
}

// DeleteSnapshot fails.
func (snapshotter) DeleteSnapshot(string) error { return errNoSnapshots }
