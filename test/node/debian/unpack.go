// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// limit is how long one program may take; downloading depends on the network.
const limit = 10 * time.Minute

// Request says what is unpacked and where.
type Request struct {
	Packages []string
	// Without are prefixes of the names of packages that are left out although others
	// depend on them.
	Without []string
	// Cache is a directory where packages stay for the next time.
	Cache string
	// Dir is the directory that becomes the root. What is in it stays.
	Dir string
}

// Unpack downloads and unpacks packages. /bin, /sbin and /lib lead to those below /usr.
func Unpack(ctx context.Context, r Request) error {
	wanted, err := resolve(ctx, r)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(r.Cache, 0o755), mergeUsr(r.Dir)); err != nil {
		return fmt.Errorf("creating directories for packages: %w", err)
	}
	if err := download(ctx, r.Cache, wanted); err != nil {
		return err
	}
	for _, one := range wanted {
		file, err := one.file(r.Cache)
		if err != nil {
			return err
		}
		if err := unpack(ctx, file, r.Dir); err != nil {
			return err
		}
	}
	return nil
}

// pkg is a package in one version.
type pkg struct {
	name, version string
}

// resolve asks apt what it would install where nothing is installed.
func resolve(ctx context.Context, r Request) ([]pkg, error) {
	args := []string{
		"--simulate", "-o", "Dir::State::status=/dev/null", "install", "--no-install-recommends",
	}
	out, err := run(ctx, "", "apt-get", append(args, r.Packages...)...)
	if err != nil {
		return nil, fmt.Errorf("resolving packages, after which `apt-get update` may help: %w", err)
	}
	wanted := parseSimulation(out, r.Without)
	if len(wanted) == 0 {
		return nil, fmt.Errorf("apt-get would install nothing for %s", strings.Join(r.Packages, " "))
	}
	return wanted, nil
}

// parseSimulation reads lines as "Inst name (1.2-3 Debian:12/stable [amd64])".
func parseSimulation(out string, without []string) []pkg {
	var wanted []pkg
	for _, match := range regexp.MustCompile(`(?m)^Inst (\S+) (?:\[\S+\] )?\((\S+)`).FindAllStringSubmatch(out, -1) {
		hasPrefix := func(prefix string) bool { return strings.HasPrefix(match[1], prefix) }
		if !slices.ContainsFunc(without, hasPrefix) {
			wanted = append(wanted, pkg{name: match[1], version: match[2]})
		}
	}
	return wanted
}

// download fetches what is not in the cache.
func download(ctx context.Context, cache string, wanted []pkg) error {
	// As root, apt would have another user write, who may not.
	args := []string{"-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "download"}
	options := len(args)
	for _, one := range wanted {
		if _, err := one.file(cache); errors.Is(err, fs.ErrNotExist) {
			args = append(args, one.name+"="+one.version)
		}
	}
	if len(args) == options {
		return nil
	}
	if _, err := run(ctx, cache, "apt-get", args...); err != nil {
		return fmt.Errorf("downloading packages: %w", err)
	}
	return nil
}

// file returns where the package is in the cache, or fs.ErrNotExist.
func (p pkg) file(cache string) (string, error) {
	// An architecture may be a part of the name, and is always one of the file's.
	name, _, _ := strings.Cut(p.name, ":")
	pattern := filepath.Join(cache, name+"_"+strings.ReplaceAll(p.version, ":", "%3a")+"_*.deb")
	found, err := filepath.Glob(pattern)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("package %s %s: %w", p.name, p.version, fs.ErrNotExist)
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// mergeUsr makes the links that packages expect, and that none of them has.
func mergeUsr(dir string) error {
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(dir, "usr", name), 0o755); err != nil {
			return err
		}
		err := os.Symlink("usr/"+name, filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// unpack keeps links to directories where the package has a directory: see mergeUsr.
func unpack(ctx context.Context, file, dir string) error {
	const script = `set -e -o pipefail; dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink --no-same-owner -p -C "$2"`
	if _, err := run(ctx, "", "bash", "-c", script, "unpack", file, dir); err != nil {
		return fmt.Errorf("unpacking %s: %w", filepath.Base(file), err)
	}
	return nil
}

func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	cmd.WaitDelay = time.Second
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, bytes.TrimSpace(messages.Bytes()))
	}
	return out.String(), nil
}
