// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/deletion"
)

func TestAppendLeftovers(t *testing.T) {
	t.Parallel()
	texts := func(from, to int) []string {
		var all []string
		for i := from; i < to; i++ {
			all = append(all, fmt.Sprint("thing ", i))
		}
		return all
	}
	full := append(texts(0, 63), "and 2 more")
	for name, tc := range map[string]struct{ to, texts, want []string }{
		"nothing":                        {nil, nil, nil},
		"a few":                          {texts(0, 2), texts(2, 4), texts(0, 4)},
		"the same again":                 {texts(0, 3), texts(1, 3), texts(0, 3)},
		"as many as there is room":       {nil, texts(0, 63), texts(0, 63)},
		"more":                           {nil, texts(0, 65), full},
		"more than more":                 {full, texts(65, 68), append(texts(0, 63), "and 5 more")},
		"a list without room":            {texts(0, 64), nil, append(texts(0, 63), "and 1 more")},
		"a text that only looks like it": {[]string{"and 2 more things"}, []string{"x"}, []string{"and 2 more things", "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := append([]string(nil), tc.to...)
			if diff := cmp.Diff(tc.want, deletion.AppendLeftovers(tc.to, tc.texts...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.to); len(before) > 0 && diff != "" {
				t.Errorf("it changed its argument:\n%s", diff)
			}
		})
	}
}

func TestAppendLeftovers_LongText(t *testing.T) {
	t.Parallel()
	for offset := range 4 {
		text := strings.Repeat("x", offset) + strings.Repeat("€", deletion.MaxLeftoverBytes)
		got := deletion.AppendLeftovers(nil, text)[0]
		if len(got) > deletion.MaxLeftoverBytes || len(got) < deletion.MaxLeftoverBytes-6 || !utf8.ValidString(got) || !strings.HasSuffix(got, "€…") {
			t.Errorf("%d bytes that end in %q", len(got), got[len(got)-8:])
		}
	}
	if got := deletion.AppendLeftovers(nil, "a\xffb")[0]; got != "a\uFFFDb" {
		t.Errorf("invalid UTF-8 became %q", got)
	}
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) > 0 {
		t.Errorf("the directory has %v, %v", files, err)
	}
}
