// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	objectstorev1 "github.com/grapnel-dev/grapnel/sdk/objectstore/v1"
)

// storePrefix is where the check writes.
const storePrefix = "plugintest/"

// largeObjectBytes is larger than one message in either direction.
const largeObjectBytes = 2<<20 + 1

// storePatienceFactor is the time limit for the check of a store in multiples of
// Contract.Patience: it makes many calls.
const storePatienceFactor = 10

// errInterrupted is the error at the end of the body of an interrupted upload.
var errInterrupted = errors.New("interrupted by plugintest")

// storeCheck is the check of one store. It only uses its own prefix.
type storeCheck struct {
	store          objectstorev1.ObjectStore
	bucket, prefix string
}

// storeCheckFuncs are independent of each other; each has its own prefix.
func storeCheckFuncs() map[string]func(s storeCheck, ctx context.Context) error {
	return map[string]func(s storeCheck, ctx context.Context) error{
		"objects are read back unchanged":             storeCheck.checkRoundTrip,
		"replaces an object":                          storeCheck.checkReplacement,
		"reports a missing object":                    storeCheck.checkMissingObject,
		"lists keys":                                  storeCheck.checkListObjects,
		"lists common prefixes":                       storeCheck.checkListCommonPrefixes,
		"deletes":                                     storeCheck.checkDeleteObject,
		"an interrupted upload leaves nothing behind": storeCheck.checkInterruptedUpload,
		"serves concurrent calls":                     storeCheck.checkConcurrentCalls,
		"signs URLs or returns an error":              storeCheck.checkSignedURL,
	}
}

func checkObjectStore(t *testing.T, p *Plugin, c Contract, action Action) {
	t.Helper()
	config := map[string]string{}
	if c.Store != nil {
		config = maps.Clone(c.Store(action))
	}
	if config["bucket"] == "" {
		config["bucket"] = "contract"
	}
	store := p.ObjectStoreV1(action.Name)
	if err := store.Init(t.Context(), config); err != nil {
		t.Fatalf("the store cannot be initialized: %v: set Contract.Store", err)
	}
	prefix := config["prefix"]
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	checks := storeCheckFuncs()
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		t.Run(name, func(t *testing.T) {
			s := storeCheck{store: store, bucket: config["bucket"], prefix: prefix + storePrefix + rand.Text() + "/"}
			ctx, cancel := context.WithTimeout(t.Context(), storePatienceFactor*c.Patience)
			defer cancel()
			err := checks[name](s, ctx)
			if err = errors.Join(err, s.cleanUpObjects(ctx)); err != nil {
				t.Error(err)
			}
		})
	}
}

// cleanUpObjects removes the objects that a check left behind.
func (s storeCheck) cleanUpObjects(ctx context.Context) error {
	keys, err := s.store.ListObjects(ctx, s.bucket, s.prefix)
	if err != nil {
		return fmt.Errorf("listing what the check wrote: %w", err)
	}
	for _, key := range keys {
		if err := s.store.DeleteObject(ctx, s.bucket, key); err != nil {
			return fmt.Errorf("deleting what the check wrote: %w", err)
		}
	}
	return nil
}

func (s storeCheck) putObject(ctx context.Context, name, content string) error {
	if err := s.store.PutObject(ctx, s.bucket, s.prefix+name, strings.NewReader(content)); err != nil {
		return fmt.Errorf("storing %s: %w", name, err)
	}
	return nil
}

func (s storeCheck) putObjects(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := s.putObject(ctx, name, "content of "+name); err != nil {
			return err
		}
	}
	return nil
}

// expectObjectContent returns an error unless an object has the given content.
func (s storeCheck) expectObjectContent(ctx context.Context, name, want string) error {
	exists, err := s.store.ObjectExists(ctx, s.bucket, s.prefix+name)
	if err != nil || !exists {
		return errors.Join(fmt.Errorf("ObjectExists says %v of the stored object %s", exists, name), err)
	}
	object, err := s.store.GetObject(ctx, s.bucket, s.prefix+name)
	if err != nil {
		return fmt.Errorf("getting %s: %w", name, err)
	}
	content, err := io.ReadAll(object)
	if err = errors.Join(err, object.Close()); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if string(content) != want {
		return fmt.Errorf("%s has %d bytes where %d were stored, or different content", name, len(content), len(want))
	}
	return nil
}

// expectObjectAbsent returns an error if the object exists.
func (s storeCheck) expectObjectAbsent(ctx context.Context, name string) error {
	if exists, err := s.store.ObjectExists(ctx, s.bucket, s.prefix+name); err != nil || exists {
		return errors.Join(fmt.Errorf("ObjectExists says %v of %s, which does not exist", exists, name), err)
	}
	object, err := s.store.GetObject(ctx, s.bucket, s.prefix+name)
	if err == nil {
		// A store may notice a missing object only when it is read.
		_, err = io.ReadAll(object)
		err = errors.Join(err, object.Close())
	}
	if !errors.Is(err, objectstorev1.ErrNotExist) {
		return fmt.Errorf("GetObject of %s, which does not exist: the error does not match ErrNotExist; the error is: %v", name, err) //nolint:errorlint // it may be nil
	}
	keys, err := s.store.ListObjects(ctx, s.bucket, s.prefix+name)
	if err != nil || len(keys) > 0 {
		return errors.Join(fmt.Errorf("ListObjects returned %q for %s, which does not exist", keys, name), err)
	}
	return nil
}

func (s storeCheck) checkRoundTrip(ctx context.Context) error {
	for name, content := range map[string]string{
		"backups/nightly/small.json": "{}", "backups/nightly/empty": "", "backups/nightly/large.tar.gz": patternedContent(largeObjectBytes),
	} {
		if err := errors.Join(s.putObject(ctx, name, content), s.expectObjectContent(ctx, name, content)); err != nil {
			return err
		}
	}
	return nil
}

// patternedContent returns content in which no part equals its neighbor.
func patternedContent(size int) string {
	content := make([]byte, 0, size+8)
	for i := uint64(1); len(content) < size; i++ {
		content = binary.BigEndian.AppendUint64(content, i)
	}
	return string(content[:size])
}

func (s storeCheck) checkReplacement(ctx context.Context) error {
	for _, content := range []string{"a long content", "short", "", "again"} {
		if err := errors.Join(s.putObject(ctx, "object", content), s.expectObjectContent(ctx, "object", content)); err != nil {
			return err
		}
	}
	return nil
}

func (s storeCheck) checkMissingObject(ctx context.Context) error {
	return errors.Join(s.putObjects(ctx, "there/object"), s.expectObjectAbsent(ctx, "there/other"), s.expectObjectAbsent(ctx, "nowhere/object"))
}

func (s storeCheck) checkListObjects(ctx context.Context) error {
	if err := s.putObjects(ctx, "a/1", "a/2/3", "a2", "b"); err != nil {
		return err
	}
	for prefix, want := range map[string][]string{
		"": {"a/1", "a/2/3", "a2", "b"}, "a/": {"a/1", "a/2/3"}, "a": {"a/1", "a/2/3", "a2"}, "a/2/3": {"a/2/3"}, "none/": nil,
	} {
		keys, err := s.store.ListObjects(ctx, s.bucket, s.prefix+prefix)
		if err != nil {
			return fmt.Errorf("listing keys with the prefix %q: %w", prefix, err)
		}
		if err := s.compareListedKeys(fmt.Sprintf("ListObjects with the prefix %q", prefix), keys, want); err != nil {
			return err
		}
	}
	return nil
}

func (s storeCheck) checkListCommonPrefixes(ctx context.Context) error {
	if err := s.putObjects(ctx, "backups/x/1", "backups/x/2", "backups/y/deep/1", "backups/loose", "restores/r/1"); err != nil {
		return err
	}
	for prefix, want := range map[string][]string{
		"": {"backups/", "restores/"}, "backups/": {"backups/x/", "backups/y/"}, "backups/x/": nil, "none/": nil,
	} {
		prefixes, err := s.store.ListCommonPrefixes(ctx, s.bucket, s.prefix+prefix, "/")
		if err != nil {
			return fmt.Errorf("listing common prefixes below %q: %w", prefix, err)
		}
		if err := s.compareListedKeys(fmt.Sprintf("ListCommonPrefixes with the prefix %q", prefix), prefixes, want); err != nil {
			return err
		}
	}
	return nil
}

// compareListedKeys compares keys in any order.
func (s storeCheck) compareListedKeys(what string, got, want []string) error {
	var wanted []string
	for _, name := range want {
		wanted = append(wanted, s.prefix+name)
	}
	if got = slices.Sorted(slices.Values(got)); !slices.Equal(got, wanted) {
		return fmt.Errorf("%s returned %q, want %q", what, got, wanted)
	}
	return nil
}

func (s storeCheck) checkDeleteObject(ctx context.Context) error {
	if err := s.putObjects(ctx, "a/1", "a/2"); err != nil {
		return err
	}
	for _, attempt := range []string{"", " a second time"} {
		if err := s.store.DeleteObject(ctx, s.bucket, s.prefix+"a/1"); err != nil {
			return fmt.Errorf("deleting an object%s: %w", attempt, err)
		}
	}
	return errors.Join(s.expectObjectAbsent(ctx, "a/1"), s.expectObjectContent(ctx, "a/2", "content of a/2"))
}

// checkInterruptedUpload interrupts uploads: one of a new object, and one that replaces an
// object.
func (s storeCheck) checkInterruptedUpload(ctx context.Context) error {
	if err := s.putObject(ctx, "old", "old content"); err != nil {
		return err
	}
	for _, name := range []string{"new", "old"} {
		for _, size := range []int{1, largeObjectBytes} {
			body := io.MultiReader(strings.NewReader(patternedContent(size)), failingReader{})
			if err := s.store.PutObject(ctx, s.bucket, s.prefix+name, body); err == nil {
				return fmt.Errorf("the upload of %s that was interrupted after %d bytes was reported as stored", name, size)
			}
		}
	}
	return errors.Join(s.expectObjectAbsent(ctx, "new"), s.expectObjectContent(ctx, "old", "old content"))
}

// failingReader is a body that returns an error.
type failingReader struct{}

// Read returns errInterrupted.
func (failingReader) Read([]byte) (int, error) { return 0, errInterrupted }

func (s storeCheck) checkConcurrentCalls(ctx context.Context) error {
	var wg sync.WaitGroup
	problems := make([]error, parallelRuns)
	contents := make([]string, parallelRuns)
	for i := range parallelRuns {
		contents[i] = strings.Repeat(fmt.Sprint(i), largeObjectBytes/parallelRuns)
		wg.Go(func() {
			name := fmt.Sprintf("of its own/%d", i)
			problems[i] = errors.Join(s.putObject(ctx, name, contents[i]), s.expectObjectContent(ctx, name, contents[i]), s.putObject(ctx, "shared", contents[i]))
		})
	}
	wg.Wait()
	if err := errors.Join(problems...); err != nil {
		return err
	}
	for _, content := range contents {
		if s.expectObjectContent(ctx, "shared", content) == nil {
			return nil
		}
	}
	return errors.New("an object that was stored several times concurrently matches none of the stored contents")
}

func (s storeCheck) checkSignedURL(ctx context.Context) error {
	if err := s.putObject(ctx, "object", "content"); err != nil {
		return err
	}
	signed, err := s.store.CreateSignedURL(ctx, s.bucket, s.prefix+"object", time.Minute)
	if err != nil {
		return nil //nolint:nilerr // not every store supports it
	}
	if parsed, err := url.Parse(signed); err != nil || !parsed.IsAbs() {
		return errors.New("CreateSignedURL returned no error and no URL")
	}
	return nil
}
