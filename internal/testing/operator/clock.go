// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// ClockFileEnvVar is the variable with the path of the file that contains the clock offset of
// an operator of BuildWithClock, as in "-10m". Without the file, the offset is zero.
const ClockFileEnvVar = "GRAPNEL_TEST_CLOCK"

// steppedClockSource is added to the operator's main package.
//
//go:embed clock.go.txt
var steppedClockSource []byte

// BuildWithClock compiles an operator whose clock can be set while it runs: the wall clock
// that it passes to its components, but not the monotonic clock, and not the clock of
// leader election. The operator has no flag for that, and libfaketime does not work because
// Go reads the time from the kernel and not from the C library.
func BuildWithClock(ctx context.Context) (path string, err error) {
	root, err := program.ModuleRoot()
	if err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp("", "grapnel-clock-")
	if err != nil {
		return "", fmt.Errorf("creating a directory for another main.go: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	main, err := os.ReadFile(filepath.Join(root, "main.go"))
	if err != nil {
		return "", fmt.Errorf("reading the operator's main.go: %w", err)
	}
	given := []byte("Now: time.Now,")
	if !bytes.Contains(main, given) {
		return "", fmt.Errorf("main.go does not contain %q: fix the replacement of the clock", given)
	}
	replaced := map[string][]byte{
		"main.go":         bytes.ReplaceAll(main, given, []byte("Now: steppedNow,")),
		"steppedclock.go": steppedClockSource,
	}
	files := map[string]string{}
	for name, content := range replaced {
		files[filepath.Join(root, name)] = filepath.Join(tmp, name)
		if err := os.WriteFile(filepath.Join(tmp, name), content, 0o600); err != nil {
			return "", fmt.Errorf("writing another main.go: %w", err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		return "", err
	}
	file := filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	path = filepath.Join(root, "bin", "test", "programs", "operator-with-clock")
	return path, program.Build(ctx, root, path, "-overlay="+file)
}
