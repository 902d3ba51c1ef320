// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"io"
	"iter"
	"regexp"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// Method names a method of objectstore.Store.
type Method string

// The methods that a Fault can select.
const (
	MethodPut    Method = "Put"
	MethodGet    Method = "Get"
	MethodStat   Method = "Stat"
	MethodList   Method = "List"
	MethodDelete Method = "Delete"
	MethodAbort  Method = "Abort"
)

// ErrCrashed is what every call returns after FaultyStore.CrashAfter took effect.
var ErrCrashed = errors.New("process crashed (injected)")

// Fault selects calls and defines how they fail. The first fault that matches a call
// applies.
type Fault struct {
	// Method selects calls of one method; empty selects all.
	Method Method
	// Key selects calls by key (List: prefix; Delete: any of the keys). It is a pattern in
	// which * matches any characters, including slashes. Empty selects all.
	Key string
	// Nth selects only the n-th matching call, counted from 1; 0 selects all.
	Nth int

	// Before is returned instead of calling the store.
	Before error
	// After is returned after the store has executed the call: a lost reply.
	After error
	// Release delays the call until it is closed or the call's ctx ends.
	Release <-chan struct{}
	// IgnoreContext makes the call wait for Release even when its ctx ends, as a system
	// call of a hung file system does.
	IgnoreContext bool
	// Hang delays the content of a Put or Get after CutAt bytes instead of the call.
	Hang bool
	// Started, if not nil, is closed when the first selected call arrives, so a test can
	// wait for that.
	Started chan<- struct{}
	// Cut ends the content of a Put or Get after CutAt bytes: silently if CutErr is nil, as
	// a store that loses data does, or with CutErr.
	Cut    bool
	CutAt  int64
	CutErr error
}

// Call is one call to a FaultyStore.
type Call struct {
	Method Method
	// Key is the key, the prefix of a List, or the keys of a Delete joined by
	// spaces.
	Key string
}

// FaultyStore wraps a store. It is safe for concurrent use.
type FaultyStore struct {
	store objectstore.Store

	mu         sync.Mutex
	faults     []*armedFault
	calls      []Call
	crashAfter int // calls until the crash; negative: never
	crashLate  bool
}

type armedFault struct {
	Fault
	key     *regexp.Regexp
	matched int
	started bool
}

var (
	_ objectstore.Store         = (*FaultyStore)(nil)
	_ objectstore.UploadAborter = (*FaultyStore)(nil)
)

// NewFaultyStore wraps store with the given faults.
func NewFaultyStore(store objectstore.Store, faults ...Fault) *FaultyStore {
	f := &FaultyStore{store: store, crashAfter: -1}
	f.AddFaults(faults...)
	return f
}

// AddFaults adds faults; calls made before do not count for their Nth.
func (f *FaultyStore) AddFaults(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range faults {
		f.faults = append(f.faults, &armedFault{Fault: one, key: compilePattern(one.Key)})
	}
}

// CrashAfter lets n more calls pass and then fails every call with ErrCrashed,
// like a process that died. With late, the n-th call still takes effect in the
// store but reports ErrCrashed: the process died before it saw the reply.
func (f *FaultyStore) CrashAfter(n int, late bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashAfter, f.crashLate = n, late
}

// Calls returns the calls so far, including failed ones.
func (f *FaultyStore) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls...)
}

// CountCalls returns how many calls of the method matched the key pattern.
func (f *FaultyStore) CountCalls(method Method, key string) int {
	re := compilePattern(key)
	n := 0
	for _, c := range f.Calls() {
		if (method == "" || c.Method == method) && re.MatchString(c.Key) {
			n++
		}
	}
	return n
}

func compilePattern(key string) *regexp.Regexp {
	if key == "" {
		key = "*"
	}
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(key), `\*`, ".*") + "$")
}

// appliedFault is the fault of one call.
type appliedFault struct {
	Fault
}

// beginCall records a call and determines its fault.
func (f *FaultyStore) beginCall(ctx context.Context, method Method, keys ...string) (appliedFault, error) {
	v := f.recordCall(method, keys)
	if v.Release != nil && !v.Hang {
		if err := v.waitForRelease(ctx); err != nil {
			return v, err
		}
	}
	return v, v.Before
}

// waitForRelease waits for Release, or for the end of ctx.
func (v appliedFault) waitForRelease(ctx context.Context) error {
	if v.IgnoreContext {
		<-v.Release
		return nil
	}
	select {
	case <-v.Release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *FaultyStore) recordCall(method Method, keys []string) appliedFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, Call{Method: method, Key: strings.Join(keys, " ")})
	if v, crashed := f.advanceCrash(); crashed {
		return v
	}
	for _, one := range f.faults {
		if one.matchCall(method, keys) {
			if one.Started != nil && !one.started {
				one.started = true
				close(one.Started)
			}
			return appliedFault{Fault: one.Fault}
		}
	}
	return appliedFault{}
}

func (f *FaultyStore) advanceCrash() (appliedFault, bool) {
	switch {
	case f.crashAfter < 0:
		return appliedFault{}, false
	case f.crashAfter == 0:
		return appliedFault{Fault: Fault{Before: ErrCrashed}}, true
	}
	f.crashAfter--
	if f.crashAfter == 0 && f.crashLate {
		return appliedFault{Fault: Fault{After: ErrCrashed}}, true
	}
	return appliedFault{}, false
}

func (one *armedFault) matchCall(method Method, keys []string) bool {
	if one.Method != "" && one.Method != method {
		return false
	}
	matches := false
	for _, key := range keys {
		matches = matches || one.key.MatchString(key)
	}
	if !matches {
		return false
	}
	one.matched++
	return one.Nth == 0 || one.Nth == one.matched
}

// Put implements objectstore.Store.
func (f *FaultyStore) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	v, err := f.beginCall(ctx, MethodPut, key)
	if err != nil {
		return objectstore.Info{}, err
	}
	info, err := f.store.Put(ctx, key, v.wrapContent(ctx, r), opts)
	if err == nil {
		err = v.After
	}
	return info, err
}

// Get implements objectstore.Store.
func (f *FaultyStore) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	v, err := f.beginCall(ctx, MethodGet, key)
	if err != nil {
		return nil, err
	}
	rc, err := f.store.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if v.After != nil {
		return nil, errors.Join(v.After, rc.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{v.wrapContent(ctx, rc), rc}, nil
}

// Stat implements objectstore.Store.
func (f *FaultyStore) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	v, err := f.beginCall(ctx, MethodStat, key)
	if err != nil {
		return objectstore.Info{}, err
	}
	info, err := f.store.Stat(ctx, key)
	if err == nil {
		err = v.After
	}
	return info, err
}

// List implements objectstore.Store. After is yielded at the end of the list.
func (f *FaultyStore) List(ctx context.Context, opts objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	return func(yield func(objectstore.Entry, error) bool) {
		v, err := f.beginCall(ctx, MethodList, opts.Prefix)
		if err != nil {
			yield(objectstore.Entry{}, err)
			return
		}
		for entry, err := range f.store.List(ctx, opts) {
			if !yield(entry, err) {
				return
			}
		}
		if v.After != nil {
			yield(objectstore.Entry{}, v.After)
		}
	}
}

// Delete implements objectstore.Store.
func (f *FaultyStore) Delete(ctx context.Context, keys ...string) error {
	v, err := f.beginCall(ctx, MethodDelete, keys...)
	if err != nil {
		return err
	}
	if err := f.store.Delete(ctx, keys...); err != nil {
		return err
	}
	return v.After
}

// AbortUploads implements objectstore.UploadAborter. It does nothing if the wrapped store
// does not implement that.
func (f *FaultyStore) AbortUploads(ctx context.Context, prefix string) (int, error) {
	aborter, ok := f.store.(objectstore.UploadAborter)
	if !ok {
		return 0, nil
	}
	v, err := f.beginCall(ctx, MethodAbort, prefix)
	if err != nil {
		return 0, err
	}
	n, err := aborter.AbortUploads(ctx, prefix)
	if err == nil {
		err = v.After
	}
	return n, err
}

// Capabilities implements objectstore.Store.
func (f *FaultyStore) Capabilities() objectstore.Capabilities { return f.store.Capabilities() }

func (v appliedFault) wrapContent(ctx context.Context, r io.Reader) io.Reader {
	switch {
	case v.Hang:
		return io.MultiReader(io.LimitReader(r, v.CutAt), &hangingReader{ctx: ctx, verdict: v}, r)
	case v.Cut:
		return io.MultiReader(io.LimitReader(r, v.CutAt), &cutReader{err: v.CutErr})
	}
	return r
}

// hangingReader is the position in a stream at which it hangs.
type hangingReader struct {
	ctx     context.Context //nolint:containedctx // A stream belongs to the call that opened it.
	verdict appliedFault
}

// Read implements io.Reader.
func (h *hangingReader) Read([]byte) (int, error) {
	if err := h.verdict.waitForRelease(h.ctx); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// cutReader is the end of a truncated stream.
type cutReader struct{ err error }

func (t *cutReader) Read([]byte) (int, error) {
	if t.err != nil {
		return 0, t.err
	}
	return 0, io.EOF
}
