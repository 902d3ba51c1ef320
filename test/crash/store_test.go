// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"path"
	"regexp"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// observeStore reads what is stored of a run, and checks that the status names
// nothing else.
func (l *testOperator) observeStore(t *testing.T, o lifecycle.Object, r *result) {
	t.Helper()
	var err error
	if r.Stored, err = l.keys(t.Context(), o.GetName()); err != nil {
		t.Fatal(err)
	}
	for _, key := range r.Files {
		if !slices.Contains(r.Stored, key) {
			t.Errorf("the status names %s, which is not stored", key)
		}
	}
	if parts, err := l.objects.AbortUploads(t.Context(), l.directory(o.GetName())); err != nil || parts > 0 {
		t.Errorf("%d uploads were left behind (%v)", parts, err)
	}
	for _, key := range r.Stored {
		if isLog(key) {
			r.Logged = append(r.Logged, l.messages(t, key)...)
		}
	}
	r.Stored = slices.DeleteFunc(r.Stored, numberedClaim.MatchString)
}

// numberedClaim matches the claims of attempts: there are as many as the run was tried.
var numberedClaim = regexp.MustCompile(`-claim-[0-9]+\.json$`)

// message is what a line of a log says.
var message = regexp.MustCompile(`msg=("[^"]*"|\S+)`)

// untimely is the last message of an action that was canceled. The operator does not wait
// for it: it is in the log of the run only if the plugin was faster, else in that of the
// operator.
const untimely = `"Returning after the context of the action ended"`

// messages reads the different messages of a log, without those that come or do not.
func (l *testOperator) messages(t *testing.T, key string) []string {
	t.Helper()
	text, err := l.stored(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, match := range message.FindAllStringSubmatch(string(text), -1) {
		if match[1] != untimely {
			found = append(found, path.Base(key)+": "+match[1])
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// stored reads a compressed file.
func (l *testOperator) stored(ctx context.Context, key string) (_ []byte, err error) {
	stream, err := l.objects.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	plain, err := gzip.NewReader(stream)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(plain)
}
