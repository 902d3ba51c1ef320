// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/scratch"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

func TestUnusableArchiveError(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"missing":        {objectstore.ErrNotExist, "nightly.tar.gz is missing: restore it"},
		"forged":         {archive.ErrInvalidName, "find out who put nightly.tar.gz there, and restore another backup"},
		"too large":      {archive.ErrLimitExceeded, "raise --max-archive-size"},
		"no space":       {scratch.ErrFull, "free space in the directory given by --scratch-dir"},
		"read-only":      {scratch.ErrUnusable, "make the directory given by --scratch-dir writable"},
		"another digest": {archive.ErrDigestMismatch, "restore the file from a copy"},
		"cut off":        {io.ErrUnexpectedEOF, "restore again"},
	} {
		t.Run(name, func(t *testing.T) {
			err := unusableArchiveError("nightly", fmt.Errorf("reading archive: %w", c.err))
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, want %q", err, c.want)
			}
		})
	}
}
