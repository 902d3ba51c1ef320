// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

var errInjected = errors.New("injected")

func TestFaultyStore_FaultSelection(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault storetest.Fault
		want  []bool // whether each of four puts (a/x, a/y, b/x, a/x) fails
	}{
		"everything":      {storetest.Fault{}, []bool{true, true, true, true}},
		"key":             {storetest.Fault{Key: "a/x"}, []bool{true, false, false, true}},
		"pattern":         {storetest.Fault{Key: "a/*"}, []bool{true, true, false, true}},
		"across slashes":  {storetest.Fault{Key: "*x"}, []bool{true, false, true, true}},
		"second of a key": {storetest.Fault{Key: "a/x", Nth: 2}, []bool{false, false, false, true}},
		"other method":    {storetest.Fault{Method: storetest.MethodGet}, []bool{false, false, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.fault.Before = errInjected
			store := memory.New()
			f := storetest.NewFaultyStore(store, tc.fault)
			for i, key := range []string{"a/x", "a/y", "b/x", "a/x"} {
				_, err := f.Put(t.Context(), key, strings.NewReader("x"), objectstore.PutOptions{})
				if errors.Is(err, errInjected) != tc.want[i] {
					t.Errorf("put %d of %s: error %v, want fault: %v", i, key, err, tc.want[i])
				}
			}
			if n := f.CountCalls(storetest.MethodPut, "a/*"); n != 3 {
				t.Errorf("%d puts below a/ were counted, want 3", n)
			}
		})
	}
}

func TestFaultyStore_LostReply(t *testing.T) {
	t.Parallel()
	store := memory.New()
	f := storetest.NewFaultyStore(store, storetest.Fault{After: errInjected})
	if _, err := f.Put(t.Context(), "key", strings.NewReader("x"), objectstore.PutOptions{}); !errors.Is(err, errInjected) {
		t.Errorf("error %v, want the injected one", err)
	}
	if _, err := store.Stat(t.Context(), "key"); err != nil {
		t.Errorf("the object was not stored: %v", err)
	}
	if err := f.Delete(t.Context(), "key"); !errors.Is(err, errInjected) {
		t.Errorf("error %v, want the injected one", err)
	}
	if _, err := store.Stat(t.Context(), "key"); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("the object was not deleted: %v", err)
	}
}

func TestFaultyStore_CutContent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err     error
		wantErr error
	}{
		"silently": {nil, nil}, "with an error": {errInjected, errInjected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memory.New()
			if _, err := store.Put(t.Context(), "key", strings.NewReader("content"), objectstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			r, err := storetest.NewFaultyStore(store, storetest.Fault{Cut: true, CutAt: 3, CutErr: tc.err}).Get(t.Context(), "key")
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if string(got) != "con" || !errors.Is(err, tc.wantErr) {
				t.Errorf("read %q with error %v, want \"con\" and %v", got, err, tc.wantErr)
			}
		})
	}
}

func TestCrashAfter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		late       bool
		wantStored []string
		wantSecond bool
	}{
		"before the effect of the next call": {false, []string{"0", "1"}, true},
		"after the effect of the last":       {true, []string{"0", "1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memory.New()
			f := storetest.NewFaultyStore(store)
			f.CrashAfter(2, tc.late)
			for i, key := range []string{"0", "1", "2"} {
				_, err := f.Put(t.Context(), key, strings.NewReader("x"), objectstore.PutOptions{})
				wantOK := i == 0 || (i == 1 && tc.wantSecond)
				if (err == nil) != wantOK || (err != nil && !errors.Is(err, storetest.ErrCrashed)) {
					t.Errorf("put %d: error %v, want success: %v", i, err, wantOK)
				}
			}
			var stored []string
			for e, err := range store.List(t.Context(), objectstore.ListOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				stored = append(stored, e.Key)
			}
			if strings.Join(stored, " ") != strings.Join(tc.wantStored, " ") {
				t.Errorf("stored %v, want %v", stored, tc.wantStored)
			}
		})
	}
}
