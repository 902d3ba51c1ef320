// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package panics_test

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/panics"
)

var errPlain = errors.New("plain")

func call(f func() error) (err error) {
	defer panics.Recover(&err)
	return f()
}

func TestRecover(t *testing.T) {
	var none []int
	for name, tc := range map[string]struct {
		f    func() error
		want string
	}{
		"a panic with a text":           {f: func() error { panic("boom") }, want: "internal error: boom"},
		"an index that is out of range": {f: func() error { return errors.New(string(rune(none[1]))) }, want: "internal error: runtime error: index out of range [1] with length 0"},
		"an error":                      {f: func() error { return errPlain }, want: "plain"},
		"no error":                      {f: func() error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := call(tc.f); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRecover_Details(t *testing.T) {
	err := call(func() error { var none []int; return errors.New(string(rune(none[len(os.Args)]))) })
	var recovered *panics.Error
	if !errors.As(err, &recovered) || !bytes.Contains(recovered.Stack, []byte("TestRecover_Details")) {
		t.Errorf("want the stack of the panic in %#v", err)
	}
	var cause runtime.Error
	if !errors.As(err, &cause) {
		t.Errorf("want the runtime error in %v", err)
	}
}
