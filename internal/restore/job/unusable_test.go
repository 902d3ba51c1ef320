// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

func TestUnusableSaysWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"missing":        {objectstore.ErrNotExist, "nightly.tar.gz is missing: bring it back"},
		"forged":         {archive.ErrInvalidName, "find out who put nightly.tar.gz there, and restore another backup"},
		"too large":      {archive.ErrLimit, "raise --max-archive-size"},
		"no space":       {syscall.ENOSPC, "make room in the folder of --scratch-dir"},
		"another digest": {archive.ErrDigest, "bring back the file from a copy"},
		"cut off":        {io.ErrUnexpectedEOF, "restore again"},
	} {
		t.Run(name, func(t *testing.T) {
			err := unusable("nightly", fmt.Errorf("reading archive: %w", c.err))
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, want %q", err, c.want)
			}
		})
	}
}
