// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestDockerfile_CopiedPackages compares what the Dockerfile copies with what the operator is
// made of, and looks for what people rely on who extend the image.
func TestDockerfile_CopiedPackages(t *testing.T) {
	t.Parallel()
	content, ignored := readText(t, "../Dockerfile"), readText(t, "../.dockerignore")
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	list.Dir = ".."
	packages, err := output(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for path := range strings.FieldsSeq(packages) {
		if rest, ours := strings.CutPrefix(path, "github.com/grapnel-dev/grapnel/"); ours {
			seen++
			top, _, _ := strings.Cut(rest, "/")
			if !strings.Contains(content, "\nCOPY "+top+"/ "+top+"/\n") || !strings.Contains(ignored, "\n!"+top+"/\n") {
				t.Errorf("package %s is not copied into the image's builder", rest)
			}
		}
	}
	// The operator itself is in the directory above.
	if !strings.Contains(content, "\nCOPY *.go ./\n") || !strings.Contains(ignored, "\n!*.go\n") {
		t.Error("not all of the operator's own files are copied into the image's builder")
	}
	for _, want := range []string{"CGO_ENABLED=0", "--platform=$BUILDPLATFORM", "GOARCH=${TARGETARCH}", "USER 65532:65532", "-o /image/plugins/csi"} {
		if !strings.Contains(content, want) {
			t.Errorf("the Dockerfile has no %s", want)
		}
	}
	if seen < 20 {
		t.Errorf("the operator has only %d packages", seen)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
