// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package driverdir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/grpc/codes"
)

// Faults are what the driver does wrong, from now on. The zero value is a driver without faults.
type Faults struct {
	// Calls has the name of a method, as in CreateSnapshot, for each method with a fault.
	Calls map[string]Fault `json:"calls,omitempty"`
	// NeverReady keeps snapshots from becoming ready to use. Those that are already are no longer
	// reported as such.
	NeverReady bool `json:"neverReady,omitempty"`
}

// Fault is how a method fails.
type Fault struct {
	// Hang lets the call wait until its caller gives up, or the fault is removed.
	Hang bool `json:"hang,omitempty"`
	// Code is the code that the call fails with; OK means that it does not fail.
	Code codes.Code `json:"code,omitempty"`
	// AfterWork applies the fault when the work is done: only the answer is lost.
	AfterWork bool `json:"afterWork,omitempty"`
}

func (d Dir) faultsPath() string {
	return filepath.Join(string(d), "faults.json")
}

// SetFaults replaces all faults.
func (d Dir) SetFaults(faults Faults) error {
	return writeJSON(d.faultsPath(), faults)
}

// LoadFaults reads the faults.
func (d Dir) LoadFaults() (Faults, error) {
	content, err := os.ReadFile(d.faultsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return Faults{}, nil
	}
	var faults Faults
	if err == nil {
		err = json.Unmarshal(content, &faults)
	}
	if err != nil {
		return Faults{}, fmt.Errorf("reading the faults: %w", err)
	}
	return faults, nil
}
