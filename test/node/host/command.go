// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Path is where programs of the system are looked for: that of a user may lack half.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Find returns the path of a program of the system.
func Find(name string) (string, error) {
	for dir := range strings.SplitSeq(Path, ":") {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no program %s in %s: run test/node/packages.sh as root", name, Path)
}

// Run runs a program of the system, or one given by its path, until ctx ends and for
// three minutes at most. What it writes is returned, and is a part of the error.
func Run(ctx context.Context, program string, args ...string) (string, error) {
	const limit = 3 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	path := program
	if !filepath.IsAbs(path) {
		var err error
		if path, err = Find(program); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, path, args...)
	// A child that has its output must not keep it waiting.
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return string(out), nil
}
