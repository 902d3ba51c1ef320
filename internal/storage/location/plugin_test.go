// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package location_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/testing/storeplugin"
)

func TestMain(m *testing.M) {
	storeplugin.ServeIfAsked()
	os.Exit(m.Run())
}

const (
	pluginName = "directories"
	secretName = "cloud"
	// password must not appear anywhere.
	password = "swordfish-and-chips"
)

// site is an operator with a plugin, and its cluster.
type site struct {
	t         *testing.T
	directory *storeplugin.BucketDir
	catalog   *catalog.Catalog
	cluster   client.Client
	opener    *location.Opener
	scratch   string
}

// newSite returns a site with a loaded Plugin.
func newSite(t *testing.T, buckets ...string) *site {
	t.Helper()
	s := newSiteWithout(t, buckets...)
	if _, err := s.catalog.Load(t.Context(), s.directory.PluginSpec(pluginName)); err != nil {
		t.Fatal(err)
	}
	s.create(provider(pluginName, true, ""))
	return s
}

// newSiteWithout returns a site without a Plugin.
func newSiteWithout(t *testing.T, buckets ...string) *site {
	t.Helper()
	redactor := redact.New()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	s := &site{
		t: t, directory: storeplugin.NewBucketDir(t, buckets...), scratch: t.TempDir(),
		catalog: catalog.New(catalog.Options{Redactor: redactor, Grace: 100 * time.Millisecond}),
		cluster: fake.NewClientBuilder().WithScheme(scheme).Build(),
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		s.catalog.Close(ctx)
	})
	s.opener = &location.Opener{Reader: s.cluster, Plugins: s.cluster, Stores: s.catalog, Scratch: s.scratch, Redactor: redactor}
	return s
}

func (s *site) create(object client.Object) {
	s.t.Helper()
	if err := s.cluster.Create(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

// provider returns a Plugin as its controller leaves it.
func provider(name string, ready bool, message string) *v1alpha1.Plugin {
	plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: name}}
	plugin.Status.Actions = []v1alpha1.ProvidedAction{{Kind: v1alpha1.ActionKindObjectStore, Name: storeplugin.Provider, Version: "v1"}}
	state := conditions.Current
	if !ready {
		state = conditions.StalledRetrying
	}
	conditions.SetSummary(plugin, state, "Any", message)
	return plugin
}

// secret creates or replaces the credential in the cluster.
func (s *site) secret(content string) {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "backups", Name: secretName}}
	_ = s.cluster.Delete(s.t.Context(), secret.DeepCopy())
	secret.Data = map[string][]byte{"ini": []byte(content)}
	s.create(secret)
}

// inPlugin returns a location in a bucket of the plugin.
func inPlugin(uid types.UID, bucket string, edits ...func(*v1alpha1.BackupStorageLocation)) *v1alpha1.BackupStorageLocation {
	at := bsl(v1alpha1.BackupStorageLocationSpec{Plugin: &v1alpha1.PluginLocation{Provider: storeplugin.Provider, Bucket: bucket}})
	at.UID, at.Name = uid, "in-"+bucket
	for _, edit := range edits {
		edit(at)
	}
	return at
}

func withCredential(at *v1alpha1.BackupStorageLocation) {
	at.Spec.Plugin.Credential = &v1alpha1.SecretKeyReference{Name: secretName, Key: "ini"}
}

// probe opens a location, checks and closes it.
func (s *site) probe(at *v1alpha1.BackupStorageLocation) error {
	opened, err := s.opener.Open(s.t.Context(), at)
	if err != nil {
		return err
	}
	return errors.Join(opened.Probe(s.t.Context()), opened.Close())
}

func (s *site) mustProbe(at *v1alpha1.BackupStorageLocation) {
	s.t.Helper()
	if err := s.probe(at); err != nil {
		s.t.Fatal(err)
	}
}

// credentials returns the existing credentials files.
func (s *site) credentials() []string {
	s.t.Helper()
	var files []string
	err := filepath.WalkDir(s.scratch, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return files
}

// awaitEnd waits for the end of a process.
func (s *site) awaitEnd(pid int) {
	s.t.Helper()
	plugintesting.Eventually(s.t, "the process ended", func() bool {
		_, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
		return os.IsNotExist(err)
	})
}

// TestPlugin follows two locations of one provider: the configuration of their
// processes, a Secret that changes, a process that dies, and their deletion.
func TestPlugin(t *testing.T) {
	t.Parallel()
	s := newSite(t, "first", "second")
	s.secret("password=" + password)
	first := inPlugin("uid-1", "first", withCredential, func(at *v1alpha1.BackupStorageLocation) {
		at.Spec.Prefix = "cluster/one"
		at.Spec.Plugin.Config = v1alpha1.ProviderConfig{"mode": "fast"}
		at.Spec.Plugin.CACert = []byte("PEM")
	})
	second := inPlugin("uid-2", "second")
	for range 2 {
		for _, at := range []*v1alpha1.BackupStorageLocation{first, second} {
			s.mustProbe(at)
		}
	}
	starts := s.directory.AcceptedInits()
	if len(starts) != 2 {
		t.Fatalf("unexpected initialization of the stores: %+v", starts)
	}
	one, two := starts[0], starts[1]
	file := one.Config["credentialsFile"]
	want := map[string]string{"bucket": "first", "prefix": "cluster/one", "caCert": "PEM", "mode": "fast", "credentialsFile": file}
	if !maps.Equal(one.Config, want) || one.Credentials != "password="+password || one.Mode != 0o600 || !strings.HasPrefix(file, s.scratch) {
		t.Errorf("the first store received %+v", one)
	}
	if !maps.Equal(two.Config, map[string]string{"bucket": "second", "prefix": ""}) || two.PID == one.PID {
		t.Errorf("the second store received %+v", two)
	}
	if err := store(t.Context(), s.opener, first, "a"); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(s.directory.Path("first", "cluster/one/backups/a/a-logs.gz")); err != nil || string(content) != "content" {
		t.Errorf("stored is %q, %v", content, err)
	}

	s.secret("password=another-" + password)
	s.mustProbe(first)
	again := s.directory.AcceptedInits()[2]
	if again.Credentials != "password=another-"+password || again.Config["credentialsFile"] == file {
		t.Errorf("after the Secret changed, the first store received %+v", again)
	}
	if files := s.credentials(); !slices.Equal(files, []string{again.Config["credentialsFile"]}) {
		t.Errorf("files %q", files)
	}
	s.awaitEnd(one.PID)

	s.opener.ReleaseDeletedLocation(t.Context(), types.NamespacedName{Namespace: first.Namespace, Name: first.Name})
	s.awaitEnd(again.PID)
	if files := s.credentials(); len(files) > 0 {
		t.Errorf("after the location was deleted: files %q", files)
	}
	if _, err := s.opener.Open(t.Context(), first); err == nil || !strings.Contains(err.Error(), "deleted") {
		t.Errorf("opening a deleted location: %v", err)
	}
	s.mustProbe(second)
	if err := s.opener.Close(); err != nil {
		t.Error(err)
	}
}

// TestOpen_ProviderChanged moves a location away from the plugin, and back.
func TestOpen_ProviderChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, "first")
	s.opener.Root = t.TempDir()
	s.secret("password=" + password)
	at := inPlugin("uid-1", "first", withCredential)
	s.mustProbe(at)
	elsewhere := directory("main", "")
	elsewhere.UID, elsewhere.Name = at.UID, at.Name
	s.mustProbe(elsewhere)
	s.awaitEnd(s.directory.AcceptedInits()[0].PID)
	if files := s.credentials(); len(files) > 0 {
		t.Errorf("remaining files %q", files)
	}
	s.mustProbe(at)
}

// TestOpen_SecretChanged changes the Secret during a run: the run continues with its credentials, even
// in a process that had to be restarted.
func TestOpen_SecretChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, "first")
	s.secret("password=" + password)
	at := inPlugin("uid-1", "first", withCredential)
	run, err := s.opener.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.secret("password=another-" + password)
	s.mustProbe(at)
	if err := run.Probe(t.Context()); err != nil {
		t.Errorf("the run lost its location: %v", err)
	}
	starts := s.directory.AcceptedInits()
	if last := starts[len(starts)-1]; last.Credentials != "password="+password {
		t.Errorf("the run has other credentials: %+v", last)
	}
	if err := run.Close(); err != nil {
		t.Error(err)
	}
	if files := s.credentials(); len(files) != 1 {
		t.Errorf("files after the run: %q", files)
	}
}

// TestOpen_SecretDeleted deletes the Secret: no file with its content remains.
func TestOpen_SecretDeleted(t *testing.T) {
	t.Parallel()
	s := newSite(t, "first")
	at := inPlugin("uid-1", "first", withCredential)
	if err := s.probe(at); err == nil || !strings.Contains(err.Error(), "reading the Secret cloud of the location") {
		t.Errorf("without the Secret: %v", err)
	}
	s.secret("")
	if err := s.probe(at); !errors.Is(err, location.ErrInvalidSpec) || !strings.Contains(err.Error(), "Secret cloud needs the key ini") {
		t.Errorf("with an empty Secret: %v", err)
	}
	s.secret("password=" + password)
	s.mustProbe(at)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "backups", Name: secretName}}
	if err := s.cluster.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if err := s.probe(at); err == nil {
		t.Error("the location can be used without its Secret")
	}
	s.awaitEnd(s.directory.AcceptedInits()[0].PID)
	if files := s.credentials(); len(files) > 0 {
		t.Errorf("remaining files %q", files)
	}
	s.secret("password=" + password)
	s.mustProbe(at)
}

// TestOpen_PluginKilled kills the process during a Put and a Get of a run.
func TestOpen_PluginKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, "first")
	at := inPlugin("uid-1", "first")
	opened, err := s.opener.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	const name = storeplugin.KillOnPutPrefix // The name of a file is that of the backup first.
	if err := opened.Claim(t.Context(), "x", storage.Claim{BackupUID: "u-1"}); err != nil {
		t.Fatal(err)
	}
	_, err = opened.PutFile(t.Context(), "x", "u-1", storage.Logs, strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	err = opened.Claim(t.Context(), name, storage.Claim{BackupUID: "u-2"})
	if !errors.Is(err, objectstore.ErrUnavailable) {
		t.Errorf("claiming a name that kills the process: %v, want ErrUnavailable", err)
	}
	r, err := opened.GetFile(t.Context(), "x", storage.Logs)
	if err != nil {
		t.Fatalf("after the process died: %v", err)
	}
	if content, err := io.ReadAll(r); err != nil || string(content) != "content" {
		t.Errorf("after the process died: read %q, %v", content, err)
	}
	_ = r.Close()
	if starts := s.directory.AcceptedInits(); len(starts) != 2 || !maps.Equal(starts[0].Config, starts[1].Config) {
		t.Errorf("unexpected initialization of the store: %+v", starts)
	}
}

// TestOpen_PluginErrors checks the messages for users.
func TestOpen_PluginErrors(t *testing.T) {
	t.Parallel()
	config := func(key, value string) func(*v1alpha1.BackupStorageLocation) {
		return func(at *v1alpha1.BackupStorageLocation) {
			at.Spec.Plugin.Config = v1alpha1.ProviderConfig{key: v1alpha1.ParameterValue(value)}
		}
	}
	for name, tc := range map[string]struct {
		plugins []*v1alpha1.Plugin
		loaded  bool
		at      *v1alpha1.BackupStorageLocation
		want    []string
	}{
		"no Plugin": {
			at:   inPlugin("uid", "first"),
			want: []string{`no Plugin provides the ObjectStore "test.example.io/directory"`, "create the Plugin, or fix spec.plugin.provider"},
		},
		"a Plugin that never ran": {
			plugins: []*v1alpha1.Plugin{func() *v1alpha1.Plugin {
				plugin := provider("broken", false, "no such file")
				plugin.Status.Actions = nil
				return plugin
			}()},
			at:   inPlugin("uid", "first"),
			want: []string{"no Plugin provides", "have not been loaded, and what they provide is not known: broken"},
		},
		"a Plugin that is not ready": {
			plugins: []*v1alpha1.Plugin{provider(pluginName, false, "directories: no such file in the plugin directory")},
			at:      inPlugin("uid", "first"),
			want:    []string{"the Plugin directories, which provides the ObjectStore", "is not ready: directories: no such file in the plugin directory"},
		},
		"a missing bucket": {
			plugins: []*v1alpha1.Plugin{provider(pluginName, true, "")}, loaded: true,
			at:   inPlugin("uid", "missing"),
			want: []string{"checking the storage location", `refused its configuration`, `the bucket "missing" does not exist`},
		},
		"a key that the plugin does not know": {
			plugins: []*v1alpha1.Plugin{provider(pluginName, true, "")}, loaded: true,
			at:   inPlugin("uid", "first", config("regoin", "x")),
			want: []string{"config has invalid key regoin"},
		},
		"credentials that the plugin repeats": {
			plugins: []*v1alpha1.Plugin{provider(pluginName, true, "")}, loaded: true,
			at:   inPlugin("uid", "first", withCredential),
			want: []string{"unknown credentials [REDACTED]"},
		},
		"the ready one of two": {
			plugins: []*v1alpha1.Plugin{provider("another", false, "DuplicateAction"), provider(pluginName, true, "")}, loaded: true,
			at: inPlugin("uid", "first"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSiteWithout(t, "first")
			for _, plugin := range tc.plugins {
				s.create(plugin.DeepCopy())
			}
			s.secret("wrong=" + password)
			spec := s.directory.PluginSpec(pluginName)
			if !tc.loaded {
				spec.Process.Path = "/nowhere/directories"
			}
			if _, err := s.catalog.Load(t.Context(), spec); (err == nil) != tc.loaded {
				t.Fatal(err)
			}
			err := s.probe(tc.at)
			if (err == nil) != (tc.want == nil) {
				t.Fatalf("error %v", err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q, want it to contain %q", err, part)
				}
			}
			if err != nil && strings.Contains(err.Error(), password) {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
	_, err := opener("", nil).Open(t.Context(), inPlugin("uid", "first"))
	if !errors.Is(err, location.ErrInvalidSpec) || !strings.Contains(err.Error(), "runs no plugins") {
		t.Errorf("an operator without plugins: %v", err)
	}
}

// TestOpen_PluginDeleted: the error names the missing Plugin.
func TestOpen_PluginDeleted(t *testing.T) {
	t.Parallel()
	s := newSite(t, "first")
	at := inPlugin("uid-1", "first")
	s.mustProbe(at)
	if err := s.cluster.Delete(t.Context(), provider(pluginName, true, "")); err != nil {
		t.Fatal(err)
	}
	s.catalog.Unload(t.Context(), pluginName)
	err := s.probe(at)
	if err == nil || !strings.Contains(err.Error(), "the Plugin directories, which provided it, was deleted; create it again") {
		t.Errorf("error %v", err)
	}
	s.awaitEnd(s.directory.AcceptedInits()[0].PID)
}

// TestOpen_PluginNotLoaded waits until an operator that has just started has loaded the plugin.
func TestOpen_PluginNotLoaded(t *testing.T) {
	t.Parallel()
	s := newSiteWithout(t, "first")
	s.create(provider(pluginName, true, ""))
	ended := make(chan error, 1)
	go func() { ended <- s.probe(inPlugin("uid-1", "first")) }()
	if _, err := s.catalog.Load(t.Context(), s.directory.PluginSpec(pluginName)); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := newSiteWithout(t)
	other.create(provider(pluginName, true, ""))
	_, err := other.opener.Open(ctx, inPlugin("uid-1", "first"))
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "has not been started yet") {
		t.Errorf("error %v", err)
	}
}
