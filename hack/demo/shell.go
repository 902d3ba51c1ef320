// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// printHeading prints the title of the next step.
func (d *demo) printHeading(title string) {
	d.step++
	title = fmt.Sprintf("%d. %s", d.step, title)
	fmt.Printf("\n%s\n%s\n", title, strings.Repeat("-", len(title)))
}

// printLine prints one line of text.
func printLine(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) }

// printBlock prints several lines, with a deeper indentation.
func printBlock(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		fmt.Println(strings.TrimRight("    "+line, " \n"))
	}
}

// runCommands prints each command, runs it, and prints its output.
func (d *demo) runCommands(ctx context.Context, lines ...string) error {
	for _, line := range lines {
		fmt.Printf("\n  $ %s\n", line)
		cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", line)
		cmd.Dir = d.root
		cmd.Env = append(os.Environ(), "KUBECONFIG="+d.plane.KubeconfigPath(),
			"PATH="+d.programPath()+string(os.PathListSeparator)+os.Getenv("PATH"))
		output, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", line, err, output)
		}
		if len(output) > 0 {
			printBlock(summarizeCreated(string(output)))
		}
	}
	return nil
}

var createdPattern = regexp.MustCompile(`(?m)^\S+/\S+ created$`)

// summarizeCreated replaces the lines "... created" of kubectl by their number, if there are many.
func summarizeCreated(output string) string {
	lines := strings.Count(output, "\n")
	if created := len(createdPattern.FindAllString(output, -1)); lines > 3 && created == lines {
		return fmt.Sprintf("%d objects created", created)
	}
	return output
}

// relative returns a path relative to the root of the module, for commands that are short.
func (d *demo) relative(path ...string) string {
	relative, err := filepath.Rel(d.root, filepath.Join(append([]string{d.dir}, path...)...))
	if err != nil {
		return filepath.Join(path...)
	}
	return relative
}
