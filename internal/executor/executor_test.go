// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

func TestOneLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want string }{
		"plain":     {in: "all good", want: "all good"},
		"lines":     {in: "a\r\n\tb\n", want: "a b"},
		"control":   {in: "a\x1b[0m\x00b", want: "a [0m b"},
		"not UTF-8": {in: "a\xffb", want: "a\uFFFDb"},
		"spaces":    {in: "  a \u2028 b  ", want: "a b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := executor.OneLine(tc.in); got != tc.want {
				t.Errorf("OneLine = %q, want %q", got, tc.want)
			}
		})
	}
	for shift := range 4 {
		got := executor.OneLine(strings.Repeat("x", shift) + strings.Repeat("€", 1000))
		if len(got) > executor.MaxMessageLength || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("a long text became %d bytes, valid %v", len(got), utf8.ValidString(got))
		}
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	call := executor.Call{Point: executor.PointPostBackup, Action: "example.io/thaw"}
	err := fmt.Errorf("running: %w", executor.NewError(executor.Timeout, call, "too\nslow", context.DeadlineExceeded))
	if got, want := err.Error(), "running: PostBackupAction(example.io/thaw): too slow"; got != want {
		t.Errorf("text is %q, want %q", got, want)
	}
	if executor.ErrorKindOf(err) != executor.Timeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("kind is %q, cause is kept: %v", executor.ErrorKindOf(err), errors.Is(err, context.DeadlineExceeded))
	}
	if got := executor.ErrorKindOf(errors.New("other")); got != "" {
		t.Errorf("kind of another error is %q", got)
	}
}
