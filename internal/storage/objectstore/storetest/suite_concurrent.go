// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

//nolint:thelper // The functions are tests: a failure belongs to the line in them, not to their caller.
package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

func testIfAbsent(t *testing.T, s objectstore.Store) {
	ifAbsent := objectstore.PutOptions{IfAbsent: true}
	if _, err := s.Put(t.Context(), "key", strings.NewReader("first"), ifAbsent); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"second", "first", ""} {
		if _, err := s.Put(t.Context(), "key", strings.NewReader(content), ifAbsent); !errors.Is(err, objectstore.ErrExists) {
			t.Errorf("putting %q again: error %v, want ErrExists", content, err)
		}
	}
	if got := string(readObject(t, s, "key")); got != "first" {
		t.Errorf("the object is %q, want the first", got)
	}
	if err := s.Delete(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "key", strings.NewReader("third"), ifAbsent); err != nil {
		t.Errorf("putting after deletion: %v", err)
	}
}

func testIfAbsentRace(t *testing.T, s objectstore.Store) {
	// Some stores find out with the first such Put whether they support it.
	if _, err := s.Put(t.Context(), "warm-up", strings.NewReader("x"), objectstore.PutOptions{IfAbsent: true}); err != nil {
		t.Fatal(err)
	}
	if !s.Capabilities().PutIfAbsent {
		t.Log("The store does not offer put-if-absent; nothing to check")
		return
	}
	const writers = 16
	for round := range 5 {
		key := fmt.Sprintf("race/%d", round)
		errs := inParallel(writers, func(i int) error {
			_, err := s.Put(t.Context(), key, strings.NewReader(fmt.Sprintf("writer %d", i)), objectstore.PutOptions{IfAbsent: true})
			return err
		})
		winner := ""
		for i, err := range errs {
			switch {
			case err == nil && winner == "":
				winner = fmt.Sprintf("writer %d", i)
			case err == nil:
				t.Errorf("both %s and writer %d won", winner, i)
			case !errors.Is(err, objectstore.ErrExists):
				t.Errorf("writer %d: %v", i, err)
			}
		}
		if got := string(readObject(t, s, key)); got != winner {
			t.Errorf("the object is of %q, the winner was %q", got, winner)
		}
	}
	wantNoUploads(t, s)
}

func testConcurrentPuts(t *testing.T, s objectstore.Store) {
	const writers = 8
	contents := make([][]byte, writers)
	for i := range contents {
		contents[i] = randomBytes(200<<10+i, byte(i))
	}
	errs := inParallel(writers, func(i int) error {
		_, err := s.Put(t.Context(), "same", bytes.NewReader(contents[i]), objectstore.PutOptions{})
		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	got := readObject(t, s, "same")
	for _, content := range contents {
		if bytes.Equal(got, content) {
			return
		}
	}
	t.Errorf("the object (%d bytes) was written by no Put", len(got))
}

// testPutBesideDelete runs writers and deleters in the same directories. A store that
// removes empty directories could remove one during a Put.
func testPutBesideDelete(t *testing.T, s objectstore.Store) {
	const workers = 4
	errs := inParallel(workers, func(i int) error {
		for round := range 25 {
			key := fmt.Sprintf("shared/dir/%d", i)
			if _, err := s.Put(t.Context(), key, strings.NewReader("x"), objectstore.PutOptions{}); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			if _, err := s.Stat(t.Context(), key); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			if err := s.Delete(t.Context(), key); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	wantKeys(t, s, objectstore.ListOptions{})
}

func inParallel(n int, do func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = do(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}
