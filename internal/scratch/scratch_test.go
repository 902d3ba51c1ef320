// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

const mib = 1 << 20

// newDir returns a Dir on a volume with the given size and free space before any of its
// files are written.
func newDir(t *testing.T, limit, size, free int64) *Dir {
	t.Helper()
	d := &Dir{Path: t.TempDir(), Limit: limit}
	d.statfs = func(string) (int64, int64, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return size, free - d.used, nil
	}
	return d
}

func TestCreateFile(t *testing.T) {
	for name, tc := range map[string]struct {
		expected, size, free int64
		want                 error
	}{
		"plenty of space":                            {expected: 100 * mib, size: 10_000 * mib, free: 5_000 * mib},
		"unknown size":                               {size: 10_000 * mib, free: 65 * mib},
		"a small file on a nearly full volume":       {expected: mib, size: 10_000 * mib, free: 65 * mib},
		"a large file on a nearly full volume":       {expected: 100 * mib, size: 10_000 * mib, free: 1_050 * mib, want: ErrFull},
		"more than there is":                         {expected: 100 * mib, size: 1_000 * mib, free: 100 * mib, want: ErrFull},
		"a full volume":                              {size: 1_000 * mib, free: 0, want: ErrFull},
		"a forged size in a bucket":                  {expected: 1 << 62, size: 1_000 * mib, free: 900 * mib, want: ErrFull},
		"a small volume keeps its minimum free, too": {expected: 40 * mib, size: 100 * mib, free: 100 * mib, want: ErrFull},
		"a small volume uses the rest":               {expected: 30 * mib, size: 100 * mib, free: 100 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := newDir(t, 0, tc.size, tc.free).CreateFile(tc.expected)
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Fatalf("CreateFile: %v, want %v", err, tc.want)
			}
			if f != nil {
				_ = f.Close()
			}
		})
	}
}

// TestWrite_Full asserts that writing stops before a volume is full, and that the space is
// free afterwards.
func TestWrite_Full(t *testing.T) {
	for name, tc := range map[string]struct {
		limit, size, free int64
		most              int64
	}{
		"the volume":  {size: 1_000 * mib, free: 300 * mib, most: 210 * mib},
		"all files":   {limit: 100 * mib, size: 10_000 * mib, free: 5_000 * mib, most: 100 * mib},
		"a small one": {size: 200 * mib, free: 80 * mib, most: 26 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t, tc.limit, tc.size, tc.free)
			f, err := d.CreateFile(0)
			if err != nil {
				t.Fatal(err)
			}
			block, written := make([]byte, mib), int64(0)
			for err == nil && written <= tc.most {
				var n int
				n, err = f.Write(block)
				written += int64(n)
			}
			if !errors.Is(err, ErrFull) || !errors.Is(err, ErrUnusable) || written == 0 || written > tc.most {
				t.Errorf("Write: %v after %d MiB, want %v after at most %d", err, written/mib, ErrFull, tc.most/mib)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if d.used != 0 {
				t.Errorf("%d bytes are counted after Close, want none", d.used)
			}
		})
	}
}

// TestWrite_TwoFiles uses two concurrent runs, which share one limit.
func TestWrite_TwoFiles(t *testing.T) {
	d := newDir(t, 20*mib, 10_000*mib, 5_000*mib)
	var total [2]int64
	var wg sync.WaitGroup
	for i := range total {
		f, err := d.CreateFile(0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		wg.Go(func() {
			for range 20 {
				n, err := f.Write(bytes.Repeat([]byte("x"), mib))
				total[i] += int64(n)
				if err != nil && !errors.Is(err, ErrFull) {
					t.Errorf("Write: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if sum := total[0] + total[1]; sum != 20*mib {
		t.Errorf("both files have %d bytes, want %d", sum, 20*mib)
	}
}

func TestCreateFile_Unusable(t *testing.T) {
	missing := &Dir{Path: t.TempDir() + "/missing"}
	if _, err := missing.CreateFile(0); !errors.Is(err, ErrUnusable) || errors.Is(err, ErrFull) {
		t.Errorf("CreateFile in a directory that does not exist: %v, want %v", err, ErrUnusable)
	}
	for name, tc := range map[string]struct {
		err  error
		full bool
	}{
		"read-only":  {err: unix.EROFS},
		"no rights":  {err: os.ErrPermission},
		"full":       {err: unix.ENOSPC, full: true},
		"over quota": {err: unix.EDQUOT, full: true},
	} {
		t.Run(name, func(t *testing.T) {
			err := toUnusableError(&os.PathError{Op: "write", Path: "/scratch/x", Err: tc.err})
			if !errors.Is(err, ErrUnusable) || !errors.Is(err, tc.err) || errors.Is(err, ErrFull) != tc.full {
				t.Errorf("asUnusable: %v", err)
			}
		})
	}
}

func TestFile(t *testing.T) {
	d := &Dir{Path: t.TempDir()}
	f, err := d.CreateFile(0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Write([]byte("content")); err != nil {
		t.Fatal(err)
	}
	if info, err := f.file.Stat(); err != nil || info.Mode() != 0o600 {
		t.Errorf("Stat: %v, %v; want a file only for its owner", info, err)
	}
	buf := make([]byte, 4)
	if _, err := f.ReadAt(buf, 3); err != nil || string(buf) != "tent" {
		t.Errorf("ReadAt: %q, %v", buf, err)
	}
	if left, err := os.ReadDir(d.Path); err != nil || len(left) > 0 {
		t.Errorf("the directory has %v, %v; want nothing", left, err)
	}
}
