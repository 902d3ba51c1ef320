// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// shell shows a command and runs it as the reader would. The output is returned,
// not shown.
func (d *demo) shell(ctx context.Context, line string) (string, error) {
	d.command(line)
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Dir = d.root
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+d.kubeconfig(),
		"PATH="+filepath.Dir(d.plane.KubectlPath())+string(os.PathListSeparator)+os.Getenv("PATH"),
	)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s%s", line, err, problems.Bytes(), out.Bytes())
	}
	return out.String(), nil
}

// show runs commands and shows their output.
func (d *demo) show(ctx context.Context, lines ...string) error {
	for _, line := range lines {
		out, err := d.shell(ctx, line)
		if err != nil {
			return err
		}
		if out != "" {
			d.text(sumUp(out))
		}
	}
	return nil
}

// created is what kubectl says of each object that it creates.
var created = regexp.MustCompile(`^([a-z]+)[a-z0-9.]*/\S+ created$`)

// sumUp turns many lines that say what was created into one, and leaves everything
// else as it is.
func sumUp(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	count := map[string]int{}
	for _, line := range lines {
		match := created.FindStringSubmatch(line)
		if match == nil || len(lines) <= 2 {
			return out
		}
		count[match[1]]++
	}
	parts := make([]string, 0, len(count))
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%s (%d)", kind, count[kind]))
	}
	return fmt.Sprintf("%d objects created: %s", len(lines), strings.Join(parts, ", "))
}

func (d *demo) kubeconfig() string {
	return filepath.Join(d.dir, "kubeconfig")
}
