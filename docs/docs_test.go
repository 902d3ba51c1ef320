// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
)

// documents returns the text of every document by its path from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	add := func(path string) {
		content, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(content)
	}
	for _, path := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "MAINTAINERS.md"} {
		add(path)
	}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			add(filepath.Join("docs", path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// blocks returns the code blocks of a language in a document.
func blocks(text, language string) []string {
	var found []string
	for _, match := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// TestProgramsCompile builds every program in the documents and checks which actions it
// provides, as a user does who copies it. A test is run on the program before it.
func TestProgramsCompile(t *testing.T) {
	programs, tests := 0, 0
	for path, text := range documents(t) {
		program := ""
		for _, code := range blocks(text, "go") {
			if strings.Contains(code, `"testing"`) {
				tests++
				t.Run(path, func(t *testing.T) {
					dir := t.TempDir()
					run(t, true, "go", "test", write(t, dir, "main.go", program), write(t, dir, "main_test.go", code))
				})
				continue
			}
			programs++
			program = code
			t.Run(path, func(t *testing.T) { providesWhatItRegisters(t, code) })
		}
	}
	if programs < 5 || tests < 2 {
		t.Errorf("found only %d programs and %d tests in the documents", programs, tests)
	}
}

func providesWhatItRegisters(t *testing.T, code string) {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "plugin")
	run(t, true, "go", "build", "-o", binary, write(t, dir, "main.go", code))
	said := run(t, false, binary)
	wanted := []string{"This is a Grapnel plugin"}
	for _, match := range regexp.MustCompile(`Register(\w+)V(\d)\(`).FindAllStringSubmatch(code, -1) {
		wanted = append(wanted, match[1]+" v"+match[2]+" example.io/")
	}
	if len(wanted) == 1 {
		t.Error("it registers nothing")
	}
	for _, want := range wanted {
		if !strings.Contains(said, want) {
			t.Errorf("want it to say %q, it says: %s", want, said)
		}
	}
}

func TestHookInTwentyLines(t *testing.T) {
	readme := documents(t)["README.md"]
	_, section, found := strings.Cut(readme, "## A hook in 20 lines")
	if !found {
		t.Fatal("the README has no such section")
	}
	lines := 0
	for line := range strings.Lines(blocks(section, "go")[0]) {
		if strings.TrimSpace(line) != "" {
			lines++
		}
	}
	if lines > 20 {
		t.Errorf("it has %d lines", lines)
	}
}

// TestManifestsAreAccepted gives every manifest to a real API server, with unknown
// fields forbidden.
func TestManifestsAreAccepted(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{CRDPaths: []string{"../config/crd/bases"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("KUBECONFIG", plane.KubeconfigPath())
	run(t, true, plane.KubectlPath(), "create", "namespace", "grapnel-system")
	run(t, true, plane.KubectlPath(), "create", "namespace", "shop")
	run(t, true, plane.KubectlPath(), "label", "namespace", "grapnel-system", "pod-security.kubernetes.io/warn=restricted")
	run(t, true, plane.KubectlPath(), "apply", "-k", "../config/manager")
	run(t, true, plane.KubectlPath(), "apply", "-f", write(t, t.TempDir(), "velero.yaml", veleroDefinitions()))
	run(t, true, plane.KubectlPath(), "wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
	manifests := 0
	kubectl := func(t *testing.T, args ...string) {
		t.Helper()
		if said := run(t, true, plane.KubectlPath(), append(args, "--dry-run=server")...); strings.Contains(said, "Warning") {
			t.Error(said)
		}
	}
	for path, text := range documents(t) {
		dir, whole := t.TempDir(), 0
		for i, manifest := range blocks(text, "yaml") {
			manifests++
			if strings.HasPrefix(manifest, "# A patch of the Deployment grapnel-controller-manager.") {
				file := write(t, t.TempDir(), "patch.yaml", manifest)
				t.Run(path, func(t *testing.T) {
					kubectl(t, "patch", "deployment", "grapnel-controller-manager", "-n", "grapnel-system", "--patch-file", file)
				})
				continue
			}
			whole++
			write(t, dir, fmt.Sprintf("%02d.yaml", i), manifest)
		}
		if whole > 0 { // one call for each document: starting kubectl takes longer than a request
			t.Run(path, func(t *testing.T) { kubectl(t, "apply", "--validate=strict", "-f", dir) })
		}
	}
	if manifests < 3 {
		t.Errorf("found only %d manifests in the documents", manifests)
	}
	t.Run("kubectl", func(t *testing.T) { testKubectl(t, plane) })
}

func TestLinksLeadSomewhere(t *testing.T) {
	texts := documents(t)
	for path, text := range texts {
		for _, match := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			linked := path
			if target != "" {
				linked = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(filepath.Join("..", linked)); err != nil {
				t.Errorf("%s links to %s: %v", path, match[1], err)
			}
			if anchor != "" && !hasHeading(texts[linked], anchor) {
				t.Errorf("%s links to %s, which has no such heading", path, match[1])
			}
		}
	}
}

// hasHeading reports whether a text has a heading, by its anchor in links.
func hasHeading(text, anchor string) bool {
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(match[1]), "")
		if strings.ReplaceAll(name, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// TestPathsExist looks for the files and packages that the documents for contributors name.
func TestPathsExist(t *testing.T) {
	path := regexp.MustCompile(`(?m)(?:^|[^\w./-])((?:api|config|controllers|hack|internal|sdk|test)/\w(?:[\w./-]*\w)?)`)
	texts := documents(t)
	for _, document := range []string{"docs/architecture.md", "CONTRIBUTING.md"} {
		found := path.FindAllStringSubmatch(texts[document], -1)
		for _, match := range found {
			if _, err := os.Stat(filepath.Join("..", match[1])); err != nil {
				t.Errorf("%s names %s: %v", document, match[1], err)
			}
		}
		if len(found) < 30 {
			t.Errorf("found only %d paths in %s", len(found), document)
		}
	}
}

// TestFaultTestsExist looks for the tests that docs/faults.md names.
func TestFaultTestsExist(t *testing.T) {
	var code strings.Builder
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		code.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(documents(t)["docs/faults.md"], -1)
	for _, name := range names {
		if !strings.Contains(code.String(), "func "+name+"(") {
			t.Errorf("docs/faults.md names %s, which does not exist", name)
		}
	}
	if len(names) < 50 {
		t.Errorf("found only %d names", len(names))
	}
}

// metricName is the name of a metric, without the prefix of all. Of several of one subject the
// documents write the first one in full, and of the others the end.
var metricName = regexp.MustCompile("`(?:grapnel_|…_)([a-z_]+[a-z])")

// TestMetricsExist looks for the names of metrics in the code that registers them, and for
// those of the code in the document.
func TestMetricsExist(t *testing.T) {
	registered, documented := registeredMetrics(t), map[string]bool{}
	subject := ""
	for _, match := range metricName.FindAllStringSubmatch(documents(t)["docs/guides/operate.md"], -1) {
		name := match[1]
		if strings.HasPrefix(match[0], "`grapnel_") {
			subject, _, _ = strings.Cut(name, "_")
		} else {
			name = subject + "_" + name
		}
		if documented[name] = true; !registered[name] {
			t.Errorf("docs/guides/operate.md names the metric grapnel_%s, which the code does not register", name)
		}
	}
	for name := range registered {
		if !documented[name] && !undocumented[name] {
			t.Errorf("nothing in docs/guides/operate.md names the metric grapnel_%s", name)
		}
	}
	if len(registered) < 50 {
		t.Fatalf("found only %d metrics in the code", len(registered))
	}
}

// registeredMetrics returns the names of metrics in the code, without the prefix.
func registeredMetrics(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, pattern := range []string{"*.go", "controllers/*/*.go", "internal/*/*.go", "internal/*/*/*.go"} {
		files, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			code, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(`"grapnel_([a-z_]+[a-z])"`).FindAllSubmatch(code, -1) {
				if !strings.HasSuffix(file, "_test.go") {
					names[string(match[1])] = true
				}
			}
		}
	}
	return names
}

// undocumented are metrics that are there because all runs have them, and say nothing of a
// kind.
var undocumented = map[string]bool{
	"deletionrun_failure_total":             true, // it does what it can, and never just fails
	"deletionrun_cleanup_owed":              true, // it has no actions that are owed clean-up
	"deletionrun_last_successful_timestamp": true,
}

// specification returns the text of the pages in docs/spec, without what is generated from the code.
func specification(t *testing.T) string {
	t.Helper()
	var pages strings.Builder
	for path, text := range documents(t) {
		if filepath.Dir(path) == "docs/spec" && filepath.Base(path) != "reference.md" {
			pages.WriteString(text)
		}
	}
	return pages.String()
}

// TestReasonsAreDocumented has a user look up every reason of a condition or an event.
func TestReasonsAreDocumented(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "api", "v1alpha1", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, filepath.Join("..", "internal", "results", "reasons.go"))
	text, reasons := specification(t), 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`\bReason\w+ = "(\w+)"`).FindAllSubmatch(source, -1) {
			reasons++
			if !strings.Contains(text, "`"+string(match[1])+"`") {
				t.Errorf("no page in docs/spec has the reason %s", match[1])
			}
		}
	}
	if reasons < 50 {
		t.Errorf("found only %d reasons", reasons)
	}
}

// TestColumnsAreDocumented compares the columns of kubectl with the page of each kind, which every kind has.
func TestColumnsAreDocumented(t *testing.T) {
	files, err := filepath.Glob("../config/crd/bases/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	columns := regexp.MustCompile(`(?m)^      name: ([A-Z][\w-]*)$`)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kind := regexp.MustCompile(`(?m)^    kind: (\w+)$`).FindSubmatch(content)
		page := "docs/spec/" + strings.ToLower(string(kind[1])) + ".md"
		text, wanted := documents(t)[page], columns.FindAllSubmatch(content, -1)
		for _, column := range wanted {
			if name := strings.ToUpper(string(column[1])); !regexp.MustCompile(`\b` + name + `\b`).MatchString(text) {
				t.Errorf("%s does not have the column %s", page, name)
			}
		}
		if len(wanted) < 4 {
			t.Errorf("found only %d columns in %s", len(wanted), file)
		}
	}
	if len(files) < 10 {
		t.Errorf("found only %d kinds", len(files))
	}
}

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a program and returns what it says.
func run(t *testing.T, succeeds bool, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if succeeds && err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return string(out)
}
