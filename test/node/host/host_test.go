// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestSettings(t *testing.T) {
	root := t.TempDir()
	forward, panics := filepath.Join(root, "net/forward"), filepath.Join(root, "panic")
	write(t, forward, "0\n")
	write(t, panics, "1 2\n")
	before, err := ReadSettings(root, []string{"net/forward", "panic", "not/here"})
	if err != nil || len(before) != 2 {
		t.Fatalf("read %v, %v; want two", before, err)
	}
	if err := (Settings{"net/forward": "1"}).Apply(root); err != nil {
		t.Fatal(err)
	}
	write(t, panics, "7\n")
	if err := before.Apply(root); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{forward: "0\n", panics: "1 2\n"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", path, got, err, want)
		}
	}
	if err := (Settings{"no/directory": "1", "panic": "3"}).Apply(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v, want that there is no such file", err)
	}
	if got, _ := os.ReadFile(panics); string(got) != "3\n" {
		t.Errorf("behind the one that failed, it is %q", got)
	}
}

func TestMountsBelow(t *testing.T) {
	const info = `22 1 254:0 / / rw,relatime - ext4 /dev/root rw
90 22 0:50 / /var/lib/x rw - tmpfs tmpfs rw
91 90 0:51 / /var/lib/x/pods/a\040b/volume rw shared:1 - tmpfs tmpfs rw
92 22 0:52 / /var/lib/xy rw - tmpfs tmpfs rw
93 91 0:53 / /var/lib/x/pods/a\040b/volume rw - tmpfs tmpfs rw
broken
`
	got := mountsBelow(info, "/var/lib/x")
	want := []string{"/var/lib/x/pods/a b/volume", "/var/lib/x/pods/a b/volume", "/var/lib/x"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`/plain`: "/plain", `/a\040b`: "/a b", `\134`: `\`, `/end\04`: `/end\04`, `\999`: `\999`, `a\011\012`: "a\t\n",
	} {
		if got := unescape(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestAbsent(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "there"), "")
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	got := Absent([]string{filepath.Join(dir, "there"), filepath.Join(dir, "dangling"), filepath.Join(dir, "gone")})
	if want := []string{filepath.Join(dir, "gone")}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOverlap(t *testing.T) {
	own := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("192.0.2.2/24"), netip.MustParsePrefix("fd00::2/64")}
	cases := map[string]struct {
		wanted string
		fails  bool
	}{
		"elsewhere":             {"10.98.0.0/24", false},
		"the same network":      {"192.0.2.0/24", true},
		"one around it":         {"192.0.0.0/16", true},
		"one within it":         {"192.0.2.128/25", true},
		"the same of the other": {"fd00::/64", true},
		"beside it":             {"192.0.3.0/24", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := overlap(own, []netip.Prefix{netip.MustParsePrefix("10.99.0.0/24"), netip.MustParsePrefix(c.wanted)})
			if (err != nil) != c.fails {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestRun(t *testing.T) {
	if _, err := Find("no-such-program"); err == nil {
		t.Error("found a program that is not there")
	}
	if out, err := Run(t.Context(), "sh", "-c", "echo hello"); err != nil || out != "hello\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := Run(t.Context(), "sh", "-c", "echo reason; exit 3"); err == nil ||
		err.Error() != "sh -c echo reason; exit 3: exit status 3\nreason" {
		t.Errorf("error is %v, want one with the reason", err)
	}
}

func TestRemoveCgroup(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "group")
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := RemoveCgroup(dir); err != nil {
			t.Fatal(err)
		}
		if len(Absent([]string{dir})) != 1 {
			t.Error("it is still there")
		}
	}
}
