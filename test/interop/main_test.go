// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// The inputs are the same in every run unless a flag changes them.
const (
	checks = "2000"
	seed   = "1"
)

func TestMain(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{
		"rapid.checks": checks, "rapid.seed": seed, "rapid.nofailfile": "true",
	} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			fmt.Fprintf(os.Stderr, "setting %s: %v\n", name, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}
