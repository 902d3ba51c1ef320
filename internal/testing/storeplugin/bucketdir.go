// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storeplugin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
)

// Provider is the registered name of the ObjectStore.
const Provider = "test.example.io/directory"

// The process dies when keys with these prefixes are put or read.
const (
	KillOnPutPrefix = "kill-put"
	KillOnGetPrefix = "kill-get"
)

// The environment of the process.
const (
	envServe = "STOREPLUGIN_SERVE"
	envRoot  = "STOREPLUGIN_ROOT"
)

// BucketDir is the directory with the buckets of an ObjectStore, each a subdirectory.
type BucketDir struct {
	t    testing.TB
	root string
}

// NewBucketDir returns a BucketDir with these buckets.
func NewBucketDir(t testing.TB, buckets ...string) *BucketDir {
	t.Helper()
	f := &BucketDir{t: t, root: t.TempDir()}
	for _, bucket := range buckets {
		f.CreateBucket(bucket)
	}
	return f
}

// CreateBucket adds a bucket.
func (f *BucketDir) CreateBucket(name string) {
	f.t.Helper()
	if err := os.Mkdir(f.Path(name), 0o700); err != nil {
		f.t.Fatal(err)
	}
}

// Path returns the path of a file in a bucket.
func (f *BucketDir) Path(elements ...string) string {
	return filepath.Join(append([]string{f.root}, elements...)...)
}

// Env is the environment of a process that serves the BucketDir.
func (f *BucketDir) Env() map[string]string {
	return map[string]string{envServe: "1", envRoot: f.root}
}

// PluginSpec returns the catalog.Spec of the plugin with a name.
func (f *BucketDir) PluginSpec(name string) catalog.Spec {
	f.t.Helper()
	self, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	return catalog.Spec{Name: name, Process: catalog.ProcessSpec{Path: self, Env: f.Env()}}
}

// AcceptedInit is one call of Init that a process accepted.
type AcceptedInit struct {
	// PID is the process ID, Config the configuration.
	PID    int
	Config map[string]string
	// Credentials is the content of the credentials file, if there was one, and Mode the
	// permissions of that file.
	Credentials string
	Mode        os.FileMode
}

// AcceptedInits returns all calls of Init so far, in order.
func (f *BucketDir) AcceptedInits() []AcceptedInit {
	f.t.Helper()
	content, err := os.ReadFile(f.Path(initsFile))
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	var starts []AcceptedInit
	for line := range strings.Lines(string(content)) {
		var start AcceptedInit
		if err := json.Unmarshal([]byte(line), &start); err != nil {
			f.t.Fatal(err)
		}
		starts = append(starts, start)
	}
	return starts
}

// initsFile is next to the buckets.
const initsFile = "starts"
