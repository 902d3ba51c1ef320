// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package sdkplugins

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt/process"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
)

// pluginName is the file name under which this program is a plugin.
const pluginName = "sdk-plugin"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == pluginName {
		servePlugin()
		return
	}
	// Velero looks for plugins in its own program, too. There are none.
	if len(os.Args) > 1 && os.Args[1] == "run-plugins" {
		framework.NewServer().Serve()
		return
	}
	flag.Parse()
	// Velero hands the flags of its server to all plugins.
	os.Args = []string{os.Args[0], "server", "--log-level=debug", "--features=EnableCSI", "--fs-backup-timeout=4h"}
	os.Exit(m.Run())
}

// server is Velero's server as plugins see it.
type server struct {
	clientmgmt.Manager
	process.Registry
	log *logText
}

// logText is what Velero's server logs.
type logText struct {
	mu   sync.Mutex
	text []byte
}

// Write adds to the text.
func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

var _ io.Writer = (*logText)(nil)

// serverWith starts Velero's side with a plugin and ends it with the test.
func serverWith(t *testing.T, program, name string) *server {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	s := &server{log: &logText{}}
	log := logrus.New()
	log.SetOutput(s.log)
	log.SetLevel(logrus.DebugLevel)
	s.Registry = process.NewRegistry(dir, log, logrus.DebugLevel)
	if err := s.DiscoverPlugins(); err != nil {
		t.Fatalf("Velero does not start with the plugin: %v\n%s", err, s.log)
	}
	s.Manager = clientmgmt.NewManager(log, logrus.DebugLevel, s.Registry)
	t.Cleanup(func() {
		s.CleanupClients()
		if t.Failed() {
			t.Logf("Velero's log:\n%s", s.log)
		}
	})
	return s
}

// withPlugin is serverWith for the plugin that this program is.
func withPlugin(t *testing.T) *server {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return serverWith(t, program, pluginName)
}
