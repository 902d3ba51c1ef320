// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/grapnel-dev/grapnel/hack/release/image"
)

func hostPlatform() platform {
	return platform{os: runtime.GOOS, arch: runtime.GOARCH}
}

// TestImage builds an image for two platforms, pushes it, and pulls it.
func TestImage(t *testing.T) {
	b := newBuilder(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	tag := strings.TrimPrefix(server.URL, "http://") + "/team/grapnel:v1"
	dir := filepath.Join(t.TempDir(), "image")
	args := []string{"image", "-version", "dev", "-name", tag, "-platforms", "linux/amd64,linux/arm64", "-out", dir}
	if err := run(t.Context(), b, args, io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + ".tar"); err != nil {
		t.Error(err)
	}
	var out strings.Builder
	if err := run(t.Context(), b, []string{"push", "-layout", dir, tag}, &out); err != nil {
		t.Fatal(err)
	}
	_, descriptor, err := image.ReadLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := tag + "@" + descriptor.Digest.String() + "\n"; out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
	ref, err := name.ParseReference(tag)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := pulled.Digest()
	if err != nil || digest != descriptor.Digest {
		t.Errorf("pulled is %v, built was %v (%v)", digest, descriptor.Digest, err)
	}
	manifest, err := pulled.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		t.Errorf("pulled is %+v (%v)", manifest, err)
	}
}

func TestImage_Refused(t *testing.T) {
	b := newBuilder(t)
	dir := filepath.Join(t.TempDir(), "image")
	for _, test := range []struct{ name, platforms, want string }{
		{name: "ghcr.io/a/b:v1", platforms: "windows/amd64", want: "the image is for linux, not for windows/amd64"},
		{name: "ghcr.io/a/b:v1", platforms: "amd64", want: `"amd64" is not a platform such as linux/amd64`},
		{name: "ghcr.io/a/b:v1", platforms: "", want: `"" is not a platform such as linux/amd64`},
		{name: "grapnel:v1", platforms: "linux/amd64", want: "has no registry"},
		{name: "ghcr.io/a/b:latest", platforms: "linux/amd64", want: "needs a tag other than latest"},
	} {
		err := b.buildImage(t.Context(), test.name, "dev", strings.Split(test.platforms, ","), dir)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
	if err := run(t.Context(), b, []string{"push", "-layout", dir, "ghcr.io/a/b:v1"}, io.Discard); err == nil || !strings.Contains(err.Error(), "build it first") {
		t.Errorf("pushing what is not built: %v", err)
	}
}

// TestDockerfile runs what the Dockerfile runs, and compares its image with that of a release.
func TestDockerfile(t *testing.T) {
	text := string(readFile(t, "../../Dockerfile"))
	command := regexp.MustCompile(`(?m)go run -C hack/release \. (.*)$`).FindStringSubmatch(text)
	if command == nil {
		t.Fatal("the Dockerfile does not run this program")
	}
	dir := filepath.Join(t.TempDir(), "image")
	var args []string
	for arg := range strings.FieldsSeq(command[1]) {
		arg = strings.NewReplacer("${VERSION}", "v0.1.0", "${TARGETARCH}", "arm64", "/image", dir).Replace(arg)
		args = append(args, strings.Trim(arg, `"`))
	}
	b := newBuilder(t)
	if err := run(t.Context(), b, args, io.Discard); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{
		"manager": 0o755, "plugins/csi": 0o755, "etc/passwd": 0o644, "etc/ssl/certs/ca-certificates.crt": 0o644, "tmp": os.ModeDir | os.ModeSticky | 0o777,
	} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v (%v)", path, info, err)
		}
	}
	released := image.Grapnel("", "", "")
	entrypoint, err := json.Marshal(released.Entrypoint)
	if err != nil {
		t.Fatal(err)
	}
	_, last, _ := strings.Cut(text, "\nFROM scratch\n")
	if want := "COPY --from=builder /image/ /\nUSER " + released.User + "\nENTRYPOINT " + string(entrypoint) + "\n"; last != want {
		t.Errorf("the image of the Dockerfile is not that of a release:\n%s\nwant:\n%s", last, want)
	}
}

// TestDockerfile_Context checks that the builder gets everything that is compiled.
func TestDockerfile_Context(t *testing.T) {
	text := string(readFile(t, "../../Dockerfile"))
	if !strings.Contains(text, "\nCOPY . .\n") {
		t.Fatal("the Dockerfile does not copy the repository")
	}
	ignored := strings.Fields(string(readFile(t, "../../.dockerignore")))
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, dir := range []string{".", "plugins/csi", "hack/release"} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.Dir}}{{end}}", ".")
		list.Dir = filepath.Join(root, dir)
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		for path := range strings.FieldsSeq(string(out)) {
			below, ours := strings.CutPrefix(path, root+"/")
			if !ours {
				continue
			}
			seen++
			for parent := below; parent != "."; parent = filepath.Dir(parent) {
				if slices.Contains(ignored, parent) {
					t.Errorf("%s is compiled, and .dockerignore has %s", below, parent)
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d packages are compiled", seen)
	}
}

// TestWorkflow checks that the workflow calls what the Makefile has.
func TestWorkflow(t *testing.T) {
	workflow, makefile := string(readFile(t, "../../.github/workflows/release.yml")), string(readFile(t, "../../Makefile"))
	calls := regexp.MustCompile(`\bmake ([a-z0-9-]+)`).FindAllStringSubmatch(workflow, -1)
	var targets []string
	for _, call := range calls {
		targets = append(targets, call[1])
		if !strings.Contains(makefile, "\n"+call[1]+":") {
			t.Errorf("the workflow calls make %s, which the Makefile does not have", call[1])
		}
	}
	for _, want := range []string{"release", "e2e", "release-push"} {
		if !slices.Contains(targets, want) {
			t.Errorf("the workflow does not call make %s", want)
		}
	}
}
