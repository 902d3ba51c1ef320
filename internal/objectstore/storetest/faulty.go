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

	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

// Method names a method of objectstore.Store.
type Method string

// The methods that a Fault can select.
const (
	Put    Method = "Put"
	Get    Method = "Get"
	Stat   Method = "Stat"
	List   Method = "List"
	Delete Method = "Delete"
	Abort  Method = "Abort"
)

// ErrCrashed is what every call returns after Faulty.CrashAfter took effect.
var ErrCrashed = errors.New("process crashed (injected)")

// Fault selects calls and says what goes wrong with them. The first fault that
// matches a call applies.
type Fault struct {
	// Method selects calls of one method; empty selects all.
	Method Method
	// Key selects calls by key (List: prefix; Delete: any of the keys): a
	// pattern in which * stands for any characters, slashes too. Empty
	// selects all.
	Key string
	// Nth selects only the n-th matching call, counted from 1; 0 selects all.
	Nth int

	// Before is returned instead of calling the store.
	Before error
	// After is returned after the store did what was asked: a lost reply.
	After error
	// Release delays the call until it is closed or the call's ctx ends.
	Release <-chan struct{}
	// Started, if not nil, is closed when the first selected call arrives, so
	// that a test knows that it hangs.
	Started chan<- struct{}
	// Cut ends the content of a Put or Get after CutAt bytes: silently if
	// CutErr is nil, as a lying store does, or with CutErr.
	Cut    bool
	CutAt  int64
	CutErr error
}

// Call is one call that a Faulty store got.
type Call struct {
	Method Method
	// Key is the key, the prefix of a List, or the keys of a Delete joined by
	// spaces.
	Key string
}

// Faulty wraps a store. It is safe for concurrent use.
type Faulty struct {
	store objectstore.Store

	mu         sync.Mutex
	faults     []*fault
	calls      []Call
	crashAfter int // Calls until the crash; negative: never.
	crashLate  bool
}

type fault struct {
	Fault
	key     *regexp.Regexp
	matched int
	started bool
}

var (
	_ objectstore.Store         = (*Faulty)(nil)
	_ objectstore.UploadAborter = (*Faulty)(nil)
)

// NewFaulty wraps store with the given faults.
func NewFaulty(store objectstore.Store, faults ...Fault) *Faulty {
	f := &Faulty{store: store, crashAfter: -1}
	f.Add(faults...)
	return f
}

// Add adds faults; calls made before do not count for their Nth.
func (f *Faulty) Add(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range faults {
		f.faults = append(f.faults, &fault{Fault: one, key: pattern(one.Key)})
	}
}

// CrashAfter lets n more calls pass and then fails every call with ErrCrashed,
// like a process that died. With late, the n-th call still takes effect in the
// store but reports ErrCrashed: the process died before it saw the reply.
func (f *Faulty) CrashAfter(n int, late bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashAfter, f.crashLate = n, late
}

// Calls returns the calls so far, those that failed included.
func (f *Faulty) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls...)
}

// Count returns how many calls of the method matched the key pattern.
func (f *Faulty) Count(method Method, key string) int {
	re := pattern(key)
	n := 0
	for _, c := range f.Calls() {
		if (method == "" || c.Method == method) && re.MatchString(c.Key) {
			n++
		}
	}
	return n
}

func pattern(key string) *regexp.Regexp {
	if key == "" {
		key = "*"
	}
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(key), `\*`, ".*") + "$")
}

// verdict is what happens to one call.
type verdict struct {
	Fault
}

// enter records a call and decides what happens to it.
func (f *Faulty) enter(ctx context.Context, method Method, keys ...string) (verdict, error) {
	v := f.record(method, keys)
	if v.Release != nil {
		select {
		case <-v.Release:
		case <-ctx.Done():
			return v, ctx.Err()
		}
	}
	return v, v.Before
}

func (f *Faulty) record(method Method, keys []string) verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, Call{Method: method, Key: strings.Join(keys, " ")})
	if v, crashed := f.crash(); crashed {
		return v
	}
	for _, one := range f.faults {
		if one.selects(method, keys) {
			if one.Started != nil && !one.started {
				one.started = true
				close(one.Started)
			}
			return verdict{Fault: one.Fault}
		}
	}
	return verdict{}
}

func (f *Faulty) crash() (verdict, bool) {
	switch {
	case f.crashAfter < 0:
		return verdict{}, false
	case f.crashAfter == 0:
		return verdict{Fault: Fault{Before: ErrCrashed}}, true
	}
	f.crashAfter--
	if f.crashAfter == 0 && f.crashLate {
		return verdict{Fault: Fault{After: ErrCrashed}}, true
	}
	return verdict{}, false
}

func (one *fault) selects(method Method, keys []string) bool {
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
func (f *Faulty) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	v, err := f.enter(ctx, Put, key)
	if err != nil {
		return objectstore.Info{}, err
	}
	info, err := f.store.Put(ctx, key, v.cut(r), opts)
	if err == nil {
		err = v.After
	}
	return info, err
}

// Get implements objectstore.Store.
func (f *Faulty) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	v, err := f.enter(ctx, Get, key)
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
	}{v.cut(rc), rc}, nil
}

// Stat implements objectstore.Store.
func (f *Faulty) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	v, err := f.enter(ctx, Stat, key)
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
func (f *Faulty) List(ctx context.Context, opts objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	return func(yield func(objectstore.Entry, error) bool) {
		v, err := f.enter(ctx, List, opts.Prefix)
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
func (f *Faulty) Delete(ctx context.Context, keys ...string) error {
	v, err := f.enter(ctx, Delete, keys...)
	if err != nil {
		return err
	}
	if err := f.store.Delete(ctx, keys...); err != nil {
		return err
	}
	return v.After
}

// AbortUploads implements objectstore.UploadAborter; it does nothing if the
// wrapped store has no such thing.
func (f *Faulty) AbortUploads(ctx context.Context, prefix string) (int, error) {
	aborter, ok := f.store.(objectstore.UploadAborter)
	if !ok {
		return 0, nil
	}
	v, err := f.enter(ctx, Abort, prefix)
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
func (f *Faulty) Capabilities() objectstore.Capabilities { return f.store.Capabilities() }

func (v verdict) cut(r io.Reader) io.Reader {
	if !v.Cut {
		return r
	}
	return io.MultiReader(io.LimitReader(r, v.CutAt), &tail{err: v.CutErr})
}

// tail is the end of a stream that was cut.
type tail struct{ err error }

func (t *tail) Read([]byte) (int, error) {
	if t.err != nil {
		return 0, t.err
	}
	return 0, io.EOF
}
