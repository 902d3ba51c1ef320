// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel/test/node/host"
	"github.com/grapnel-dev/grapnel/test/node/proc"
)

// record is what is known of a cluster that is up, or was.
type record struct {
	// Root is the repository that it was started from.
	Root  string    `json:"root"`
	Began time.Time `json:"began"`
	// Boot shows whether the machine was rebooted since: then only files remain.
	Boot string `json:"boot"`
	// Settings are the kernel's settings as they were before.
	Settings host.Settings `json:"settings"`
	// Absent are the paths where there was nothing before.
	Absent []string `json:"absent"`
	// Processes are by their names.
	Processes map[string]proc.ID `json:"processes"`
}

// changed are the settings that the cluster or its programs change.
func changed() []string {
	return []string{
		"net/ipv4/ip_forward", bridgeSetting,
		// By the kubelet.
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	}
}

// bridgeSetting has packets between the pods pass through nftables.
const bridgeSetting = "net/bridge/bridge-nf-call-iptables"

// required are the values that the network needs.
func required() host.Settings {
	return host.Settings{"net/ipv4/ip_forward": "1", bridgeSetting: "1"}
}

// elsewhere are the places outside of the state directory where programs leave something.
// Those below /sys are control groups.
func elsewhere() []string {
	places := []string{"/var/lib/kubelet", "/var/log/containers", "/var/log/pods", "/var/lib/cni", "/run/containerd"}
	for _, pattern := range []string{"/sys/fs/cgroup/k8s.io", "/sys/fs/cgroup/*/k8s.io"} {
		controllers, err := filepath.Glob(filepath.Dir(pattern))
		if err != nil {
			continue
		}
		for _, controller := range controllers {
			places = append(places, filepath.Join(controller, filepath.Base(pattern)))
		}
	}
	return places
}

// newRecord reads what there is now.
func newRecord(root string) (*record, error) {
	boot, err := proc.Boot()
	if err != nil {
		return nil, err
	}
	settings, err := host.ReadSettings(host.Sys, changed())
	if err != nil {
		return nil, err
	}
	return &record{
		Root: root, Began: time.Now(), Boot: boot, Settings: settings,
		Absent: host.Absent(elsewhere()), Processes: map[string]proc.ID{},
	}, nil
}

// readRecord returns fs.ErrNotExist if no cluster is up.
func readRecord(state string) (*record, error) {
	content, err := os.ReadFile(filepath.Join(state, "record.json"))
	if err != nil {
		return nil, fmt.Errorf("reading what is up: %w", err)
	}
	var r record
	if err := json.Unmarshal(content, &r); err != nil {
		return nil, fmt.Errorf("reading what is up from %s: %w", state, err)
	}
	return &r, nil
}

// write replaces the record at once.
func (r *record) write(state string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(state, "record.json")
	if err := errors.Join(os.WriteFile(path+".new", content, 0o600), os.Rename(path+".new", path)); err != nil {
		return fmt.Errorf("recording what is up: %w", err)
	}
	return nil
}

// lockName is an address of the kernel's: the @ says that it is no file.
const lockName = "@grapnel-e2e"

// lock keeps others from bringing up or down a cluster until unlock is called or this
// program ends. It leaves nothing behind.
func lock(name string) (unlock func(), err error) {
	listener, err := net.Listen("unix", name)
	if err != nil {
		return nil, fmt.Errorf("another program is bringing the cluster up or down; wait for its end (%w)", err)
	}
	return func() { _ = listener.Close() }, nil
}

// up reports whether there is a record, and so something to take down.
func up(state string) (*record, bool, error) {
	r, err := readRecord(state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return r, err == nil, err
}
