// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// TestDocs_Commands parses each kubectl grapnel of the documents as the program does. One in running text may
// leave arguments out.
func TestDocs_Commands(t *testing.T) {
	t.Parallel()
	inText, inBlock := regexp.MustCompile("`kubectl grapnel ([^`]+)`"), regexp.MustCompile(`(?m)^(?: *|.*&& |.*\| )kubectl grapnel (.+)$`)
	parsed := 0
	for path, text := range readDocuments(t) {
		for _, match := range inText.FindAllStringSubmatch(text, -1) {
			parsed++
			if err := parseCommand(match[1], true); err != nil {
				t.Errorf("%s: %s: %v", path, match[0], err)
			}
		}
		for _, match := range inBlock.FindAllStringSubmatch(text, -1) {
			parsed++
			if err := parseCommand(match[1], strings.Contains(match[0], "`")); err != nil {
				t.Errorf("%s: %s: %v", path, match[0], err)
			}
		}
	}
	if parsed < 50 {
		t.Errorf("found only %d commands in the documents", parsed)
	}
}

// TestDocs_CommandLists compares the commands of the program with those that docs/cli.md explains, and with those
// in the table of roles.
func TestDocs_CommandLists(t *testing.T) {
	t.Parallel()
	explained, listed := namesIn(t, "docs/cli.md", "## Commands", 1), namesIn(t, "docs/guides/tenancy.md", "## Who can do what", 2)
	var visit func(*cobra.Command)
	visit = func(command *cobra.Command) {
		for _, child := range command.Commands() {
			visit(child)
		}
		name := strings.TrimPrefix(command.CommandPath(), "kubectl grapnel ")
		if !command.HasSubCommands() && !explained[name] && name != "version" {
			t.Errorf("docs/cli.md does not explain %s", name)
		}
		if !command.HasSubCommands() && !listed[name] && name != "version" && name != "migrate velero" {
			t.Errorf("docs/guides/tenancy.md does not have the role that %s needs", name)
		}
	}
	visit(newDocumentedCommand())
}

// namesIn returns the names of the commands in a column of the table below a heading.
func namesIn(t *testing.T, path, heading string, column int) map[string]bool {
	t.Helper()
	_, table, _ := strings.Cut(readDocuments(t)[path], "\n"+heading+"\n")
	table, _, _ = strings.Cut(table, "\n## ")
	names := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| .*$`).FindAllString(table, -1) {
		for _, command := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.Split(row, " | ")[column-1], -1) {
			if command[1] == "kubectl grapnel" { // the heading
				continue
			}
			if err := parseCommand(strings.NewReplacer("[", "", "]", "").Replace(command[1]), true); err != nil {
				t.Errorf("%s: %s: %v", path, command[0], err)
			}
			names[regexp.MustCompile(`^[a-z -]*[a-z]`).FindString(command[1])] = true
		}
	}
	return names
}

func newDocumentedCommand() *cobra.Command {
	a := &app{out: newTerminal(io.Discard), errOut: newTerminal(io.Discard), flags: genericclioptions.NewConfigFlags(true)}
	root := a.newRootCommand()
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	return root
}

// parseCommand returns why the program refuses the arguments of a line, without what a shell does not pass on. A
// brief one may lack arguments.
func parseCommand(line string, brief bool) error {
	var args []string
	for _, word := range regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`).FindAllString(line, -1) {
		if strings.HasPrefix(word, "#") || word == "|" || word == ">" || word == "&&" {
			break
		}
		args = append(args, strings.Trim(word, `"'`))
	}
	root := newDocumentedCommand()
	root.InitDefaultHelpFlag()
	root.InitDefaultCompletionCmd(args...)
	command, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	command.InitDefaultHelpFlag()
	if err := command.ParseFlags(rest); err != nil {
		return err
	}
	positional := command.Flags().Args()
	if help, _ := command.Flags().GetBool("help"); help || (brief && len(positional) == 0) {
		return nil
	}
	if command.HasSubCommands() {
		return command.RunE(command, positional)
	}
	if err := command.ValidateArgs(positional); err != nil || brief {
		return err
	}
	return command.ValidateRequiredFlags()
}

// readDocuments returns the text of every document by its path from the root, but for decisions and changes,
// which are history.
func readDocuments(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/guides/*.md", "docs/plugins/*.md", "docs/spec/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(content)
		}
	}
	return texts
}
