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

// largeObject is more than one message has in either direction.
const largeObject = 2<<20 + 1

// storePatience is how many times Contract.Patience a check of a store may take, which
// makes many calls.
const storePatience = 10

// errInterrupted is what the body of an interrupted upload ends with.
var errInterrupted = errors.New("interrupted by plugintest")

// storeCheck is the check of one store. It keeps to a prefix of its own.
type storeCheck struct {
	store          objectstorev1.ObjectStore
	bucket, prefix string
}

// storeChecks are independent of each other; each has a prefix of its own.
func storeChecks() map[string]func(s storeCheck, ctx context.Context) error {
	return map[string]func(s storeCheck, ctx context.Context) error{
		"objects come back as they were":       storeCheck.comesBack,
		"an object is replaced":                storeCheck.replaces,
		"an object that does not exist":        storeCheck.missing,
		"lists keys":                           storeCheck.lists,
		"lists common prefixes":                storeCheck.listsPrefixes,
		"deletes":                              storeCheck.deletes,
		"an interrupted upload leaves nothing": storeCheck.interrupted,
		"serves several calls at once":         storeCheck.concurrent,
		"signs URLs or says why not":           storeCheck.signs,
	}
}

func checkStore(t *testing.T, p *Plugin, c Contract, action Action) {
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
		t.Fatalf("the store cannot be initialised: %v: set Contract.Store", err)
	}
	prefix := config["prefix"]
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	checks := storeChecks()
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		t.Run(name, func(t *testing.T) {
			s := storeCheck{store: store, bucket: config["bucket"], prefix: prefix + storePrefix + rand.Text() + "/"}
			ctx, cancel := context.WithTimeout(t.Context(), storePatience*c.Patience)
			defer cancel()
			err := checks[name](s, ctx)
			if err = errors.Join(err, s.cleanUp(ctx)); err != nil {
				t.Error(err)
			}
		})
	}
}

// cleanUp removes what a check left.
func (s storeCheck) cleanUp(ctx context.Context) error {
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

func (s storeCheck) put(ctx context.Context, name, content string) error {
	if err := s.store.PutObject(ctx, s.bucket, s.prefix+name, strings.NewReader(content)); err != nil {
		return fmt.Errorf("storing %s: %w", name, err)
	}
	return nil
}

func (s storeCheck) putAll(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := s.put(ctx, name, "content of "+name); err != nil {
			return err
		}
	}
	return nil
}

// holds returns an error unless an object has a content.
func (s storeCheck) holds(ctx context.Context, name, want string) error {
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
		return fmt.Errorf("%s has %d bytes where %d were stored, or others", name, len(content), len(want))
	}
	return nil
}

// lacks returns an error unless there is no object.
func (s storeCheck) lacks(ctx context.Context, name string) error {
	if exists, err := s.store.ObjectExists(ctx, s.bucket, s.prefix+name); err != nil || exists {
		return errors.Join(fmt.Errorf("ObjectExists says %v of %s, which does not exist", exists, name), err)
	}
	object, err := s.store.GetObject(ctx, s.bucket, s.prefix+name)
	if err == nil {
		// A store may notice only when it is read.
		_, err = io.ReadAll(object)
		err = errors.Join(err, object.Close())
	}
	if !errors.Is(err, objectstorev1.ErrNotExist) {
		return fmt.Errorf("GetObject of %s, which does not exist: the error does not match ErrNotExist, it is: %v", name, err) //nolint:errorlint // it may be nil
	}
	keys, err := s.store.ListObjects(ctx, s.bucket, s.prefix+name)
	if err != nil || len(keys) > 0 {
		return errors.Join(fmt.Errorf("ListObjects knows %q of %s, which does not exist", keys, name), err)
	}
	return nil
}

func (s storeCheck) comesBack(ctx context.Context) error {
	for name, content := range map[string]string{
		"backups/nightly/small.json": "{}", "backups/nightly/empty": "", "backups/nightly/large.tar.gz": pattern(largeObject),
	} {
		if err := errors.Join(s.put(ctx, name, content), s.holds(ctx, name, content)); err != nil {
			return err
		}
	}
	return nil
}

// pattern returns a content in which no part looks like its neighbour.
func pattern(size int) string {
	content := make([]byte, 0, size+8)
	for i := uint64(1); len(content) < size; i++ {
		content = binary.BigEndian.AppendUint64(content, i)
	}
	return string(content[:size])
}

func (s storeCheck) replaces(ctx context.Context) error {
	for _, content := range []string{"a long content", "short", "", "again"} {
		if err := errors.Join(s.put(ctx, "object", content), s.holds(ctx, "object", content)); err != nil {
			return err
		}
	}
	return nil
}

func (s storeCheck) missing(ctx context.Context) error {
	return errors.Join(s.putAll(ctx, "there/object"), s.lacks(ctx, "there/other"), s.lacks(ctx, "nowhere/object"))
}

func (s storeCheck) lists(ctx context.Context) error {
	if err := s.putAll(ctx, "a/1", "a/2/3", "a2", "b"); err != nil {
		return err
	}
	for prefix, want := range map[string][]string{
		"": {"a/1", "a/2/3", "a2", "b"}, "a/": {"a/1", "a/2/3"}, "a": {"a/1", "a/2/3", "a2"}, "a/2/3": {"a/2/3"}, "none/": nil,
	} {
		keys, err := s.store.ListObjects(ctx, s.bucket, s.prefix+prefix)
		if err != nil {
			return fmt.Errorf("listing keys with the prefix %q: %w", prefix, err)
		}
		if err := s.same(fmt.Sprintf("ListObjects with the prefix %q", prefix), keys, want); err != nil {
			return err
		}
	}
	return nil
}

func (s storeCheck) listsPrefixes(ctx context.Context) error {
	if err := s.putAll(ctx, "backups/x/1", "backups/x/2", "backups/y/deep/1", "backups/loose", "restores/r/1"); err != nil {
		return err
	}
	for prefix, want := range map[string][]string{
		"": {"backups/", "restores/"}, "backups/": {"backups/x/", "backups/y/"}, "backups/x/": nil, "none/": nil,
	} {
		prefixes, err := s.store.ListCommonPrefixes(ctx, s.bucket, s.prefix+prefix, "/")
		if err != nil {
			return fmt.Errorf("listing common prefixes below %q: %w", prefix, err)
		}
		if err := s.same(fmt.Sprintf("ListCommonPrefixes with the prefix %q", prefix), prefixes, want); err != nil {
			return err
		}
	}
	return nil
}

// same compares keys in any order.
func (s storeCheck) same(what string, got, want []string) error {
	var wanted []string
	for _, name := range want {
		wanted = append(wanted, s.prefix+name)
	}
	if got = slices.Sorted(slices.Values(got)); !slices.Equal(got, wanted) {
		return fmt.Errorf("%s returned %q, want %q", what, got, wanted)
	}
	return nil
}

func (s storeCheck) deletes(ctx context.Context) error {
	if err := s.putAll(ctx, "a/1", "a/2"); err != nil {
		return err
	}
	for _, attempt := range []string{"", " a second time"} {
		if err := s.store.DeleteObject(ctx, s.bucket, s.prefix+"a/1"); err != nil {
			return fmt.Errorf("deleting an object%s: %w", attempt, err)
		}
	}
	return errors.Join(s.lacks(ctx, "a/1"), s.holds(ctx, "a/2", "content of a/2"))
}

// interrupted breaks off uploads: one of a new object, and one over an old one.
func (s storeCheck) interrupted(ctx context.Context) error {
	if err := s.put(ctx, "old", "old content"); err != nil {
		return err
	}
	for _, name := range []string{"new", "old"} {
		for _, size := range []int{1, largeObject} {
			body := io.MultiReader(strings.NewReader(pattern(size)), broken{})
			if err := s.store.PutObject(ctx, s.bucket, s.prefix+name, body); err == nil {
				return fmt.Errorf("the upload of %s that was interrupted after %d bytes was reported as stored", name, size)
			}
		}
	}
	return errors.Join(s.lacks(ctx, "new"), s.holds(ctx, "old", "old content"))
}

// broken is a body that fails.
type broken struct{}

// Read returns errInterrupted.
func (broken) Read([]byte) (int, error) { return 0, errInterrupted }

func (s storeCheck) concurrent(ctx context.Context) error {
	var wg sync.WaitGroup
	problems := make([]error, parallel)
	contents := make([]string, parallel)
	for i := range parallel {
		contents[i] = strings.Repeat(fmt.Sprint(i), largeObject/parallel)
		wg.Go(func() {
			name := fmt.Sprintf("of its own/%d", i)
			problems[i] = errors.Join(s.put(ctx, name, contents[i]), s.holds(ctx, name, contents[i]), s.put(ctx, "shared", contents[i]))
		})
	}
	wg.Wait()
	if err := errors.Join(problems...); err != nil {
		return err
	}
	for _, content := range contents {
		if s.holds(ctx, "shared", content) == nil {
			return nil
		}
	}
	return errors.New("an object that was stored several times at once is none of those that were stored")
}

func (s storeCheck) signs(ctx context.Context) error {
	if err := s.put(ctx, "object", "content"); err != nil {
		return err
	}
	signed, err := s.store.CreateSignedURL(ctx, s.bucket, s.prefix+"object", time.Minute)
	if err != nil {
		return nil //nolint:nilerr // not every store can
	}
	if parsed, err := url.Parse(signed); err != nil || !parsed.IsAbs() {
		return errors.New("CreateSignedURL returned no error and no URL")
	}
	return nil
}
