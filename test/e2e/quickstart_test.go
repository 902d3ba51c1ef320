// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// describeQuickstart runs the commands of the quickstart as README.md has them. The cluster and its images exist
// already: here, kind, docker and make image do nothing.
func describeQuickstart() {
	It("brings an application back with the five commands of the README", func(ctx SpecContext) {
		programs := quickstartPrograms(ctx)
		DeferCleanup(removeQuickstart, NodeTimeout(minutes(3)))
		commands := quickstartCommands()
		Expect(commands).To(HaveLen(5))
		var said string
		for _, command := range commands {
			said = c.shell(ctx, programs, command)
		}
		Expect(said).To(HaveSuffix("\nAda was here.\n"))
		By("running what the guide for the first backup proposes then")
		tries := regexp.MustCompile(`(?m)^    (kubectl grapnel .*)$`).FindAllStringSubmatch(readRepository("docs/guides/first-backup.md"), -1)
		Expect(len(tries)).To(BeNumerically(">=", 5))
		for _, try := range tries {
			c.shell(ctx, programs, try[1])
		}
	}, SpecTimeout(minutes(8)))
}

// quickstartCommands returns the commands in the README, each in its line.
func quickstartCommands() []string {
	GinkgoHelper()
	_, section, found := strings.Cut(readRepository("README.md"), "\n## Quickstart\n")
	Expect(found).To(BeTrue(), "the README has no quickstart")
	block := regexp.MustCompile("(?s)\n```sh\n(.*?)\n```\n").FindStringSubmatch(section)
	Expect(block).NotTo(BeNil())
	return strings.Split(block[1], "\n")
}

func readRepository(path string) string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join("..", "..", path))
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// quickstartPrograms returns a directory with the programs that a user has.
func quickstartPrograms(ctx context.Context) string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	make, err := exec.LookPath("make")
	Expect(err).NotTo(HaveOccurred())
	for name, script := range map[string]string{
		"kind": "", "docker": "",
		"make": `[ "$1" = image ] || exec ` + make + ` "$@"` + "\n",
	} {
		Expect(os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700)).To(Succeed()) //nolint:gosec // a program
	}
	Expect(program.Build(ctx, "../../cmd/kubectl-grapnel", filepath.Join(dir, "kubectl-grapnel"))).To(Succeed())
	if filepath.IsAbs(c.program) {
		Expect(os.Symlink(c.program, filepath.Join(dir, "kubectl"))).To(Succeed())
	}
	return dir
}

// shell runs a command of a document in the root of the clone, and returns what it prints.
func (c *cluster) shell(ctx context.Context, programs, command string) string {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", command)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "PATH="+programs+":"+os.Getenv("PATH"), "OVERLAY=test/e2e/config/quickstart")
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", command, out)
	return string(out)
}

// removeQuickstart removes what later tests do not expect. The operator stays: they change its installation.
func removeQuickstart(ctx SpecContext) {
	c.kubectl(ctx, "delete", "restores.grapnel.dev,backups.grapnel.dev", "--all", "-n", namespace, "--timeout=2m")
	c.kubectl(ctx, "delete", "backupstoragelocation", "main", "-n", namespace, "--ignore-not-found")
	c.kubectl(ctx, "delete", "namespace", "guestbook", "--ignore-not-found", "--timeout=1m")
}
