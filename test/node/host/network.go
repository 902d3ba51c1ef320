// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// CheckFree fails if one of the networks overlaps one that this machine is in.
func CheckFree(networks ...netip.Prefix) error {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("listing the addresses of this machine: %w", err)
	}
	var own []netip.Prefix
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			own = append(own, prefix)
		}
	}
	return overlap(own, networks)
}

func overlap(own, wanted []netip.Prefix) error {
	for _, network := range wanted {
		for _, mine := range own {
			if network.Overlaps(mine) {
				return fmt.Errorf("the network %s of the cluster overlaps %s, an address of this machine: "+
					"give that up, or run this elsewhere", network, mine)
			}
		}
	}
	return nil
}

// AddBridge makes a bridge. Without a valid address it has none.
func AddBridge(ctx context.Context, name string, address netip.Prefix) error {
	commands := [][]string{{"link", "add", name, "type", "bridge"}}
	if address.IsValid() {
		commands = append(commands, []string{"addr", "add", address.String(), "dev", name})
	}
	commands = append(commands, []string{"link", "set", name, "up"})
	for _, args := range commands {
		if _, err := Run(ctx, "ip", args...); err != nil {
			return fmt.Errorf("making the bridge %s: %w", name, err)
		}
	}
	return nil
}

// AddRoute routes a network over a device. This machine has the address source there.
func AddRoute(ctx context.Context, network netip.Prefix, device string, source netip.Addr) error {
	_, err := Run(ctx, "ip", "route", "add", network.String(), "dev", device, "src", source.String())
	if err != nil {
		return fmt.Errorf("adding a route: %w", err)
	}
	return nil
}

// RemoveBridge removes a bridge, and with it its routes.
func RemoveBridge(ctx context.Context, name string) error {
	_, err := net.InterfaceByName(name)
	if err != nil && strings.Contains(err.Error(), "no such network interface") {
		return nil
	}
	if err == nil {
		_, err = Run(ctx, "ip", "link", "delete", name)
	}
	if err != nil {
		return fmt.Errorf("removing the bridge %s: %w", name, err)
	}
	return nil
}

// RemoveTables removes tables of nftables, given as family and name.
func RemoveTables(ctx context.Context, tables ...string) error {
	list, err := Run(ctx, "nft", "list", "tables")
	if err != nil {
		return fmt.Errorf("listing the tables of nftables: %w", err)
	}
	var errs []error
	for line := range strings.Lines(list) {
		for _, table := range tables {
			if strings.TrimSpace(line) == "table "+table {
				_, err := Run(ctx, "nft", append([]string{"delete", "table"}, strings.Fields(table)...)...)
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
