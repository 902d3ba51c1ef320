// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
)

// Each command of the documents is run or checked by a test, by the program that it calls:
//
//	kubectl          here without a change; in config, hooks_test.go and test/chart those in blocks of sh, as they are
//	kubectl grapnel  internal/cli, with the parser of the program; test/tasks runs the most common ones
//	helm             test/chart
//	make, go         here: targets, variables, packages and tests exist
//	the quickstart   test/e2e, all of it; here without a node

// fence is a block of code with a language, or without one.
var fence = regexp.MustCompile("(?ms)^```\\w*\n.*?^```$")

// commandsOf returns the commands of a program in a document: of its blocks of commands, indented, and in its text.
func commandsOf(text, program string) []string {
	text = strings.ReplaceAll(text, "\\\n", " ")
	code := strings.Join(append(blocks(text, "sh"), blocks(text, "bash")...), "\n")
	text = fence.ReplaceAllString(text, "")
	for _, match := range regexp.MustCompile("(?m)^    (.*)$|`([^`\n]+)`").FindAllStringSubmatch(text, -1) {
		code += "\n" + match[1] + match[2]
	}
	var found []string
	for _, match := range regexp.MustCompile(`(?m)(?:^|&& |\| )`+program+` ([^&|#\n]+)`).FindAllStringSubmatch(code, -1) {
		found = append(found, strings.TrimSpace(match[1]))
	}
	return found
}

// words splits a command as a shell does, without its quotes.
func words(command string) []string {
	var found []string
	for _, word := range regexp.MustCompile(`(?:[^\s'"]|'[^']*'|"[^"]*")+`).FindAllString(command, -1) {
		found = append(found, strings.NewReplacer("'", "", `"`, "").Replace(word))
	}
	return found
}

// TestMakeCommands looks for the targets and variables in the Makefile, and for the installations that
// they name.
func TestMakeCommands(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for path, text := range documents(t) {
		for _, command := range commandsOf(text, "make") {
			for _, word := range words(command) {
				found++
				variable, value, isVariable := strings.Cut(word, "=")
				if !isVariable && !strings.Contains(string(makefile), "\n"+word+":") {
					t.Errorf("%s: make %s: the Makefile has no target %s", path, command, word)
				}
				if isVariable && !regexp.MustCompile(`\b`+variable+`\b`).Match(makefile) {
					t.Errorf("%s: make %s: the Makefile has no variable %s", path, command, variable)
				}
				if _, err := os.Stat(filepath.Join("..", value)); variable == "OVERLAY" && err != nil {
					t.Errorf("%s: make %s: %v", path, command, err)
				}
			}
		}
	}
	if found < 60 {
		t.Errorf("found only %d targets and variables in the documents", found)
	}
}

// TestGoCommands looks for the packages that contributors run, for the tests that they select, and for flags
// of programs.
func TestGoCommands(t *testing.T) {
	texts, found := documents(t), 0
	for _, path := range []string{"CONTRIBUTING.md", "docs/development.md", "docs/performance.md"} {
		for _, command := range commandsOf(texts[path], "go") {
			found++
			code, selected := "", ""
			for _, word := range words(command) {
				switch {
				case selected == "-run" && !strings.Contains(code, "\nfunc "+word+"("),
					selected == "-ginkgo.focus" && !specExists(code, word),
					selected == "-only" && !strings.Contains(code, `"`+word+`"`):
					t.Errorf("%s: go %s: there is no %s", path, command, word)
				case strings.HasPrefix(word, "./") && word != "./...":
					code += codeOf(t, path, strings.TrimSuffix(word, "/..."))
				case word == ".":
					code += codeOf(t, path, word)
				}
				name, value, _ := strings.Cut(word, "=")
				if name == "-ginkgo.focus" && value != "" && !specExists(code, value) {
					t.Errorf("%s: go %s: there is no %s", path, command, value)
				}
				if name == "-ginkgo.label-filter" && !strings.Contains(code, `Label("`+value+`")`) {
					t.Errorf("%s: go %s: no test has the label %s", path, command, value)
				}
				if strings.HasPrefix(command, "run ") && strings.HasPrefix(word, "-") && !strings.Contains(code, `"`+word[1:]+`"`) {
					t.Errorf("%s: go %s: there is no flag %s", path, command, word)
				}
				selected = word
			}
		}
	}
	if found < 20 {
		t.Errorf("found only %d commands", found)
	}
}

// codeOf returns the code of a package that a document names, with its tests.
func codeOf(t *testing.T, document, directory string) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join("..", directory)); err != nil {
		t.Errorf("%s: %v", document, err)
	}
	files, err := filepath.Glob(filepath.Join("..", directory, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(content)
	}
	return code.String()
}

// specExists reports whether the text of a spec begins so: that of a container, and then that of what is in it.
func specExists(code, text string) bool {
	fields := strings.Fields(text)
	for i := range fields {
		outer, inner := strings.Join(fields[:i+1], " "), strings.Join(fields[i+1:], " ")
		if strings.Contains(code, `("`+outer) && (inner == "" || strings.Contains(code, `("`+inner)) {
			return true
		}
	}
	return false
}

// TestQuickstart compares the commands of the quickstart, which test/e2e runs, with those of the guide that
// explains them.
func TestQuickstart(t *testing.T) {
	texts := documents(t)
	_, section, _ := strings.Cut(texts["README.md"], "\n## Quickstart\n")
	block := blocks(section, "sh")[0]
	if lines := strings.Count(block, "\n"); lines != 5 {
		t.Errorf("the quickstart has %d commands, the text says five", lines)
	}
	guide := texts["docs/guides/first-backup.md"]
	for _, command := range regexp.MustCompile(`\n| && | -f hack`).Split(strings.TrimSpace(block), -1) {
		if command != "kubectl delete namespace guestbook" && !strings.Contains(guide, strings.TrimPrefix(command, "/")) {
			t.Errorf("the guide for the first backup lacks %q of the quickstart", command)
		}
	}
}

// unproblematic are errors about objects of examples, and about kinds that only clusters with CSI snapshots or Flux have.
var unproblematic = regexp.MustCompile(` not found|\(AlreadyExists\)|doesn't have a resource type "(volumesnapshot\w*|kustomization)"`)

// runElsewhere are documents of whose blocks other tests run each command.
var runElsewhere = map[string]bool{"README.md": true, "docs/guides/first-backup.md": true, "docs/guides/operate.md": true, "docs/installation.md": true}

// testKubectl runs the commands of the documents that no other test runs, without changing anything and without
// waiting. That the object of an example does not exist is no error.
func testKubectl(t *testing.T, plane *controlplane.ControlPlane) {
	t.Helper()
	t.Setenv("KUBECACHEDIR", t.TempDir()) // discovery is cached by address, and ports are used again
	commands := map[string]string{}
	for path, text := range documents(t) {
		if !runElsewhere[path] {
			text += "\n    " + strings.ReplaceAll(strings.Join(blocks(text, "sh"), ""), "\n", "\n    ")
		}
		for _, match := range regexp.MustCompile(`(?m)^    kubectl ([^|#\n]+)`).FindAllStringSubmatch(strings.ReplaceAll(text, "\\\n", " "), -1) {
			command, _, _ := strings.Cut(match[1], " &")
			command = strings.TrimSpace(command)
			if !strings.HasPrefix(command, "grapnel ") && !strings.Contains(command, "<<") {
				commands[regexp.MustCompile(`<(\w+)>`).ReplaceAllString(command, "$1")] = path
			}
		}
	}
	for _, command := range slices.Sorted(maps.Keys(commands)) {
		args := words(command)
		switch args[0] {
		case "krew": // a plugin of kubectl, with files of a release
			continue
		case "exec", "logs", "proxy": // they need a pod
			args = slices.Insert(args, 1, "--help")
		case "rollout":
			args = slices.Insert(args, 2, "--help")
		case "get":
			args = append(args, "--watch=false")
		case "annotate", "apply", "create", "delete", "label", "patch", "scale":
			if slices.Contains(args, ".") || strings.Contains(command, " converted/") || strings.Contains(command, " dist/") || strings.HasSuffix(command, " install.yaml") {
				continue // files that other commands write, or of a release
			}
			args = append(args, "--dry-run=server")
		}
		cmd := exec.CommandContext(t.Context(), plane.KubectlPath(), args...)
		cmd.Dir = ".."
		out, err := cmd.CombinedOutput()
		if said := string(out); err != nil && !unproblematic.MatchString(said) {
			t.Errorf("%s: kubectl %s: %v: %s", commands[command], command, err, said)
		}
	}
	if len(commands) < 50 {
		t.Errorf("found only %d commands", len(commands))
	}
}
