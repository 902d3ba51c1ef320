// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestParseSimulation(t *testing.T) {
	const out = `Reading package lists...
The following NEW packages will be installed:
  libc6 perl
Inst gcc-12-base (12.2.0-14 Debian:12.11/oldstable [amd64]) []
Inst zlib1g (1:1.2.13.dfsg-1 Debian:12.11/oldstable [amd64])
Inst perl-base [5.36.0-6] (5.36.0-7 Debian-Security:12/oldstable-security [amd64])
Inst tzdata [2025a] (2026f-0 Debian:12 [all])
Conf gcc-12-base (12.2.0-14 Debian:12.11/oldstable [amd64])
`
	got := parseSimulation(out, []string{"perl"})
	want := []pkg{{"gcc-12-base", "12.2.0-14"}, {"zlib1g", "1:1.2.13.dfsg-1"}, {"tzdata", "2026f-0"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFile(t *testing.T) {
	cache := t.TempDir()
	for _, name := range []string{"zlib1g_1%3a1.2-1_amd64.deb", "zlib1g-dev_1%3a1.2-1_amd64.deb", "zlib1g_1%3a1.1-1_amd64.deb"} {
		if err := os.WriteFile(filepath.Join(cache, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"zlib1g", "zlib1g:amd64"} {
		file, err := pkg{name, "1:1.2-1"}.file(cache)
		if err != nil || filepath.Base(file) != "zlib1g_1%3a1.2-1_amd64.deb" {
			t.Errorf("of %s: %q, %v", name, file, err)
		}
	}
	if _, err := (pkg{"zlib1g", "1:1.3-1"}).file(cache); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v, want that there is none", err)
	}
}

func TestMergeUsr(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		if err := mergeUsr(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "usr", "bin", "x")); err != nil {
		t.Error(err)
	}
}
